"""What is known of a turn, read from a store as it is found there: any of it may be missing, or be odd.

Nothing here holds what was said; that is in `content`, for those who ask for it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from penstock.gateway.telemetry.traces import AnswerTrace, FailureTrace, RequestTrace, read_trace
from penstock.gateway.turn.verdict import Verdict
from penstock.store.contract import RUNNING, LoggedEvent, StoreArchive, StoredResponse, Trace
from penstock.stream.recovery import RESTARTED

T = TypeVar("T")


class InputDetails(Struct):
    cached_tokens: int = 0


class OutputDetails(Struct):
    reasoning_tokens: int = 0


class TurnUsage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class TurnError(Struct):
    code: str | None = None
    message: str = ""


class IncompleteReason(Struct):
    reason: str | None = None


class TurnDiagnostic(Struct):
    code: str = ""
    message: str = ""
    count: int = 1


class TurnSnapshot(Struct):
    """What a response says of itself, as far as it is explained."""

    model: str | None = None
    stream: bool | None = None
    usage: TurnUsage | None = None
    error: TurnError | None = None
    incomplete_details: IncompleteReason | None = None
    diagnostics: list[TurnDiagnostic] | None = None


class AttemptSummary(Struct):
    """One upstream that was asked."""

    target: str
    model: str
    dialect: str = ""
    status: int | None = None
    code: str = ""
    message: str = ""
    """The upstream's own words: they may repeat what was said to it."""


class Account(Struct, frozen=True):
    stored: StoredResponse
    verdict: Verdict
    snapshot: TurnSnapshot
    events: list[LoggedEvent]
    traces: list[Trace]
    attempts: list[AttemptSummary]

    @property
    def is_running(self) -> bool:
        return self.stored.status in RUNNING

    @property
    def begin(self) -> float:
        """The first that is known of it; the response's own time has no fractions."""
        return min(self._times(), default=float(self.stored.created_at))

    @property
    def last_sign(self) -> float:
        """The last that is known of it. What a later gateway wrote when it ended the turn is none."""
        times = self._times()
        if self.code == RESTARTED and self.events:
            times.remove(self.events[-1].time)
        return max(times, default=self.begin)

    def _times(self) -> list[float]:
        return [trace.time for trace in self.traces] + [event.time for event in self.events]

    @property
    def code(self) -> str:
        """Why it did not end well."""
        error = self.snapshot.error
        return self.verdict.code or (error.code if error is not None and error.code else "")


def read_account(archive: StoreArchive, id: str) -> Account | None:
    stored = archive.find(id)
    if stored is None:
        return None
    traces = archive.traces(stored.tenant, id)
    return Account(
        stored,
        read_json(stored.verdict, Verdict) or Verdict(request_id=""),
        read_json(stored.response, TurnSnapshot) or TurnSnapshot(),
        archive.events(stored.tenant, id),
        traces,
        attempts_of(traces),
    )


def attempts_of(traces: list[Trace]) -> list[AttemptSummary]:
    """They follow each other in one list; each begins with its request."""
    attempts: list[AttemptSummary] = []
    for trace in traces:
        record = read_trace(trace)
        if isinstance(record, RequestTrace):
            attempts.append(AttemptSummary(record.target, record.model, record.dialect))
        elif not attempts:
            continue
        elif isinstance(record, AnswerTrace):
            attempts[-1].status = record.status or None
        elif isinstance(record, FailureTrace):
            attempts[-1].code, attempts[-1].message = record.code, record.message
            attempts[-1].status = record.status or attempts[-1].status
    return attempts


def read_json(data: bytes, type: type[T]) -> T | None:
    """None for what is not there, or is something else than it should be."""
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.MsgspecError:
        return None
