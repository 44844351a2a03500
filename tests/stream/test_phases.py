"""Which calls are allowed in which phase. A refused call raises and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import BridgeError
from penstock.protocol.items import WebSearchCall
from penstock.stream.deltas import (
    BlockKind,
    Delta,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.phases import TRANSITIONS, Lifecycle, Move, ResponseStreamPhase, diagram
from tests.stream.running import (
    CITATION,
    assert_lawful,
    machine,
    plain,
    types,
)

Machine = ResponseStreamStateMachine

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
        [ToolCallDelta(key=0, id="a", whole=True)],
        [ReasoningDelta("hm"), ToolCallDelta(key=0, id="a")],
    ],
    ids=[
        *("no name", "cut", "ended and cut", "a second call cut", "nested too deeply"),
        *("an empty call alone", "an empty call after reasoning"),
    ],
)
def test_finish_with_an_incomplete_call_is_refused_and_fail_is_not(deltas: list[Delta]) -> None:
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


@pytest.mark.parametrize("phase", ResponseStreamPhase)
@pytest.mark.parametrize("move", Move)
def test_only_the_transitions_of_the_table_are_allowed(phase: ResponseStreamPhase, move: Move) -> None:
    life = Lifecycle()
    life.phase, life.queued = phase, move is Move.BEGIN  # only a queued stream can begin
    target = TRANSITIONS[phase].get(move)
    if target is not None:
        assert life.check(move) is target
        return
    with pytest.raises(BridgeError):
        life.move(move)
    assert life.phase is phase


@pytest.mark.parametrize(
    ("moves", "move", "message"),
    [
        ((), Move.DELTA, "the stream has not started: call start() first"),
        ((Move.START,), Move.START, "start is not possible: the stream is in_progress"),
        ((Move.START,), Move.BEGIN, "begin() is only for queued streams; this stream is not queued"),
        ((Move.START, Move.FAIL), Move.DELTA, "the stream has already ended with status `failed`"),
        ((Move.CANCEL,), Move.CANCEL, "the stream has already ended with status `incomplete`"),
    ],
)
def test_a_refusal_says_what_the_stream_is_doing(moves: tuple[Move, ...], move: Move, message: str) -> None:
    life = Lifecycle()
    for each in moves:
        life.move(each)
    with pytest.raises(BridgeError) as caught:
        life.check(move)
    assert caught.value.message == message


def test_a_queued_stream_is_in_progress_but_takes_no_deltas() -> None:
    life = Lifecycle()
    assert (life.status, life.streaming) == ("queued", False)
    life.move(Move.START, queued=True)
    assert (life.phase, life.status, life.streaming) == (ResponseStreamPhase.IN_PROGRESS, "queued", False)
    life.move(Move.BEGIN)
    assert (life.status, life.streaming) == ("in_progress", True)
    life.move(Move.COMPLETE)
    assert (life.status, life.streaming) == ("completed", False)


def test_the_diagram_has_one_line_for_each_pair_of_phases() -> None:
    lines = diagram().splitlines()
    assert "    IN_PROGRESS --> INCOMPLETE : finish: incomplete, cancel" in lines
    pairs = {(phase, target) for phase, moves in TRANSITIONS.items() for target in moves.values()}
    ends = [phase for phase, moves in TRANSITIONS.items() if not moves]
    assert len(lines) == 2 + len(pairs) + len(ends)
