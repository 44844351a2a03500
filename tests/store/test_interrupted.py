"""A log that was cut off anywhere becomes a lawful stream with one end, and its record says the same
(ask G8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.events import TERMINAL, Event, decode_event
from penstock.protocol.wire import encode
from penstock.store.contract import LoggedEvent
from penstock.store.interrupted import end_interrupted
from penstock.stream.deltas import Delta, EventDelta, FinishReason, ReasoningDelta, TextDelta, ToolCallDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.recovery import RESTARTED
from tests.effort import examples
from tests.stream import strategies
from tests.stream.running import assert_lawful, machine

Json = dict[str, Any]


def log_of(deltas: list[Delta]) -> tuple[bytes, list[LoggedEvent]]:
    """The first snapshot, and what was logged of a turn that never ended."""
    stream = machine(strategies.TOOLS)
    first = encode(stream.snapshot)
    events = stream.start()
    for delta in deltas:
        # Events of hosted tools are for one accent alone, which the plan sees to, and not the machine.
        if stream.phase == "in_progress" and not isinstance(delta, EventDelta):
            events += stream.apply(delta)
    logged = [LoggedEvent(event.sequence_number, 1.0, encode(event)) for event in events]
    return first, [event for event in logged if decode_event(event.data).type not in TERMINAL]


def ended(deltas: list[Delta], length: int | None = None) -> tuple[list[LoggedEvent], Json]:
    """A turn that broke off behind so many events: its whole log, and its record."""
    first, log = log_of(deltas)
    kept = log[:length]
    ending = end_interrupted("resp_1", first, kept, 2.0)
    record: Json = json.loads(ending.end.response)
    assert [json.loads(item.data) for item in ending.end.output] == record["output"]
    return [*kept, *ending.events], record


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(strategies.deltas, max_size=12), st.integers(0, 60))
def test_wherever_it_was_cut_off_it_is_lawful(deltas: list[Delta], length: int) -> None:
    whole, record = ended(deltas, length)
    events = [decode_event(event.data) for event in whole]
    assert_lawful(events)
    assert [event.sequence for event in whole] == list(range(len(whole)))
    assert json.loads(whole[-1].data)["response"] == record
    assert (record["status"], record["error"]["code"]) == ("failed", RESTARTED)


def test_what_was_open_is_kept_with_what_had_come_of_it() -> None:
    _, record = ended([ReasoningDelta("hm"), TextDelta("half of "), TextDelta("it")])
    thought, message = record["output"]
    assert (thought["status"], thought["content"][0]["text"]) == ("completed", "hm")
    assert (message["status"], message["content"][0]["text"]) == ("incomplete", "half of it")


def test_half_a_call_is_incomplete() -> None:
    _, record = ended([ToolCallDelta("a", id="call_1", name="get", arguments='{"a":')])
    (call,) = record["output"]
    assert (call["status"], call["arguments"]) == ("incomplete", '{"a":')


def test_an_empty_log_has_its_beginning() -> None:
    """A log is late by a moment: that the turn began may have been told."""
    whole, _ = ended([], 0)
    assert [json.loads(event.data)["type"] for event in whole] == ["response.created", "response.failed"]


def test_a_log_with_gaps_is_no_fault() -> None:
    first, log = log_of([TextDelta("a"), TextDelta("b"), ToolCallDelta("a", id="c", name="get")])
    for place in range(len(log)):
        kept = [*log[:place], *log[place + 1 :]]
        ending = end_interrupted("resp_1", first, kept, 2.0)
        assert json.loads(ending.events[-1].data)["type"] == "response.failed"
    assert end_interrupted("resp_1", b"no json", [LoggedEvent(0, 1.0, b"nor this")]).end.status == "failed"


ENDS: dict[str, Callable[[ResponseStreamStateMachine], list[Event]]] = {
    "completed": lambda made: made.finish(FinishReason.STOP),
    "failed": lambda made: made.fail("server_error", "broken"),
    "cancelled": lambda made: made.cancel(),
}


@pytest.mark.parametrize("status", ENDS)
def test_an_end_that_is_in_the_log_is_the_end(status: str) -> None:
    """That of a large response is logged before the record is closed: a crash may come between the two."""
    stream = machine(strategies.TOOLS)
    first, events = encode(stream.snapshot), [*stream.start(), *stream.text("all of it")]
    events += ENDS[status](stream)
    log = [LoggedEvent(event.sequence_number, 1.0, encode(event)) for event in events]
    ending = end_interrupted("resp_1", first, log, 2.0)
    assert ending.events == []
    assert ending.end.status == status
    assert json.loads(ending.end.response)["output"][0]["content"][0]["text"] == "all of it"
    assert [json.loads(item.data)["type"] for item in ending.end.output] == ["message"]
