"""Reading a recording: what it contains, and why one cannot be replayed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import DecodeError
from penstock.gateway.turn.stop_reasons import CANCELLED, SHUTTING_DOWN, StopReason
from penstock.protocol.request import WebSocketCreate
from penstock.replay.recording import CannotReplay, exported_recording, read_exported, read_recording
from penstock.store.records import Trace
from penstock.stream.recovery import RESTARTED
from tests.replay.recorded import (
    BEGIN,
    ID,
    REQUEST,
    STOP,
    answered,
    attempt,
    failed,
    hello,
    logged,
    text,
    traced,
    with_events,
)

DONE = {"type": "response.completed", "response": {}}


def test_attempts_have_their_plan_request_reads_and_failure() -> None:
    broken = attempt(*answered(text("a"), is_ended=False), failed(at=5.0))
    recording = with_events([*broken, *hello()], [DONE])
    first, second = recording.attempts
    assert (first.plan.request.model, first.sent.target, first.body) == ("m", "first", {})
    assert (first.is_ended, first.failed_at - BEGIN) == (False, 5.0)
    assert first.failure is not None
    assert first.failure.is_a_break
    assert [read.data for read in second.reads] == [text("Hel", "lo"), STOP]
    assert (second.is_ended, second.failure, second.answered_at - BEGIN) == (True, None, 1.0)


def test_a_request_over_a_websocket_is_known_by_its_type() -> None:
    request = {**REQUEST, "type": "response.create"}
    recording = with_events(attempt(*answered(STOP), request=request), [DONE])
    assert isinstance(recording.attempts[0].plan.request, WebSocketCreate)


@pytest.mark.parametrize(
    ("last", "stopped", "is_cut"),
    [
        (DONE, None, False),
        ({"type": "response.output_text.delta"}, CANCELLED, True),
        ({"type": "response.failed", "response": {"error": {"code": RESTARTED}}}, CANCELLED, True),
        ({"type": "response.failed", "response": {"error": {"code": "shutting_down"}}}, SHUTTING_DOWN, False),
        (
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "cancelled"}}},
            CANCELLED,
            False,
        ),
        ({"type": "response.incomplete", "response": {"incomplete_details": None}}, None, False),
    ],
    ids=["completed", "still running", "restarted", "shut down", "cancelled", "incomplete"],
)
def test_the_last_event_says_whether_the_turn_was_stopped(
    last: dict[str, Any], stopped: StopReason | None, is_cut: bool
) -> None:
    recording = with_events(hello(), [{"type": "response.created"}, last])
    assert (recording.stopped, recording.is_cut, recording.last) == (stopped, is_cut, last)


def without(kind: str) -> Callable[[Sequence[Trace]], list[Trace]]:
    return lambda traces: [trace for trace in traces if trace.kind != kind]


REFUSED: dict[str, tuple[Callable[[Sequence[Trace]], list[Trace]], str]] = {
    "no traces": (lambda _: [], f"{ID} was not recorded: start the gateway with --record"),
    "no plan": (without("plan"), "the upstream's bytes were not recorded: .*--record"),
    "no bytes": (
        lambda traces: [replace(each, data=b"") if each.kind == "read" else each for each in traces],
        "the upstream's bytes were not recorded",
    ),
    "no status": (
        lambda traces: [traced("answer", {}) if each.kind == "answer" else each for each in traces],
        "damaged: an answer has no status",
    ),
    "broken plan": (
        lambda traces: [replace(each, data=b"{") if each.kind == "plan" else each for each in traces],
        "the recording is damaged",
    ),
    "request of another version": (
        lambda _: attempt(request={"model": 5}),
        "this version cannot read the recorded request",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_incomplete_recording_is_refused_with_the_reason(name: str) -> None:
    change, message = REFUSED[name]
    with pytest.raises(CannotReplay, match=message):
        with_events(change(hello()), [DONE])


def test_a_log_with_gaps_is_refused() -> None:
    first, _, third = logged([{"type": "response.created"}, {"type": "response.in_progress"}, DONE])
    with pytest.raises(CannotReplay, match="has gaps: the store was too slow"):
        read_recording(ID, [first, third], hello(), b"")


def test_a_recording_that_lacks_bytes_is_refused() -> None:
    """A slow store drops reads silently; the verdict has counted their bytes."""
    size = len(text("Hel", "lo")) + len(STOP)
    assert with_events(hello(), [DONE], verdict=b'{"bytes_in": %d}' % size).verdict == {"bytes_in": size}
    with pytest.raises(CannotReplay, match="lacks some reads"):
        with_events(hello(), [DONE], verdict=b'{"bytes_in": %d}' % (size + 1))


# Exported recordings


def exported(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return what `penstock store export` writes for a response."""
    records = [
        {"kind": each.kind, "time": each.time, "size": each.size}
        | (
            {"base64": base64.b64encode(each.data).decode()}
            if each.kind == "read"
            else {"data": json.loads(each.data)}
        )
        for each in traces
    ]
    events = [{"sequence": 0, "time": BEGIN, "event": DONE}]
    return {"object": "penstock.response", "id": ID, "events": events, "traces": records, "verdict": None}


def test_an_exported_recording_is_the_same() -> None:
    line = json.dumps(exported(hello())).encode()
    record = read_exported(line)
    assert record is not None
    found, stored = exported_recording(record), with_events(hello(), [DONE], at=0.0)
    assert (found.id, found.events, found.last) == (stored.id, stored.events, stored.last)
    assert [each.reads for each in found.attempts] == [each.reads for each in stored.attempts]


@pytest.mark.parametrize("line", [b"", b"  ", b'{"object": "penstock.conversation"}'])
def test_other_lines_of_an_export_are_skipped(line: bytes) -> None:
    assert read_exported(line) is None


@pytest.mark.parametrize("line", [b"no json", b"[1]", b"{}", b'"text"', b"7", b'"\xe9"', b"[" * 9999])
def test_a_line_of_another_file_is_refused(line: bytes) -> None:
    with pytest.raises(DecodeError, match="not written by penstock store export"):
        read_exported(line)


@pytest.mark.parametrize(
    "damage",
    [
        {"events": None},
        {"traces": [{"kind": "read"}]},
        {"traces": [{"kind": "plan", "time": 0, "size": 0, "data": {"request": 5}}]},
        {"traces": [{"kind": "read", "time": 0, "size": 1, "base64": 5}]},
        {"id": None, "traces": 7},
    ],
)
def test_a_damaged_export_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(CannotReplay, match="the recording is damaged"):
        exported_recording({**exported(hello()), **damage})
