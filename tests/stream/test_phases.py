"""Which calls are allowed in which phase. A refused call raises and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import BridgeError
from penstock.protocol.items import WebSearchCall
from penstock.stream.deltas import (
    BlockKind,
    FinishReason,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.phases import ResponseStreamPhase
from tests.stream.running import (
    CITATION,
    assert_lawful,
    machine,
    plain,
)

Machine = ResponseStreamStateMachine
# The error of each refused move
DELTA_CALLS: dict[str, Callable[[Machine], object]] = {
    "text": lambda m: m.text("x"),
    "empty text": lambda m: m.text(""),
    "refusal": lambda m: m.refusal("x"),
    "reasoning": lambda m: m.reasoning("x"),
    "summary": lambda m: m.summary("x"),
    "opaque": lambda m: m.opaque("x"),
    "annotation": lambda m: m.annotation(CITATION),
    "tool_call": lambda m: m.tool_call(ToolCallDelta(name="f")),
    "start_block": lambda m: m.start_block(0, BlockKind.TEXT),
    "end_block": lambda m: m.end_block(0),
    "item": lambda m: m.item(0, WebSearchCall(), done=True),
    "event": lambda m: m.event("response.web_search_call.searching", {}),
    "usage": lambda m: m.usage(UsageDelta(input_tokens=1)),
    "diagnostic": lambda m: m.diagnostic("code", "message"),
    "upstream_info": lambda m: m.upstream_info(UpstreamInfo(model="x")),
    "heartbeat": lambda m: m.heartbeat(),
    "defer_finish": lambda m: m.defer_finish(FinishReason.STOP),
    "finish": lambda m: m.finish(FinishReason.STOP),
}
ENDS: dict[str, Callable[[Machine], object]] = {
    "finish": lambda m: m.finish(FinishReason.STOP),
    "finish early": lambda m: m.finish(FinishReason.LENGTH),
    "fail": lambda m: m.fail("server_error", "broken"),
    "cancel": lambda m: m.cancel(),
}
EVERY_CALL = {**DELTA_CALLS, **ENDS}


def refused(stream: Machine, call: Callable[[Machine], object], code: str) -> None:
    """The call raises, and nothing has changed."""
    before = stream.phase, stream.snapshot
    with pytest.raises(BridgeError) as caught:
        call(stream)
    assert caught.value.code == code
    assert (stream.phase, stream.snapshot) == before


@pytest.mark.parametrize("call", DELTA_CALLS.values(), ids=DELTA_CALLS)
def test_output_before_start_is_refused(call: Callable[[Machine], object]) -> None:
    refused(machine(), call, "bridge.stream.output_before_start")


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("call", EVERY_CALL.values(), ids=EVERY_CALL)
def test_every_call_after_the_end_is_refused(
    end: Callable[[Machine], object], call: Callable[[Machine], object]
) -> None:
    stream = machine()
    stream.start()
    end(stream)
    refused(stream, call, "bridge.stream.delta_after_terminal")


def test_a_second_start_and_deltas_while_queued_are_refused() -> None:
    stream = machine()
    stream.start()
    refused(stream, lambda m: m.start(), "bridge.stream.invalid_transition")
    refused(stream, lambda m: m.begin(), "bridge.stream.invalid_transition")
    queued = machine()
    queued.start(queued=True)
    for name, call in DELTA_CALLS.items():
        if name != "heartbeat":
            refused(queued, call, "bridge.stream.invalid_transition")


@pytest.mark.parametrize(
    "deltas",
    [
        [ToolCallDelta(key=0, id="a", arguments='{"x":1}')],
        [ToolCallDelta(key=0, id="a", name="f", arguments='{"x":')],
        [ToolCallDelta(key=0, id="a", name="f", arguments='{"x":', whole=True)],
        [ToolCallDelta(key=0, id="a", name="f", arguments='{"x":1}{"y":')],
        [ToolCallDelta(key=0, id="a", name="f", arguments="[" * 100_000)],
    ],
    ids=["no name", "cut", "ended and cut", "a second call cut", "nested too deeply"],
)
def test_finish_with_an_incomplete_call_is_refused_and_fail_is_not(deltas: list[ToolCallDelta]) -> None:
    stream = machine()
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    refused(stream, lambda m: m.finish(FinishReason.STOP), "bridge.stream.incomplete_tool_call")
    events += stream.fail("bridge.stream.incomplete_tool_call", "incomplete")
    assert stream.phase is ResponseStreamPhase.FAILED
    assert stream.snapshot.error is not None
    assert stream.snapshot.error.code == "bridge.stream.incomplete_tool_call"
    assert_lawful(events)


def types(events: list[dict[str, object]]) -> list[str]:
    return [str(event["type"]).removeprefix("response.") for event in events]


def test_a_queued_stream_waits_until_it_begins() -> None:
    stream = machine()
    events = stream.start(queued=True) + stream.heartbeat() + stream.begin() + stream.text("hi")
    events += stream.finish(FinishReason.STOP)
    received = plain(events)
    assert types(received)[:4] == ["created", "queued", "queued", "in_progress"]
    assert [event["response"]["status"] for event in received[:4]] == ["queued"] * 3 + ["in_progress"]
    assert_lawful(events)


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_a_queued_stream_can_fail_and_be_cancelled(end: str) -> None:
    stream = machine()
    events = stream.start(queued=True)
    events += stream.fail("server_error", "gone") if end == "fail" else stream.cancel()
    assert_lawful(events)


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_an_idle_stream_can_fail_and_be_cancelled(end: str) -> None:
    stream = machine()
    events = stream.fail("server_error", "gone") if end == "fail" else stream.cancel()
    assert types(plain(events))[:2] == ["created", "in_progress"]
    assert_lawful(events)
