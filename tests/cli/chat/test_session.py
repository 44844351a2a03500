"""The interactive session: prompt, commands, questions, interrupts and outcomes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import OK, PROBLEM
from penstock.cli.chat import prompt
from penstock.cli.chat.client import ChatTurn
from penstock.cli.chat.session import Session, incomplete
from penstock.errors import ContextOverflowError, NetworkError
from penstock.parts.parts import DataPart, TextPart
from penstock.parts.result import StreamResult
from penstock.provider.loop import Answer
from tests.cli.chat.fakes import FakeChat, FakeTerminal, model, use_keyboard, use_terminal
from tests.cli.chat.scripts import PIXEL


def session(monkeypatch: pytest.MonkeyPatch, chat: FakeChat, *typed: Any) -> tuple[int, FakeTerminal]:
    """Run a session with these typed lines; return its exit code and the terminal."""
    terminal = use_terminal(monkeypatch)
    use_keyboard(monkeypatch, *typed)
    monkeypatch.setattr(prompt, "_readline", lambda: None)
    with asyncio.Runner() as runner:
        return Session(runner, chat.client).converse(), terminal


def test_a_conversation_until_ctrl_d(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = FakeChat("**One.**", "Two.")
    code, terminal = session(monkeypatch, chat, "first", "  ", "second")
    assert code == OK
    assert chat.asked == [[TextPart("first")], [TextPart("second")]]
    assert [line for line in terminal.lines if line] == [
        "one at http://127.0.0.1:8080/v1. /help lists the commands.",
        "One.",
        "Two.",
    ]


def test_a_command_and_its_error_do_not_end_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    code, terminal = session(monkeypatch, FakeChat(), "/nonsense", "/thinking", "/quit", "never read")
    assert code == OK
    assert "unknown command /nonsense" in terminal.text
    assert "\033[31munknown" in terminal.raw
    assert "thinking is shown in full" in terminal.text


def test_a_leading_space_sends_a_slash_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = FakeChat("ok")
    session(monkeypatch, chat, " /etc is what?")
    assert chat.asked == [[TextPart(" /etc is what?")]]


def test_ctrl_c_twice_at_the_prompt_quits(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = FakeChat("ok")
    code, terminal = session(
        monkeypatch, chat, KeyboardInterrupt, "still here", KeyboardInterrupt, KeyboardInterrupt, "never"
    )
    assert code == OK
    assert chat.asked == [[TextPart("still here")]]
    assert terminal.text.count("(press Ctrl-C again, Ctrl-D or /quit to quit)") == 2


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, asyncio.CancelledError])
def test_a_second_ctrl_c_during_a_turn_drops_the_question(
    monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    code, terminal = session(monkeypatch, FakeChat(interrupt(), "Later."), "first", "second")
    assert code == OK
    assert "stopped; the question was not added to the conversation" in terminal.text
    assert "Later." in terminal.text


def test_an_error_is_explained_and_the_session_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    overflow = ContextOverflowError("x", limit_tokens=1000)
    _, terminal = session(monkeypatch, FakeChat(overflow, "Fine."), "long", "short")
    assert "limit is 1,000 tokens): /undo removes\n  the last exchange, /clear starts a new" in terminal.text
    assert "Fine." in terminal.text


@pytest.mark.parametrize(
    ("facts", "warning"),
    [
        ({"image_input": False}, "one does not accept images"),
        ({}, "one may not accept images"),
        ({"image_input": True}, None),
    ],
)
def test_images_for_a_model_without_them_are_sent_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, facts: dict[str, bool], warning: str | None
) -> None:
    (tmp_path / "a.png").write_bytes(PIXEL)
    chat = FakeChat("A pixel.", "And?", models=[model("one", **facts)])
    _, terminal = session(monkeypatch, chat, f"What is @{tmp_path / 'a.png'}?", "and now?")
    assert ("accept images" in terminal.text) is (warning is not None)
    assert (warning or "") in terminal.text
    assert [type(part) for part in chat.asked[0]] == [DataPart, TextPart]
    assert len(chat.asked[1]) == 1


def test_an_image_of_a_command_is_sent_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PIXEL)
    chat = FakeChat("One.", "Two.")
    session(monkeypatch, chat, f"/image {tmp_path / 'a.png'}", "what?", "and now?")
    assert [len(parts) for parts in chat.asked] == [2, 1]


def test_a_single_question_returns_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    chat = FakeChat("Yes.", NetworkError("the connection broke"))
    with asyncio.Runner() as runner:
        once = Session(runner, chat.client)
        assert [once.ask_once("one?"), once.ask_once("two?")] == [OK, PROBLEM]
    assert "Yes." in terminal.text
    assert "the connection broke" in terminal.text


def test_a_session_without_a_model_list_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unlisted(FakeChat):
        async def models(self) -> Any:
            raise NetworkError("no list")

    code, terminal = session(monkeypatch, Unlisted(), "/model")
    assert code == OK
    assert "no list" in terminal.text


_ROUNDS = "stopped after 1 round of tool calls without an answer; ask again to continue"


def turn(finish: str = "stop", text: str = "a", stopped: str = "answered") -> ChatTurn:
    return ChatTurn([], Answer(text, [], [StreamResult(finish=finish)], stopped))


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (turn(), ""),
        (ChatTurn([]), ""),
        (turn("length"), "the answer was cut off: it reached the output token limit"),
        (turn("content_filter"), "the answer was cut off by the endpoint's content filter"),
        (turn(text=""), "the model returned no text"),
        (turn("cancelled", ""), ""),
        (turn(stopped="turns"), _ROUNDS),
    ],
)
def test_an_incomplete_answer_has_a_reason(result: ChatTurn, reason: str) -> None:
    assert incomplete(result) == reason


def test_the_reason_is_shown_below_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = FakeChat("Half of")
    chat.finish = "length"
    _, terminal = session(monkeypatch, chat, "tell me")
    assert "Half of\nthe answer was cut off: it reached the output token limit\n" in terminal.text
