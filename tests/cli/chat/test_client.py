"""The chat client: choosing a model, asking, and what enters the conversation."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.cli import UsageError
from penstock.cli.chat.client import ChatClient, ChatTurn, question_of
from penstock.cli.chat.transcript import Transcript
from penstock.errors import AuthenticationError
from penstock.parts.parts import DataPart, TextPart
from penstock.provider.loop import Listener
from tests.cli.chat.scripts import MODEL, listed, refused, said
from tests.cli.endpoints import endpoint
from tests.client.server import Script, Served, served

T = TypeVar("T")


def use(url: str, action: Callable[[ChatClient], Awaitable[T]], effort: str = "") -> T:
    async def run() -> T:
        chat = ChatClient(endpoint("--base-url", url), Transcript(), effort=effort)
        try:
            return await action(chat)
        finally:
            await chat.aclose()

    return asyncio.run(run())


def chosen(wanted: str | None, *scripts: Script) -> str:
    async def choose(chat: ChatClient) -> str:
        await chat.choose(wanted)
        return chat.model

    with served(*scripts) as server:
        return use(server.url, choose)


@pytest.mark.parametrize(
    ("wanted", "script", "model"),
    [
        (None, listed("only"), "only"),
        ("second", listed("first", "second"), "second"),
        ("unlisted", listed("first"), "unlisted"),
        ("any", refused(404, "no list here"), "any"),
    ],
)
def test_a_model_is_chosen(wanted: str | None, script: Script, model: str) -> None:
    assert chosen(wanted, script) == model


def test_without_a_name_the_list_must_have_one_model() -> None:
    with pytest.raises(UsageError, match=r"choose a model with --model NAME: m0, m1, .*, m7 and 2 more"):
        chosen(None, listed(*(f"m{number}" for number in range(10))))
    with pytest.raises(UsageError, match="lists no models"):
        chosen(None, listed({"id": ""}))
    with pytest.raises(AuthenticationError):
        chosen(None, refused(401, "no", "invalid_api_key"))


def test_no_server_at_the_address_is_a_usage_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UsageError, match="connection refused"):
            use(url, lambda chat: chat.choose("m"))


def asked(server: Served, *questions: str, effort: str = "") -> tuple[list[ChatTurn], int]:
    """Ask the questions; return the turns and the number of exchanges in the transcript."""

    async def ask(chat: ChatClient) -> tuple[list[ChatTurn], int]:
        await chat.choose(MODEL)
        turns = [await chat.ask([TextPart(text)], Listener()) for text in questions]
        return turns, len(chat.transcript.exchanges)

    return use(server.url, ask, effort)


def test_each_question_is_sent_with_the_conversation_so_far() -> None:
    with served(listed(), said("One."), said("Two.")) as server:
        turns, exchanges = asked(server, "first", "second", effort="low")
    assert [turn.answer.text for turn in turns if turn.answer] == ["One.", "Two."]
    assert [len(turn.requests) for turn in turns] == [1, 1]
    assert exchanges == 2
    first, second = (request.json for request in server.asked[1:])
    assert len(second["input"]) == 3
    assert first["reasoning"]["effort"] == "low"
    assert first["prompt_cache_key"] == second["prompt_cache_key"]


def test_a_question_without_an_answer_does_not_enter_the_conversation() -> None:
    """The next request would contain two questions in a row."""
    with served(listed(), refused(400, "no", "invalid_prompt"), said("Two.")) as server:
        (failed, answered), exchanges = asked(server, "first", "second")
    assert (failed.answer, failed.is_in_transcript) == (None, False)
    assert failed.error is not None
    assert answered.is_in_transcript
    assert exchanges == 1
    assert len(server.asked[-1].json["input"]) == 1


def test_images_come_before_the_text() -> None:
    image = DataPart(b"x", "image/png")
    assert question_of("What?", [image]) == [image, TextPart("What?")]
    assert question_of(" ", [image]) == [image]


def test_a_limit_is_learned_from_a_refused_question() -> None:
    message = "This model's maximum context length is 48000 tokens. However, you requested 50123 tokens."

    async def ask(chat: ChatClient) -> list[int]:
        await chat.choose(MODEL)
        turn = await chat.ask([TextPart("first")], Listener())
        assert turn.error is not None
        return [model.context_window for model in await chat.models()]

    with served(listed(), refused(400, message, "context_length_exceeded")) as server:
        assert use(server.url, ask) == [48_000]
        # A new session has it too.
        assert [*endpoint("--base-url", server.url).limits().forget()] == [MODEL]
