"""Recorded reasoning comes back to its upstream byte for byte, whichever way the client returns it (ask C1 to
ask C5).

Each recording is the answer of turn 1. The gateway is then restarted, so that turn 2 has only what the client
sends and what the store has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.dialects.chat.messages import NO_REASONING
from penstock.errors import RateLimitError
from penstock.gateway.gateway import Gateway
from penstock.gateway.services import Services
from penstock.gateway.settings import ModelRoute, RouteStep, Settings
from penstock.store import open_store
from penstock.tokens.counter import TokenCounter
from tests.dialects.recordings import needs_recordings
from tests.gateway.history.recorded_loops import LOOPS, PAUSED, Json, PlayingUpstream
from tests.gateway.in_process import call, chain

pytestmark = needs_recordings

ASKED = {"type": "message", "role": "user", "content": "Please look it up."}
MORE = {"type": "message", "role": "user", "content": "And then?"}
INCLUDE = ["reasoning.encrypted_content"]


class Conversation:
    """A client and its gateway, which `restart` replaces. The store is a file, or empty after each start."""

    def __init__(self, folder: Path, *upstreams: PlayingUpstream, settings: Settings | None = None) -> None:
        self._file = folder / "store.sqlite"
        self._upstreams = {each.name: each for each in upstreams}
        self._settings = settings or chain(*upstreams)
        self.gateway: Gateway

    async def restart(self, *, forget: bool = False) -> None:
        if hasattr(self, "gateway"):
            await self.gateway.aclose()
        if forget:
            self._file.unlink(missing_ok=True)
        self.gateway = Gateway(self._settings, store=await open_store(self._file))
        self.gateway.services = Services(
            self._settings, self._upstreams, self.gateway.metrics, TokenCounter()
        )

    async def ask(self, items: list[Json], **fields: Any) -> Json:
        body = {"model": "m", "stream": True, **fields}
        caller = await call(self.gateway, **body, input=items)
        assert caller.status == 200, caller.body
        response: Json = caller.response if body["stream"] else caller.json
        return response


def follow_up(output: list[Json]) -> list[Json]:
    """What a client adds after an answer: the outputs of its calls, or another message."""
    calls = [item for item in output if item["type"] == "function_call"]
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "done"} for item in calls
    ]
    return outputs or [MORE]


def as_summary(item: Json) -> Json:
    """A reasoning item as clients get it that asked for a summary: raw text in the summary."""
    moved = [{"type": "summary_text", "text": part["text"]} for part in item.get("content", [])]
    return {**item, "content": [], "summary": item["summary"] or moved}


def reasoning_as(change: Callable[[Json], Json | None], output: list[Json]) -> list[Json]:
    changed = [change(item) if item["type"] == "reasoning" else item for item in output]
    return [item for item in changed if item is not None]


def without(item: Json, *names: str) -> Json:
    return {name: value for name, value in item.items() if name not in names}


STATELESS: dict[str, Callable[[Json], Json]] = {
    "encrypted content": lambda item: item,
    "encrypted content alone": lambda item: {**without(item, "id", "status", "content"), "summary": []},
    "encrypted content, text as a summary": as_summary,
}
"""How a client returns a reasoning item if it keeps everything itself."""

STORED: dict[str, Callable[[Json], Json | None]] = {
    "id only": lambda item: {"type": "reasoning", "id": item["id"], "summary": []},
    "id and text as a summary": lambda item: without(as_summary(item), "encrypted_content", "content"),
    "item_reference": lambda item: {"type": "item_reference", "id": item["id"]},
    "call ids alone": lambda _: None,
}
"""How a client returns a reasoning item of a stored response."""


def codes_of(response: Json) -> set[str]:
    return {each["code"] for each in response.get("diagnostics", [])}


@pytest.mark.parametrize("way", STATELESS)
@pytest.mark.parametrize("provider", LOOPS)
def test_a_client_that_keeps_everything_needs_no_store(tmp_path: Path, provider: str, way: str) -> None:
    loop = LOOPS[provider]

    async def test() -> None:
        upstream = PlayingUpstream("only", loop)
        client = Conversation(tmp_path, upstream)
        await client.restart()
        output = (await client.ask([ASKED], store=False, include=INCLUDE))["output"]
        await client.restart(forget=True)
        history = reasoning_as(STATELESS[way], output)
        await client.ask([ASKED, *history, *follow_up(output)], store=False, include=INCLUDE)
        assert loop.sent(upstream.requests[1].body) == loop.received(loop.chunks())
        await client.gateway.aclose()

    asyncio.run(test())


@pytest.mark.parametrize("way", STORED)
@pytest.mark.parametrize("provider", LOOPS)
def test_a_stored_response_completes_what_the_client_returns(tmp_path: Path, provider: str, way: str) -> None:
    loop = LOOPS[provider]

    async def test() -> None:
        upstream = PlayingUpstream("only", loop)
        client = Conversation(tmp_path, upstream)
        await client.restart()
        output = (await client.ask([ASKED]))["output"]
        if way == "call ids alone" and not any(item["type"] == "function_call" for item in output):
            pytest.skip("the recorded answer has no calls")
        await client.restart()
        history = reasoning_as(STORED[way], output)
        await client.ask([ASKED, *history, *follow_up(output)])
        assert loop.sent(upstream.requests[1].body) == loop.received(loop.chunks())
        await client.gateway.aclose()

    asyncio.run(test())


@pytest.mark.parametrize("provider", LOOPS)
def test_previous_response_id_brings_the_reasoning_back(tmp_path: Path, provider: str) -> None:
    loop = LOOPS[provider]

    async def test() -> None:
        upstream = PlayingUpstream("only", loop)
        client = Conversation(tmp_path, upstream)
        await client.restart()
        first = await client.ask([ASKED])
        await client.restart()
        await client.ask(follow_up(first["output"]), previous_response_id=first["id"])
        assert loop.sent(upstream.requests[1].body) == loop.received(loop.chunks())
        await client.gateway.aclose()

    asyncio.run(test())


@pytest.mark.parametrize("way", ["call ids alone", "id and text as a summary"])
def test_reasoning_is_not_sent_to_a_vendor_that_does_not_take_it(tmp_path: Path, way: str) -> None:
    """However it would be found again."""
    loop = LOOPS["DeepSeek"]

    async def test() -> None:
        upstream = PlayingUpstream("only", loop)
        other = PlayingUpstream("other", replace(loop, vendor="mistral"))
        routes = {
            name: ModelRoute(name=name, steps=(RouteStep(target, "m"),))
            for name, target in (("m", "only"), ("n", "other"))
        }
        client = Conversation(tmp_path, upstream, other, settings=Settings(models=routes))
        await client.restart()
        output = (await client.ask([ASKED]))["output"]
        history = [ASKED, *reasoning_as(STORED[way], output), *follow_up(output)]
        response = await client.ask(history, model="n")
        assert "reasoning_content" not in str(other.requests[0].body)
        assert "reasoning_left_out" in codes_of(response)
        await client.gateway.aclose()

    asyncio.run(test())


# A turn that its vendor paused


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_paused_turn_is_continued_after_a_restart(tmp_path: Path, is_stored: bool) -> None:
    async def test() -> None:
        upstream = PlayingUpstream("only", PAUSED)
        client = Conversation(tmp_path, upstream)
        await client.restart()
        paused = await client.ask([ASKED], store=is_stored, stream=False)
        assert paused["incomplete_details"] == {"reason": "pause_turn"}
        await client.restart(forget=not is_stored)
        if is_stored:
            await client.ask([], previous_response_id=paused["id"], stream=False)
        else:
            await client.ask([ASKED, *paused["output"]], store=False, stream=False)
        _, assistant = upstream.requests[1].body["messages"]
        received = [
            chunk["content_block"] for chunk in PAUSED.chunks() if chunk["type"] == "content_block_start"
        ]
        results = [block for block in received if block["type"].endswith("_tool_result")]
        assert [block["type"] for block in assistant["content"]] == [block["type"] for block in received]
        assert [block for block in assistant["content"] if block["type"].endswith("_tool_result")] == results
        assert PAUSED.sent(upstream.requests[1].body) == PAUSED.received(PAUSED.chunks())
        await client.gateway.aclose()

    asyncio.run(test())


# Another model in the middle (ask C5)


SWITCHES = ("Claude, signed", "OpenAI", "Gemini 3, parallel calls", "Claude, signed")


@pytest.mark.parametrize("is_stored", [True, False])
def test_each_model_of_a_conversation_gets_only_its_own_reasoning(tmp_path: Path, is_stored: bool) -> None:
    async def test() -> None:
        upstreams = {name: PlayingUpstream(name, LOOPS[name]) for name in dict.fromkeys(SWITCHES)}
        routes = {name: ModelRoute(name=name, steps=(RouteStep(name, "m"),)) for name in upstreams}
        client = Conversation(tmp_path, *upstreams.values(), settings=Settings(models=routes))
        await client.restart()
        history: list[Json] = [ASKED]
        codes: list[set[str]] = []
        for name in SWITCHES:
            response = await client.ask(history, model=name, store=is_stored, include=INCLUDE)
            codes.append(codes_of(response))
            history += [*response["output"], *follow_up(response["output"])]
        last = upstreams["Claude, signed"].requests[1].body
        thinking = [
            block
            for message in last["messages"]
            for block in message["content"]
            if "thinking" in block["type"]
        ]
        assert thinking == LOOPS["Claude, signed"].received(LOOPS["Claude, signed"].chunks())
        for other in ("OpenAI", "Gemini 3, parallel calls"):
            body = str(upstreams[other].requests[0].body)
            assert "pk1." not in body
            assert thinking[0]["signature"] not in body
            assert thinking[0]["thinking"] not in body
        assert ["reasoning_left_out" in each for each in codes] == [False, True, True, True]
        # No reasoning without the item that must follow it.
        assert all(item["type"] != "reasoning" for item in upstreams["OpenAI"].requests[0].body["input"])
        await client.gateway.aclose()

    asyncio.run(test())


def test_a_vendor_that_requires_reasoning_goes_on_with_a_conversation_of_another(tmp_path: Path) -> None:
    """Both refuse a call without `reasoning_content`, and neither gets the other's."""

    async def test() -> None:
        upstreams = {name: PlayingUpstream(name, LOOPS[name]) for name in ("DeepSeek", "Kimi")}
        routes = {name: ModelRoute(name=name, steps=(RouteStep(name, "m"),)) for name in upstreams}
        client = Conversation(tmp_path, *upstreams.values(), settings=Settings(models=routes))
        await client.restart()
        history: list[Json] = [ASKED]
        for name in ("DeepSeek", "Kimi", "DeepSeek"):
            response = await client.ask(history, model=name, store=False, include=INCLUDE)
            history += [*response["output"], *follow_up(response["output"])]
        first, second = upstreams["Kimi"].requests[0], upstreams["DeepSeek"].requests[1]
        (own,) = LOOPS["DeepSeek"].received(LOOPS["DeepSeek"].chunks())
        assert reasoning_in(first.body) == [NO_REASONING]
        assert reasoning_in(second.body) == [own, NO_REASONING]
        await client.gateway.aclose()

    asyncio.run(test())


def reasoning_in(body: Json) -> list[Any]:
    return [each.get("reasoning_content") for each in body["messages"] if each["role"] == "assistant"]


# Several keys (ask C4)


BUSY = RateLimitError("slow down", status=429, retry_after=60.0)
KEYS = ("k1", "k2")


CONTINUED: dict[str, Callable[[Json, list[Json]], Json]] = {
    "sealed reasoning": lambda _, history: {"input": history, "store": False, "include": INCLUDE},
    "previous_response_id": lambda first, _: {
        "input": follow_up(first["output"]),
        "previous_response_id": first["id"],
    },
}


@pytest.mark.parametrize("way", CONTINUED)
def test_a_conversation_stays_with_the_key_that_its_reasoning_is_bound_to(tmp_path: Path, way: str) -> None:
    async def test() -> None:
        upstream = PlayingUpstream("only", LOOPS["OpenAI"], KEYS)
        client = Conversation(tmp_path, upstream)
        await client.restart()
        upstream.failures.append(BUSY)
        kept: Json = {"include": INCLUDE} if way == "sealed reasoning" else {}
        first = await client.ask([ASKED], **kept)
        upstream.keys = type(upstream.keys)(
            KEYS, clock=lambda: 0.0, spread=False
        )  # both keys are ready again
        history = [ASKED, *first["output"], *follow_up(first["output"])]
        fields = CONTINUED[way](first, history)
        await client.ask(fields.pop("input"), **fields)
        await client.ask([ASKED])
        assert upstream.used == ["k2", "k2", "k1"]
        await client.gateway.aclose()

    asyncio.run(test())


def test_if_the_key_rests_the_conversation_goes_on_without_the_reasoning_that_is_bound_to_it(
    tmp_path: Path,
) -> None:
    loop = LOOPS["OpenAI"]

    async def test() -> None:
        upstream = PlayingUpstream("only", loop, KEYS)
        client = Conversation(tmp_path, upstream)
        await client.restart()
        first = await client.ask([ASKED])
        upstream.failures.append(BUSY)
        second = await client.ask(follow_up(first["output"]), previous_response_id=first["id"])
        assert upstream.used == ["k1", "k2"]
        assert loop.sent(upstream.requests[1].body) == []
        (diagnostic,) = [each for each in second["diagnostics"] if each["code"] == "reasoning_left_out"]
        assert "another key" in diagnostic["message"]
        upstream.keys = type(upstream.keys)(KEYS, clock=lambda: 0.0, spread=False)
        await client.ask(follow_up(second["output"]), previous_response_id=second["id"])
        assert upstream.used[-1] == "k1"
        assert loop.sent(upstream.requests[2].body) == loop.received(loop.chunks())
        await client.gateway.aclose()

    asyncio.run(test())


def test_of_two_equal_targets_the_one_with_the_conversations_key_is_used(tmp_path: Path) -> None:
    """Two accounts behind one name, each a target of its own."""
    loop = LOOPS["OpenAI"]

    async def test() -> None:
        one, two = (PlayingUpstream(name, loop, (f"key of {name}",)) for name in ("one", "two"))
        client = Conversation(tmp_path, one, two)
        await client.restart()
        one.failures.append(BUSY)
        first = await client.ask([ASKED])
        one.keys = type(one.keys)(("key of one",), clock=lambda: 0.0)
        second = await client.ask(follow_up(first["output"]), previous_response_id=first["id"])
        assert (len(one.used), len(two.used)) == (0, 2)
        assert loop.sent(two.requests[1].body) == loop.received(loop.chunks())
        assert {"fell_back", "reasoning_left_out"}.isdisjoint(codes_of(second))
        await client.gateway.aclose()

    asyncio.run(test())
