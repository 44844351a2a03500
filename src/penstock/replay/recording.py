"""What was recorded of a turn, read back from its traces and its log (`penstock serve --record`)."""

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
from penstock.store.contract import LoggedEvent, Trace
from penstock.stream.recovery import RESTARTED

T = TypeVar("T")

_EXPORTED = "penstock.response"
"""What an exported response calls itself."""

RECORD = "start the gateway with --record, and only what it answers from then on can be replayed"


class CannotReplay(PenstockError):  # noqa: N818 - says what happened
    """There is no recording, or not a whole one; the message says what to do."""


class RecordedPlan(Struct, frozen=True, kw_only=True):
    """What the plan of an attempt was made from."""

    request: CreateResponse
    target: Target
    used_call_ids: frozenset[str]
    accent: str


class RecordedAttempt(Struct, kw_only=True):
    """One request, and what came of it. Filled in trace by trace."""

    plan: RecordedPlan
    sent: RequestTrace
    body: dict[str, Any]
    """What was sent."""
    answer: AnswerTrace | None = None
    answered_at: float = 0.0
    reads: list[Trace] = []
    """Cut as they came: a read is what leaves in one write."""
    is_ended: bool = False
    """Was the end of the body seen?"""
    failure: FailureTrace | None = None
    failed_at: float = 0.0


class Recording(Struct, frozen=True, kw_only=True):
    """A turn that can be run again."""

    id: str
    events: tuple[LoggedEvent, ...]
    attempts: tuple[RecordedAttempt, ...]
    verdict: dict[str, Any]
    last: dict[str, Any]
    """The last event of the log."""
    stopped: StopReason | None = None
    """Why the turn was ended from outside, if it was."""
    is_cut: bool = False
    """Did the gateway go down meanwhile? Then its last words are not in the recording."""

    @property
    def began_at(self) -> float:
        return self.events[0].time


def read_recording(
    id: str, events: Sequence[LoggedEvent], traces: Iterable[Trace], verdict: bytes
) -> Recording:
    """The recording of a response. `CannotReplay` says what is missing."""
    attempts = _attempts(traces)
    if not events or not attempts:
        raise CannotReplay(f"nothing of {id} was recorded: {RECORD}")
    if [event.sequence for event in events] != list(range(len(events))):
        raise CannotReplay(f"the log of {id} has gaps: the store was too slow to keep all of it")
    ending = _json(verdict, dict[str, Any]) if verdict else {}
    # A store that is too slow drops reads without a word, but the verdict has counted them.
    if ending and ending.get("bytes_in", 0) != sum(read.size for each in attempts for read in each.reads):
        raise CannotReplay(f"some reads of {id} are missing: the store was too slow to keep all of them")
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
    """A line of `penstock store export`; None for an empty one, or for what is no response.

    Raises `DecodeError` for a line that it did not write.
    """
    if not line.strip():
        return None
    try:
        record: dict[str, Any] = msgspec.json.decode(line)
        kind = record["object"]
    except (msgspec.DecodeError, TypeError, KeyError, IndexError):
        raise DecodeError("this is no line that penstock store export has written") from None
    return record if kind == _EXPORTED else None


def exported_recording(record: dict[str, Any]) -> Recording:
    """The recording in what `read_exported` gave."""
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
    """Who ended the turn, if it was neither the model nor its upstream."""
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
                    raise CannotReplay(f"the bytes of its upstream were not recorded: {RECORD}")
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
                raise CannotReplay(f"the bytes of its upstream were not recorded: {RECORD}")
            attempt.reads.append(trace)


def _recorded_plan(plan: PlanTrace) -> RecordedPlan:
    # A request that came over a WebSocket says so by its type.
    kind = WebSocketCreate if "type" in _json(bytes(plan.request), dict[str, Any]) else CreateResponse
    try:
        request = decode(bytes(plan.request), kind)
    except DecodeError as error:
        raise CannotReplay(f"its request cannot be read any more: {error}") from None
    return RecordedPlan(
        request=request,
        target=plan.target,
        used_call_ids=frozenset(plan.used_call_ids),
        accent=plan.accent,
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
