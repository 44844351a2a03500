"""OpenAI's Python library on stored responses: every method that takes an id."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response

from tests.client.server import Script, in_a_thread, run
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.probes import wait_for
from tests.gateway.running import Running, gateway
from tests.gateway.upstream import ScriptedUpstream, begun, rest, said, streamed, until, until_gone

pytestmark = pytest.mark.e2e

Order = Literal["asc", "desc"]


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def running(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("state")
    with gateway(folder, config=CONFIG.format(url=upstream.url)) as started:
        yield started


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{running.url}/v1", api_key="sk-any", max_retries=0, timeout=30) as made:
        yield made


def held(opened: threading.Event) -> Script:
    """Script an answer in two halves; the test releases the second one."""
    return [*begun(chat_chunk({"content": "first "})), until(opened), rest("second")]


def users(count: int) -> list[Any]:
    return [{"role": "user", "content": f"number {number}"} for number in range(count)]


def contents(items: Any) -> list[str]:
    return [text if isinstance(text := item.content, str) else text[0].text for item in items]


# Responses


def test_a_response_is_retrieved_unchanged(client: OpenAI, upstream: ScriptedUpstream) -> None:
    model = upstream.play("retrieved", streamed(*said("the answer")))
    made = client.responses.create(model=model, input="x", metadata={"a": "b"})
    assert client.responses.retrieve(made.id).to_dict() == made.to_dict()
    assert made.output_text == "the answer"


def test_a_stream_is_retrieved_from_any_event(client: OpenAI, upstream: ScriptedUpstream) -> None:
    model = upstream.play("streamed", streamed(*said("the whole answer")))
    sent = [event.to_dict() for event in client.responses.create(model=model, input="x", stream=True)]
    id = sent[0]["response"]["id"]  # type: ignore[index]
    again = client.responses.retrieve(id, stream=True)
    assert [event.to_dict() for event in again] == sent
    for after in (0, len(sent) // 2, len(sent) - 2):
        rest_of_stream = client.responses.retrieve(id, stream=True, starting_after=after)
        assert [event.to_dict() for event in rest_of_stream] == sent[after + 1 :]
    assert list(client.responses.retrieve(id, stream=True, starting_after=len(sent) - 1)) == []


def test_a_running_stream_is_resumed(client: OpenAI, upstream: ScriptedUpstream) -> None:
    opened = threading.Event()
    model = upstream.play("taken-up", held(opened))
    with client.responses.create(model=model, input="x", stream=True, background=True) as first:
        seen = []
        for event in first:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
    assert seen[0].type == "response.created"
    id = seen[0].response.id
    rest_of_stream = client.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number)
    opened.set()
    events = [*seen, *rest_of_stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "first second"
    assert len(upstream.asked_for(model)) == 1


def test_a_background_turn_is_polled_to_its_end(client: OpenAI, upstream: ScriptedUpstream) -> None:
    opened = threading.Event()
    made = client.responses.create(model=upstream.play("polled", held(opened)), input="x", background=True)
    assert (made.status, made.output, made.background) == ("queued", [], True)
    assert client.responses.retrieve(made.id).status in ("queued", "in_progress")
    opened.set()
    seen: list[Response] = []

    def has_ended() -> bool:
        seen.append(client.responses.retrieve(made.id))
        return seen[-1].status not in ("queued", "in_progress")

    wait_for(has_ended)
    assert (seen[-1].status, seen[-1].output_text) == ("completed", "first second")


def test_a_running_turn_is_cancelled_and_one_that_ended_is_not(
    client: OpenAI, upstream: ScriptedUpstream
) -> None:
    disconnected = threading.Event()
    model = upstream.play("cancelled", [*begun(chat_chunk({"content": "half"})), until_gone(disconnected)])
    made = client.responses.create(model=model, input="x", background=True)
    wait_for(lambda: client.responses.retrieve(made.id).output_text == "half")
    for _ in range(2):
        cancelled = client.responses.cancel(made.id)
        assert (cancelled.status, cancelled.output_text) == ("cancelled", "half")
    assert disconnected.wait(10)
    ended = client.responses.create(model=upstream.play("ended", streamed(*said("ok"))), input="x")
    assert client.responses.cancel(ended.id).status == "completed"


def test_a_deleted_response_is_not_found(client: OpenAI, upstream: ScriptedUpstream) -> None:
    made = client.responses.create(model=upstream.play("deleted", streamed(*said("ok"))), input="x")
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_input_items_are_paged_by_the_library(
    client: OpenAI, upstream: ScriptedUpstream, order: Order
) -> None:
    model = upstream.play(f"paged-{order}", streamed(*said("ok")))
    first = client.responses.create(model=model, input=users(5))
    made = client.responses.create(model=model, input="the last", previous_response_id=first.id)
    page = client.responses.input_items.list(made.id, order=order, limit=2)
    assert page.has_more is True
    expected = [*(f"number {number}" for number in range(5)), "ok", "the last"]
    assert contents(page) == (expected if order == "asc" else expected[::-1])


def test_a_tool_loop_continues_by_id(client: OpenAI) -> None:
    tool: Any = {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": False,
    }
    first = client.responses.create(model="demo", input="What is the weather in Lisbon?", tools=[tool])
    [call] = [item for item in first.output if item.type == "function_call"]
    second = client.responses.create(
        model="demo",
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "17 degrees"}],
        tools=[tool],
        previous_response_id=first.id,
    )
    assert "17 degrees" in second.output_text


def test_a_compacted_history_is_continued(client: OpenAI, upstream: ScriptedUpstream) -> None:
    model = upstream.play("compacted", streamed(*said("a summary")), streamed(*said("on we go")))
    compacted = client.responses.compact(model=model, input=users(3))
    assert compacted.object == "response.compaction"
    [item] = compacted.output
    assert item.type == "compaction"
    history: list[Any] = [item.to_dict(), {"role": "user", "content": "go on"}]
    assert client.responses.create(model=model, input=history).output_text == "on we go"
    assert "a summary" in upstream.asked_for(model)[1].json["messages"][0]["content"]


# Conversations


def test_a_conversation_is_created_changed_and_deleted(client: OpenAI) -> None:
    made = client.conversations.create(metadata={"topic": "lamps"}, items=users(1))
    assert (made.object, made.metadata) == ("conversation", {"topic": "lamps"})
    assert client.conversations.retrieve(made.id).to_dict() == made.to_dict()
    assert client.conversations.update(made.id, metadata={"topic": "doors"}).metadata == {"topic": "doors"}
    deleted = client.conversations.delete(made.id)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_items_of_a_conversation_are_paged_by_the_library(client: OpenAI, order: Order) -> None:
    id = client.conversations.create().id
    client.conversations.items.create(id, items=users(5))
    expected = [f"number {number}" for number in range(5)]
    page = client.conversations.items.list(id, order=order, limit=2)
    assert contents(page) == (expected if order == "asc" else expected[::-1])


def test_an_item_of_a_conversation_is_found_and_deleted(client: OpenAI) -> None:
    id = client.conversations.create().id
    added = client.conversations.items.create(id, items=users(2)).data
    first = str(added[0].id)
    found: Any = client.conversations.items.retrieve(first, conversation_id=id)
    assert contents([found]) == ["number 0"]
    assert client.conversations.items.delete(first, conversation_id=id).id == id
    assert contents(client.conversations.items.list(id)) == ["number 1"]
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(first, conversation_id=id)


@pytest.mark.parametrize("shape", ["id", "object"])
def test_a_turn_reads_a_conversation_and_adds_to_it(
    client: OpenAI, upstream: ScriptedUpstream, shape: str
) -> None:
    model = upstream.play(f"conversed-{shape}", streamed(*said("the answer")))
    id = client.conversations.create(items=users(1)).id
    conversation: Any = id if shape == "id" else {"id": id}
    made = client.responses.create(model=model, input="a question", conversation=conversation)
    assert made.conversation is not None
    assert made.conversation.id == id
    sent = [message["content"] for message in upstream.asked_for(model)[0].json["messages"]]
    assert sent == ["number 0", "a question"]
    items = client.conversations.items.list(id, order="asc")
    assert contents(items) == ["number 0", "a question", "the answer"]


# What is not there

UNKNOWN = "resp_00000000000000000000000000000000"
NOWHERE = "conv_00000000000000000000000000000000"

Call = Callable[[OpenAI], Any]

REFUSED: dict[str, tuple[Call, type[openai.APIStatusError], str, str]] = {
    "retrieve": (
        lambda client: client.responses.retrieve(UNKNOWN),
        openai.NotFoundError,
        "response_not_found",
        "response_id",
    ),
    "stream": (
        lambda client: client.responses.retrieve(UNKNOWN, stream=True, starting_after=3),
        openai.NotFoundError,
        "response_not_found",
        "response_id",
    ),
    "cancel": (
        lambda client: client.responses.cancel(UNKNOWN),
        openai.NotFoundError,
        "response_not_found",
        "response_id",
    ),
    "delete": (
        lambda client: client.responses.delete(UNKNOWN),
        openai.NotFoundError,
        "response_not_found",
        "response_id",
    ),
    "input_items": (
        lambda client: client.responses.input_items.list(UNKNOWN),
        openai.NotFoundError,
        "response_not_found",
        "response_id",
    ),
    "previous": (
        lambda client: client.responses.create(model="demo", input="x", previous_response_id=UNKNOWN),
        openai.BadRequestError,
        "previous_response_not_found",
        "previous_response_id",
    ),
    "reference": (
        lambda client: client.responses.create(
            model="demo", input=[{"type": "item_reference", "id": "msg_none"}]
        ),
        openai.BadRequestError,
        "item_not_found",
        "input[0].id",
    ),
    "conversation": (
        lambda client: client.conversations.retrieve(NOWHERE),
        openai.NotFoundError,
        "conversation_not_found",
        "conversation_id",
    ),
    "items": (
        lambda client: client.conversations.items.list(NOWHERE),
        openai.NotFoundError,
        "conversation_not_found",
        "conversation_id",
    ),
    "in a conversation": (
        lambda client: client.responses.create(model="demo", input="x", conversation=NOWHERE),
        openai.NotFoundError,
        "conversation_not_found",
        "conversation",
    ),
    "background": (
        lambda client: client.responses.create(model="demo", input="x", background=True, store=False),
        openai.BadRequestError,
        "invalid_request",
        "store",
    ),
}
"""Each request with the library's error, its code and the field that it names."""


@pytest.mark.parametrize("name", REFUSED)
def test_missing_objects_raise_the_errors_of_the_library(client: OpenAI, name: str) -> None:
    call, kind, code, param = REFUSED[name]
    with pytest.raises(kind) as caught:
        call(client)
    assert (caught.value.code, caught.value.param) == (code, param)
    assert caught.value.request_id


# Without waiting


def test_the_asynchronous_client_does_the_same(running: Running, upstream: ScriptedUpstream) -> None:
    model = upstream.play("asynchronous", streamed(*said("ok")))

    async def talk() -> None:
        async with AsyncOpenAI(base_url=f"{running.url}/v1", api_key="x", max_retries=0) as client:
            made = await client.responses.create(model=model, input=users(3))
            events = [event async for event in await client.responses.retrieve(made.id, stream=True)]
            assert events[-1].type == "response.completed"
            items = [item async for item in client.responses.input_items.list(made.id, limit=1, order="asc")]
            assert contents(items) == ["number 0", "number 1", "number 2"]
            conversation = await client.conversations.create(items=users(1))
            await client.responses.create(model=model, input="x", conversation=conversation.id)
            listed = client.conversations.items.list(conversation.id, order="asc", limit=2)
            assert contents([item async for item in listed]) == ["number 0", "x", "ok"]
            await client.responses.delete(made.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(made.id)

    run(talk())
