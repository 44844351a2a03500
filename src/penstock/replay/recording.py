"""What was recorded of a turn, read back from its traces and its log (`penstock serve --record`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from penstock import errors
from penstock.dialects.plan import Target
from penstock.errors import DecodeError, NetworkError, OpenResponsesError, PenstockError, ProtocolError
from penstock.gateway.turn.stop_reasons import CANCELLED, SHUTTING_DOWN, StopReason
from penstock.protocol.events import TERMINAL
from penstock.protocol.request import CreateResponse, WebSocketCreate
from penstock.protocol.wire import decode
from penstock.store.contract import LoggedEvent, Trace
from penstock.stream.recovery import RESTARTED

T = TypeVar("T")

RECORD = "start the gateway with --record, and only what it answers from then on can be replayed"


class CannotReplay(PenstockError):  # noqa: N818 - says what happened
    """There is no recording, or not a whole one; the message says what to do."""


class Planned(Struct, frozen=True, kw_only=True):
    """What the plan of an attempt was made from."""

    request: CreateResponse
    target: Target
    used_call_ids: frozenset[str]
    accent: str


class Sent(Struct, frozen=True, kw_only=True):
    """The request of an attempt."""

    target: str
    model: str
    attempt: int
    body: dict[str, Any]


class Answered(Struct, frozen=True, kw_only=True):
    status: int
    content_type: str
    request_id: str | None = None


class Failed(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    status: int | None = None
    kind: str = ""
    """The name of the exception: what a turn does depends on it."""
    phase: str | None = None
    param: str | None = None
    retry_after: float | None = None

    def error(self) -> OpenResponsesError:
        kind = getattr(errors, self.kind, None)
        known = isinstance(kind, type) and issubclass(kind, OpenResponsesError)
        make: Callable[..., OpenResponsesError] = kind if known and kind is not None else OpenResponsesError
        return make(
            self.message,
            code=self.code,
            status=self.status,
            phase=self.phase,
            param=self.param,
            retry_after=self.retry_after,
        )

    @property
    def is_a_break(self) -> bool:
        """Did the connection fail? Else the turn found the failure in the bytes, and must find it again."""
        return self.kind in (NetworkError.__name__, ProtocolError.__name__)


class RecordedAttempt(Struct, kw_only=True):
    """One request, and what came of it. Filled in trace by trace."""

    plan: Planned
    sent: Sent
    answer: Answered | None = None
    answered_at: float = 0.0
    reads: list[Trace] = []
    """Cut as they came: a read is what leaves in one write."""
    is_ended: bool = False
    """Was the end of the body seen?"""
    failure: Failed | None = None
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


class _Plan(Struct):
    request: Raw
    target: Target
    used_call_ids: list[str]
    accent: str


def read_recording(
    id: str, events: Sequence[LoggedEvent], traces: Iterable[Trace], verdict: bytes
) -> Recording:
    """The recording of a response. `CannotReplay` says what is missing."""
    attempts = _attempts(traces)
    if not events or not attempts:
        raise CannotReplay(f"nothing of {id} was recorded: {RECORD}")
    if [event.sequence for event in events] != list(range(len(events))):
        raise CannotReplay(f"the log of {id} has gaps: the store was too slow to keep all of it")
    told = _json(verdict, dict[str, Any]) if verdict else {}
    # A store that is too slow drops reads without a word, but the verdict has counted them.
    if told and told.get("bytes_in", 0) != sum(read.size for each in attempts for read in each.reads):
        raise CannotReplay(f"some reads of {id} are missing: the store was too slow to keep all of them")
    last = _json(events[-1].data, dict[str, Any])
    stopped, is_cut = _stopped(last)
    return Recording(
        id=id,
        events=tuple(events),
        attempts=tuple(attempts),
        verdict=told,
        last=last,
        stopped=stopped,
        is_cut=is_cut,
    )


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
    plan: Planned | None = None
    for trace in traces:
        if trace.kind == "plan":
            plan = _planned(_json(trace.data, _Plan))
        elif trace.kind == "request":
            if plan is None:
                raise CannotReplay(f"the bytes of its upstream were not recorded: {RECORD}")
            attempts.append(RecordedAttempt(plan=plan, sent=_json(trace.data, Sent)))
            plan = None
        elif attempts:
            _take(attempts[-1], trace)
    return attempts


def _take(attempt: RecordedAttempt, trace: Trace) -> None:
    match trace.kind:
        case "answer":
            attempt.answer, attempt.answered_at = _json(trace.data, Answered), trace.time
        case "failure":
            attempt.failure, attempt.failed_at = _json(trace.data, Failed), trace.time
        case "read" if not trace.size:
            attempt.is_ended = True
        case "read":
            if not trace.data:
                raise CannotReplay(f"the bytes of its upstream were not recorded: {RECORD}")
            attempt.reads.append(trace)


def _planned(plan: _Plan) -> Planned:
    # A request that came over a WebSocket says so by its type.
    kind = WebSocketCreate if "type" in _json(bytes(plan.request), dict[str, Any]) else CreateResponse
    try:
        request = decode(bytes(plan.request), kind)
    except DecodeError as error:
        raise CannotReplay(f"its request cannot be read any more: {error}") from None
    return Planned(
        request=request,
        target=plan.target,
        used_call_ids=frozenset(plan.used_call_ids),
        accent=plan.accent,
    )


def _json(data: bytes, type: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.MsgspecError as error:
        raise CannotReplay(f"the recording is damaged: {error}") from None
