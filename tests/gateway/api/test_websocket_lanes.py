"""Turns of one WebSocket that run at the same time, each in the lane of its `stream_id`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.gateway.api.websocket import MOST_LANES, MOST_RUNNING
from penstock.gateway.gateway import Gateway
from penstock.gateway.settings import Limits
from penstock.protocol.events import TERMINAL
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.in_process import chain, with_gateway
from tests.gateway.running import Json
from tests.gateway.websocket_client import Conversation


def on_websocket(test: Callable[[Conversation], Awaitable[None]], *upstreams: FakeUpstream) -> None:
    async def run(gateway: Gateway) -> None:
        conversation = Conversation(gateway)
        await test(conversation)
        await conversation.close()

    with_gateway(run, *upstreams, settings=chain(*upstreams, limits=Limits(retries=0)))


def of(stream_id: str | None, frames: list[Json]) -> list[Json]:
    return [frame for frame in frames if frame.get("stream_id") == stream_id]


def test_turns_with_a_stream_id_of_their_own_interleave() -> None:
    """The second ends while the first is still running; every event carries the id of its lane."""
    slow, gate = paused_upstream()
    slow._answers.append(answer("quick"))

    async def test(conversation: Conversation) -> None:
        conversation.send(stream_id="a")
        await conversation.client.until("output_text.delta")
        conversation.send(stream_id="b")
        await conversation.ends(1)
        gate.set()
        frames = await conversation.ends(2)
        ended = [frame["stream_id"] for frame in frames if frame["type"] in TERMINAL]
        assert ended == ["b", "a"]
        for lane in ("a", "b"):
            events = of(lane, frames)
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert of(None, frames) == []

    on_websocket(test, slow)


@pytest.mark.parametrize("stream_id", [None, "same"])
def test_turns_of_one_lane_run_one_after_the_other(stream_id: str | None) -> None:
    fields: dict[str, Any] = {} if stream_id is None else {"stream_id": stream_id}
    upstream, gate = paused_upstream()
    upstream._answers.append(answer("second"))

    async def test(conversation: Conversation) -> None:
        conversation.send(**fields)
        conversation.send(**fields)
        await conversation.client.until("output_text.delta")
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(upstream.requests) == 1
        gate.set()
        types = [frame["type"] for frame in of(stream_id, await conversation.ends(2))]
        first_end = types.index("response.completed")
        assert types.count("response.created") == 2
        assert "response.created" not in types[1:first_end]

    on_websocket(test, upstream)


def test_a_lane_can_continue_an_unstored_response_of_another() -> None:
    """A fork: the failed continuation in another lane does not forget the response, one in its own does."""
    no = ServerError("no", status=500)
    upstream = FakeUpstream("only", answer("one"), answer("two"), no, answer("three"), no, answer("four"))

    async def test(conversation: Conversation) -> None:
        async def turn(lane: str, **fields: Any) -> Json:
            return (await conversation.turn(stream_id=lane, store=False, **fields))[-1]

        first = (await turn("a", input="1"))["response"]["id"]
        assert (await turn("b", input="2", previous_response_id=first))["type"] == "response.completed"
        failed = await turn("b", previous_response_id=first)
        assert (failed["type"], failed["stream_id"]) == ("error", "b")
        assert (await turn("c", input="3", previous_response_id=first))["type"] == "response.completed"
        assert (await turn("a", previous_response_id=first))["type"] == "error"
        lost = await turn("a", previous_response_id=first)
        assert lost["error"]["code"] == "previous_response_not_found"

    on_websocket(test, upstream)
    assert [each["content"] for each in upstream.requests[1].body["messages"]] == ["1", "one", "2"]
    assert [each["content"] for each in upstream.requests[3].body["messages"]] == ["1", "one", "3"]


@pytest.mark.parametrize("stream_id", ["", "two words", "x" * 257, 7, ["a"], 'quo"te', "ümlaut"])
def test_an_invalid_stream_id_is_an_error(stream_id: Any) -> None:
    async def test(conversation: Conversation) -> None:
        [error] = await conversation.turn(stream_id=stream_id)
        assert (error["status"], error["error"]["code"]) == (400, "invalid_stream_id")
        assert error["error"]["param"] == "stream_id"
        assert "stream_id" not in error
        assert (await conversation.turn())[-1]["type"] == "response.completed"

    on_websocket(test, FakeUpstream("only", answer("Hello")))


def test_a_connection_has_a_limited_number_of_lanes() -> None:
    async def test(conversation: Conversation) -> None:
        for number in range(MOST_LANES):
            assert (await conversation.turn(stream_id=f"lane-{number}"))[-1]["type"] == "response.completed"
        [error] = await conversation.turn(stream_id="one-more")
        assert error["error"]["code"] == "websocket_stream_limit_reached"
        assert error["stream_id"] == "one-more"
        for used in ("lane-0", None):
            assert (await conversation.turn(stream_id=used))[-1]["type"] == "response.completed"

    on_websocket(test, FakeUpstream("only", answer("Hello")))


def test_a_limited_number_of_turns_run_at_a_time() -> None:
    upstream, gate = paused_upstream()
    upstream._answers = [upstream._answers[0]]

    async def test(conversation: Conversation) -> None:
        for number in range(MOST_RUNNING + 3):
            conversation.send(stream_id=f"lane-{number}")
            for _ in range(20):
                await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while len(upstream.requests) < MOST_RUNNING:
                await asyncio.sleep(0.001)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(upstream.requests) == MOST_RUNNING
        gate.set()
        frames = await conversation.ends(MOST_RUNNING + 3)
        assert {frame["type"] for frame in frames if frame["type"] in TERMINAL} == {"response.completed"}

    on_websocket(test, upstream)


def test_steering_is_refused_while_the_turn_runs_and_returns_the_input() -> None:
    upstream, gate = paused_upstream()
    said = [{"type": "message", "role": "user", "content": "no, the other one"}]

    async def test(conversation: Conversation) -> None:
        conversation.send(stream_id="a")
        await conversation.client.until("output_text.delta")
        id = conversation.frames[0]["response"]["id"]
        conversation.send(type="response.steer", previous_response_id=id, input=said)
        await conversation.client.until("response.steer.failed")
        failed = conversation.frames[-1]
        assert failed["error"]["code"] == "steering_not_supported"
        assert failed["steer"] == {"previous_response_id": id, "input": said}
        assert failed["stream_id"] == "a"
        gate.set()
        assert (await conversation.ends(1))[-1]["type"] == "response.completed"

    on_websocket(test, upstream)


def test_a_client_that_disconnects_ends_the_turns_of_all_lanes(verdicts: list[Json]) -> None:
    upstream, _ = paused_upstream()

    async def test(conversation: Conversation) -> None:
        for lane in ("a", "b"):
            conversation.send(stream_id=lane)
        async with asyncio.timeout(10):
            while sum("delta" in frame["type"] for frame in conversation.frames) < 2:
                await asyncio.sleep(0.001)

    on_websocket(test, upstream)
    assert [verdict["code"] for verdict in verdicts] == ["client_gone", "client_gone"]
    assert len({verdict["request_id"] for verdict in verdicts}) == 2
    assert all(source.is_closed for source in upstream.sources)
