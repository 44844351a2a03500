"""Interrupted turns: a log that was cut anywhere becomes a lawful stream, and its record agrees (ask G8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.events import TERMINAL, Event, decode_event
from penstock.protocol.wire import encode
from penstock.store.interrupted import end_interrupted
from penstock.store.records import LoggedEvent
from penstock.stream.deltas import Delta, EventDelta, FinishReason, ReasoningDelta, TextDelta, ToolCallDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.recovery import RESTARTED
from tests.effort import examples
from tests.stream import strategies
from tests.stream.running import assert_lawful, machine

Json = dict[str, Any]


def log_of(deltas: list[Delta]) -> tuple[bytes, list[LoggedEvent]]:
    """Return the first snapshot and the log of a turn that never ended."""
    stream = machine(strategies.TOOLS)
    first = encode(stream.snapshot)
    events = stream.start()
    for delta in deltas:
        # Events of hosted tools belong to one accent, which the plan and not the machine enforces.
        if stream.phase == "in_progress" and not isinstance(delta, EventDelta):
            events += stream.apply(delta)
    logged = [LoggedEvent(event.sequence_number, 1.0, encode(event)) for event in events]
    return first, [event for event in logged if decode_event(event.data).type not in TERMINAL]


def ended(deltas: list[Delta], length: int | None = None) -> tuple[list[LoggedEvent], Json]:
    """Return the complete log and the record of a turn that was cut after so many events."""
    first, log = log_of(deltas)
    written = log[:length]
    interrupted = end_interrupted("resp_1", first, written, 2.0)
    record: Json = json.loads(interrupted.end.response)
    assert [json.loads(item.data) for item in interrupted.end.output] == record["output"]
    return [*written, *interrupted.events], record


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(strategies.deltas, max_size=12), st.integers(0, 60))
def test_a_log_that_was_cut_anywhere_becomes_lawful(deltas: list[Delta], length: int) -> None:
    log, record = ended(deltas, length)
    events = [decode_event(event.data) for event in log]
    assert_lawful(events)
    assert [event.sequence for event in log] == list(range(len(log)))
    assert json.loads(log[-1].data)["response"] == record
    assert (record["status"], record["error"]["code"]) == ("failed", RESTARTED)


def test_open_items_are_stored_as_far_as_received() -> None:
    _, record = ended([ReasoningDelta("hm"), TextDelta("half of "), TextDelta("it")])
    reasoning, message = record["output"]
    assert (reasoning["status"], reasoning["content"][0]["text"]) == ("completed", "hm")
    assert (message["status"], message["content"][0]["text"]) == ("incomplete", "half of it")


def test_half_a_call_is_incomplete() -> None:
    _, record = ended([ToolCallDelta("a", id="call_1", name="get", arguments='{"a":')])
    (call,) = record["output"]
    assert (call["status"], call["arguments"]) == ("incomplete", '{"a":')


def test_an_empty_log_gets_its_first_event() -> None:
    """The log lags behind: `response.created` may have been sent already."""
    log, _ = ended([], 0)
    assert [json.loads(event.data)["type"] for event in log] == ["response.created", "response.failed"]


def test_a_log_with_gaps_is_accepted() -> None:
    first, log = log_of([TextDelta("a"), TextDelta("b"), ToolCallDelta("a", id="c", name="get")])
    for position in range(len(log)):
        written = [*log[:position], *log[position + 1 :]]
        interrupted = end_interrupted("resp_1", first, written, 2.0)
        assert json.loads(interrupted.events[-1].data)["type"] == "response.failed"
    assert end_interrupted("resp_1", b"no json", [LoggedEvent(0, 1.0, b"nor this")]).end.status == "failed"


ENDS: dict[str, Callable[[ResponseStreamStateMachine], list[Event]]] = {
    "completed": lambda made: made.finish(FinishReason.STOP),
    "failed": lambda made: made.fail("server_error", "broken"),
    "cancelled": lambda made: made.cancel(),
}


@pytest.mark.parametrize("status", ENDS)
def test_a_terminal_event_in_the_log_is_the_end_of_the_turn(status: str) -> None:
    """A large terminal event is logged before the record is closed: a crash may come in between."""
    stream = machine(strategies.TOOLS)
    first, events = encode(stream.snapshot), [*stream.start(), *stream.text("all of it")]
    events += ENDS[status](stream)
    log = [LoggedEvent(event.sequence_number, 1.0, encode(event)) for event in events]
    interrupted = end_interrupted("resp_1", first, log, 2.0)
    assert interrupted.events == []
    assert interrupted.end.status == status
    assert json.loads(interrupted.end.response)["output"][0]["content"][0]["text"] == "all of it"
    assert [json.loads(item.data)["type"] for item in interrupted.end.output] == ["message"]


def test_a_log_that_cannot_be_read_ends_its_turn_without_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """One damaged turn must not keep the store from opening."""
    first, log = log_of([TextDelta("a")])

    def fail(*_: object) -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr("penstock.stream.recovery.RecoveredOutput._put_item", fail)
    turn = end_interrupted("resp_1", first, log)
    assert (turn.end.status, turn.end.output) == ("failed", ())
    assert turn.events[-1].sequence == log[-1].sequence + 1
