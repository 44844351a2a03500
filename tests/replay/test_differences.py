"""Comparing a recording with its replay: what counts as a difference, and how it is reported."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.replay.differences import compare
from penstock.replay.recording import Recording
from penstock.replay.runner import Rendered, Replayed, replay
from tests.dialects.chat_streams import calls, chunk
from tests.replay.recorded import (
    STOP,
    answered,
    attempt,
    compared,
    failed,
    hello,
    logged,
    recorded,
    sse,
    text,
    with_events,
)


def with_reads(recording: Recording, *reads: bytes) -> Recording:
    """Return the recording with other bytes of its upstream."""
    traces = [trace for trace in answered(*reads) if trace.kind == "read" and trace.size]
    return replace(recording, attempts=(replace(recording.attempts[0], reads=traces),))


def test_the_same_bytes_are_no_difference() -> None:
    _, comparison = compared(recorded(hello()))
    assert (comparison.is_same, comparison.is_partial, comparison.events) == (True, False, 10)


def test_a_changed_text_is_reported_once() -> None:
    """Four later events repeat the text of the deltas."""
    _, comparison = compared(with_reads(recorded(hello()), text("Hel", "p!"), STOP))
    (only,) = comparison.differences
    assert only.where == "response.output_text.delta, item 0 (message)"
    assert (only.field, only.before, only.now, only.more) == ("delta", "Hello", "Help!", 4)


@pytest.mark.parametrize(
    "reads",
    [
        [text("H", "e", "llo"), STOP],
        [text("Hello") + STOP],
        [bytes([byte]) for byte in text("Hello") + STOP],
    ],
    ids=["other deltas", "one read", "one byte per read"],
)
def test_how_a_text_is_split_is_no_difference(reads: list[bytes]) -> None:
    _, comparison = compared(with_reads(recorded(hello()), *reads))
    assert comparison.is_same


def test_an_event_that_is_no_longer_sent_is_a_difference() -> None:
    cut_off = STOP.replace(b'"stop"', b'"length"')
    _, comparison = compared(with_reads(recorded(hello()), text("Hel", "lo"), cut_off))
    whole = {each.where: (each.before, each.now) for each in comparison.differences if not each.field}
    assert whole == {
        "response.completed": ("sent", "(nothing)"),
        "response.incomplete": ("(nothing)", "sent"),
    }


def call(id: str) -> list[bytes]:
    entry = {"index": 0, "id": id, "function": {"name": "look", "arguments": '{"a":1}'}}
    return [sse(calls(entry), chunk(finish="tool_calls"))]


def test_call_ids_of_the_upstream_are_compared_and_generated_ones_are_not() -> None:
    recording = recorded(attempt(*answered(*call("call_a"))))
    _, comparison = compared(with_reads(recording, *call("call_b")))
    assert {(each.field, each.before, each.now) for each in comparison.differences} >= {
        ("item.call_id", "call_a", "call_b")
    }
    unnamed = recorded(attempt(*answered(*call(""))))
    assert compared(unnamed)[1].is_same


def test_heartbeats_are_neither_compared_nor_counted() -> None:
    recording = recorded(hello())
    events = [event.data for event in recording.events]
    events[2:2] = [events[1]] * 3
    repeated = replace(
        recording,
        events=tuple(replace(recording.events[0], sequence=n, data=data) for n, data in enumerate(events)),
    )
    _, comparison = compared(repeated)
    assert (comparison.is_same, comparison.events) == (True, 10)


def test_a_turn_that_is_now_refused_is_a_difference() -> None:
    recording = recorded(hello())
    failure = with_events(attempt(failed("ServerError", status=500, message="broken")), [{"type": "x"}])
    changed = replace(recording, attempts=failure.attempts)
    _, comparison = compared(changed)
    first = comparison.differences[0]
    assert (first.where, first.before) == ("the answer", "a stream")
    assert "refused with 502" in first.now


def test_a_cut_recording_is_compared_as_far_as_both_go() -> None:
    recording = recorded(hello())
    cut = replace(recording, events=recording.events[:5], is_cut=True)
    comparison = compare(cut, replay(recording))
    assert (comparison.is_same, comparison.is_partial, comparison.events) == (True, True, 5)
    changed = replay(with_reads(recording, text("Hxl", "lo"), STOP))
    (only,) = compare(cut, changed).differences
    assert (only.before, only.now) == ("Hel", "Hxl")


def test_events_that_the_next_gateway_added_are_not_compared() -> None:
    """They were never sent; all have the time of the restart."""
    recording = recorded(hello())
    added = logged([{"type": "response.failed", "response": {}}], at=900.0)
    restarted = replace(recording, events=(*recording.events[:5], *added), is_cut=True)
    comparison = compare(restarted, replay(recording))
    assert (comparison.is_same, comparison.events) == (True, 5)


REQUESTS: list[tuple[Any, Any, list[tuple[str, Any, Any]]]] = [
    ({"a": 1}, {"a": 1}, []),
    ({"a": 1, "b": 2}, {"a": 1}, [("b", 2, "(nothing)")]),
    ({"a": 1}, {"a": 1, "b": 2}, [("b", "(nothing)", 2)]),
    ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, [("a.b[1].c", 2, 3)]),
    ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
    ({"a": 1}, {"a": True}, [("a", 1, True)]),
    ({"a": 1}, {"a": 1.0}, [("a", 1, 1.0)]),
    ({"a": None}, {}, [("a", None, "(nothing)")]),
]


@pytest.mark.parametrize(("before", "now", "expected"), REQUESTS)
def test_requests_are_compared_field_by_field(before: Any, now: Any, expected: list[Any]) -> None:
    recording = recorded(hello())
    recording.attempts[0].body = before
    replayed = Replayed(events=replay(recording).events, rendered=[Rendered(recording.attempts[0], now)])
    comparison = compare(recording, replayed)
    assert [(each.field, each.before, each.now) for each in comparison.requests] == expected
    assert {each.where for each in comparison.requests} <= {"request 1, m at first"}
    assert comparison.differences == []
    assert comparison.is_same is not bool(expected)


def nested(levels: int, value: Any) -> Any:
    for _ in range(levels):
        value = {"items": value}
    return value


@pytest.mark.parametrize("levels", [63, 64, 450, 800])
def test_deeply_nested_values_are_compared(levels: int) -> None:
    recording = recorded(hello())
    recording.attempts[0].body = nested(levels, "a")
    events = replay(recording).events
    for now, count in (("a", 0), ("b", 1)):
        rendered = [Rendered(recording.attempts[0], nested(levels, now))]
        assert len(compare(recording, Replayed(events=events, rendered=rendered)).requests) == count
