"""Read the recording of a turn (`penstock serve --record`) from its traces and its event log."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from penstock.dialects.plan import Target
from penstock.errors import DecodeError, PenstockError
from penstock.gateway.telemetry.traces import (
    AnswerTrace,
    FailureTrace,
    PlanTrace,
    ReadTrace,
    RequestTrace,
    TraceRecord,
    decode_trace,
)
from penstock.gateway.turn.stop_reasons import CANCELLED, SHUTTING_DOWN, StopReason
from penstock.protocol.events import TERMINAL
from penstock.protocol.request import CreateResponse, WebSocketCreate
from penstock.protocol.wire import decode
from penstock.store.records import LoggedEvent, Trace
from penstock.stream.recovery import RESTARTED

T = TypeVar("T")

_EXPORTED = "penstock.response"
"""The `object` of an exported response."""

RECORD = "start the gateway with --record; only turns that run from then on can be replayed"


class CannotReplay(PenstockError):  # noqa: N818 - says what happened
    """The recording is missing or incomplete; the message explains what to do."""


class RecordedPlan(Struct, frozen=True, kw_only=True):
    """The data that an attempt's plan is built from."""

    request: CreateResponse
    target: Target
    used_call_ids: frozenset[str]
    accent: str
    compacts: bool = False


class RecordedAttempt(Struct, kw_only=True):
    """One request to an upstream and its outcome. Filled in trace by trace."""

    plan: RecordedPlan
    sent: RequestTrace
    body: dict[str, Any]
    """The request body that was sent."""
    answer: AnswerTrace | None = None
    answered_at: float = 0.0
    reads: list[Trace] = []
    """Split as received: one read becomes one write to the client."""
    is_ended: bool = False
    """The end of the body was received."""
    failure: FailureTrace | None = None
    failed_at: float = 0.0


class Recording(Struct, frozen=True, kw_only=True):
    """A turn that can be replayed."""

    id: str
    events: tuple[LoggedEvent, ...]
    attempts: tuple[RecordedAttempt, ...]
    verdict: dict[str, Any]
    last: dict[str, Any]
    """The last event of the log."""
    stopped: StopReason | None = None
    """Why the turn was stopped from outside, if it was."""
    is_cut: bool = False
    """The gateway crashed during the turn or the turn is still running, so the end is not recorded."""

    @property
    def began_at(self) -> float:
        return self.events[0].time


def read_recording(
    id: str, events: Sequence[LoggedEvent], traces: Iterable[Trace], verdict: bytes
) -> Recording:
    """Return the recording of a response; raise `CannotReplay` if something is missing."""
    attempts = _attempts(traces)
    if not events or not attempts:
        raise CannotReplay(f"{id} was not recorded: {RECORD}")
    if [event.sequence for event in events] != list(range(len(events))):
        raise CannotReplay(f"the log of {id} has gaps: the store was too slow to write every event")
    ending = _json(verdict, dict[str, Any]) if verdict else {}
    # A store that is too slow drops reads silently, but the verdict has counted them.
    if ending and ending.get("bytes_in", 0) != sum(read.size for each in attempts for read in each.reads):
        raise CannotReplay(f"the recording of {id} lacks some reads: the store was too slow to write them")
    last = _json(events[-1].data, dict[str, Any])
    stopped, is_cut = _stopped(last)
    return Recording(
        id=id,
        events=tuple(events),
        attempts=tuple(attempts),
        verdict=ending,
        last=last,
        stopped=stopped,
        is_cut=is_cut,
    )


def read_exported(line: bytes) -> dict[str, Any] | None:
    """Read a line of `penstock store export`; return None if it is empty or not a response.

    Raises `DecodeError` if the line was not written by `penstock store export`.
    """
    if not line.strip():
        return None
    try:
        record: dict[str, Any] = msgspec.json.decode(line)
        kind = record["object"]
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError, KeyError, IndexError):
        raise DecodeError("this line was not written by penstock store export") from None
    return record if kind == _EXPORTED else None


def exported_recording(record: dict[str, Any]) -> Recording:
    """Return the recording in a record from `read_exported`."""
    encode = msgspec.json.encode
    try:
        events = [
            LoggedEvent(each["sequence"], each["time"], encode(each["event"])) for each in record["events"]
        ]
        traces = [
            Trace(
                each["kind"],
                each["time"],
                encode(each["data"]) if "data" in each else b64decode(each.get("base64", "")),
                each["size"],
            )
            for each in record["traces"]
        ]
        verdict = encode(record["verdict"]) if record.get("verdict") else b""
        return read_recording(record["id"], events, traces, verdict)
    except (KeyError, TypeError, ValueError) as error:
        raise CannotReplay(f"the recording is damaged: {error!r}") from None


def _stopped(last: dict[str, Any]) -> tuple[StopReason | None, bool]:
    """Return why the turn was stopped from outside (or None), and whether the recording is cut."""
    if last.get("type") not in TERMINAL:
        return CANCELLED, True
    response = last.get("response") or {}
    code = (response.get("error") or {}).get("code")
    if code == RESTARTED:
        return CANCELLED, True
    if code == SHUTTING_DOWN.code:
        return SHUTTING_DOWN, False
    reason = (response.get("incomplete_details") or {}).get("reason")
    return (CANCELLED if reason == "cancelled" else None), False


def _attempts(traces: Iterable[Trace]) -> list[RecordedAttempt]:
    attempts: list[RecordedAttempt] = []
    plan: RecordedPlan | None = None
    for trace in traces:
        match _decoded(trace):
            case PlanTrace() as planned:
                plan = _recorded_plan(planned)
            case RequestTrace() as sent:
                if plan is None:
                    raise CannotReplay(f"the upstream's bytes were not recorded: {RECORD}")
                body = _json(bytes(sent.body), dict[str, Any])
                attempts.append(RecordedAttempt(plan=plan, sent=sent, body=body))
                plan = None
            case AnswerTrace() | ReadTrace() | FailureTrace() as record if attempts:
                _add(attempts[-1], record, trace)
    return attempts


def _add(attempt: RecordedAttempt, record: AnswerTrace | ReadTrace | FailureTrace, trace: Trace) -> None:
    match record:
        case AnswerTrace():
            if not record.status:
                raise CannotReplay("the recording is damaged: an answer has no status")
            attempt.answer, attempt.answered_at = record, trace.time
        case FailureTrace():
            attempt.failure, attempt.failed_at = record, trace.time
        case ReadTrace() if record.is_end:
            attempt.is_ended = True
        case ReadTrace():
            if not record.data:
                raise CannotReplay(f"the upstream's bytes were not recorded: {RECORD}")
            attempt.reads.append(trace)


def _recorded_plan(plan: PlanTrace) -> RecordedPlan:
    # A request that arrived over a WebSocket has a `type`.
    kind = WebSocketCreate if "type" in _json(bytes(plan.request), dict[str, Any]) else CreateResponse
    try:
        request = decode(bytes(plan.request), kind)
    except DecodeError as error:
        raise CannotReplay(f"this version cannot read the recorded request: {error}") from None
    return RecordedPlan(
        request=request,
        target=plan.target,
        used_call_ids=frozenset(plan.used_call_ids),
        accent=plan.accent,
        compacts=plan.compacts,
    )


def _decoded(trace: Trace) -> TraceRecord | None:
    try:
        return decode_trace(trace)
    except DecodeError as error:
        raise CannotReplay(f"the recording is damaged: {error}") from None


def _json(data: bytes, type: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.MsgspecError as error:
        raise CannotReplay(f"the recording is damaged: {error}") from None
