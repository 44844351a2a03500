"""The timeline of `penstock explain`: upstream traffic and events, merged by time."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.explain.timeline import timeline
from penstock.store.records import Trace
from tests.explain.archives import (
    CREATED,
    DELTA,
    IN_PROGRESS,
    MESSAGE,
    account_of,
    added,
    done,
    fallback_turn,
)
from tests.stored_turns import BEGIN, Turn, answer, log, request, trace


def lines(turn: Turn) -> list[str]:
    return [f"{entry.at:.3f} {entry.what}" for entry in timeline(account_of(turn))]


def test_both_sides_are_in_chronological_order() -> None:
    assert lines(fallback_turn()) == [
        "0.000 request to first for model-x (chat, 1.2 kB)",
        "0.200 failed: rate_limit_exceeded (HTTP 429)",
        "0.300 request to second for model-y (chat, 1.2 kB)",
        "0.500 answer 200, text/event-stream, request id up_1",
        "0.500 created",
        "0.500 in progress",
        "0.600 1 read, 1.0 kB",
        "0.600 first output",
        "0.600 opened message msg_1",
        "0.600 1 read, 2.0 kB, 2 events, longest silence 1.20 s",
        "1.850 closed message msg_1 (completed)",
        "1.850 opened function_call fc_1 calling look_up",
        "1.900 1 read, 400 bytes, 1 event",
        "2.600 the upstream's answer ended after 700 ms of silence",
        "2.600 closed function_call fc_1 calling look_up (completed)",
        "2.600 completed (last event, number 9)",
    ]


def test_heartbeats_are_counted_in_one_line() -> None:
    """Every `response.in_progress` but the first is a heartbeat (decision 10)."""
    beats = [(float(second), IN_PROGRESS) for second in range(5, 20, 5)]
    events = log((0.0, CREATED), (0.0, IN_PROGRESS), *beats, (19.0, {"type": "response.failed"}))
    assert lines(Turn("resp_a", status="failed", events=events))[1:] == [
        "0.000 in progress",
        "5.000 3 heartbeats",
        "19.000 failed (last event, number 5)",
    ]


def test_a_heartbeat_ends_a_line_of_deltas_and_the_reverse() -> None:
    events = log((0.0, IN_PROGRESS), (1.0, DELTA), (2.0, IN_PROGRESS), (3.0, DELTA), (3.5, DELTA))
    assert lines(Turn("resp_a", events=events))[1:] == [
        "1.000 1 event",
        "2.000 1 heartbeat",
        "3.000 2 events",
    ]


def test_silence_is_measured_from_the_answer_and_not_across_attempts() -> None:
    traces = [
        request(0.0, "first"),
        answer(1.0),
        trace(4.0, "read", size=10),
        request(9.0, "second"),
        trace(20.0, "read", size=10),
        trace(20.4, "read"),
    ]
    assert lines(Turn("resp_a", traces=traces))[2:] == [
        "4.000 1 read, 10 bytes, longest silence 3.00 s",
        "9.000 request to second for model-x (chat, 1.2 kB)",
        "20.000 1 read, 10 bytes",
        "20.400 the upstream's answer ended",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "error", "code": "server_error"}, "error: server_error"),
        ({"type": "error", "error": {"code": "overloaded"}}, "error: overloaded"),
        ({"type": "error"}, "error: no code"),
        ({"type": "response.queued"}, "queued"),
        (done(MESSAGE, "incomplete"), "closed message msg_1 (incomplete)"),
        ({"type": "response.output_item.done"}, "closed item"),
        ({"type": 7}, "event 0 cannot be read"),
    ],
)
def test_an_event_has_its_line(event: dict[str, Any], line: str) -> None:
    assert lines(Turn("resp_a", events=log((0.0, event)))) == [f"0.000 {line}"]


def test_missing_events_are_shown_where_they_are_missing() -> None:
    events = log((0.0, CREATED), (0.0, IN_PROGRESS), (1.0, {"type": "response.completed"}), numbers=[0, 1, 9])
    assert lines(Turn("resp_a", events=events))[2:] == [
        "1.000 7 events missing from the log",
        "1.000 completed (last event, number 9)",
    ]


def test_only_problems_and_the_end_are_coloured() -> None:
    turn = fallback_turn(events=log((3.0, {"type": 7}), (4.0, {"type": "response.completed"})))
    tones = {entry.what.partition(" ")[0]: entry.tone for entry in timeline(account_of(turn)) if entry.tone}
    assert tones == {"failed:": "red", "event": "red", "completed": "green"}


def test_damaged_and_unknown_traces_do_not_hide_the_rest() -> None:
    traces = [
        Trace("request", BEGIN, b"{", 5),
        Trace("answer", BEGIN, b"[]"),
        Trace("plan", BEGIN, b"{}"),
        Trace("invented", BEGIN, b"{}"),
    ]
    turn = Turn("resp_a", traces=traces, events=log((1.0, added(MESSAGE))))
    assert lines(turn) == [
        "0.000 request to  for  (5 bytes)",
        "0.000 answer without a status",
        "1.000 first output",
        "1.000 opened message msg_1",
    ]
