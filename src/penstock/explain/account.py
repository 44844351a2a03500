"""Everything the store has about a turn. Any of it may be missing or malformed.

Prompts and answers are not included; `report.content_lines` reads them on request.
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
    """The fields of a stored response that are explained."""

    model: str | None = None
    stream: bool | None = None
    usage: TurnUsage | None = None
    error: TurnError | None = None
    incomplete_details: IncompleteReason | None = None
    diagnostics: list[TurnDiagnostic] | None = None


class AttemptSummary(Struct):
    """One attempt: a request to one upstream and its outcome."""

    target: str
    model: str
    dialect: str = ""
    status: int | None = None
    code: str = ""
    message: str = ""
    """The upstream's error message. It may quote the prompt."""


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
        """The time of the first trace or event; `created_at` is in whole seconds."""
        return min(self._times(), default=float(self.stored.created_at))

    @property
    def last_activity(self) -> float:
        """The time of the last trace or event, without the event that a restarted gateway added."""
        times = self._times()
        if self.code == RESTARTED and self.events:
            times.remove(self.events[-1].time)
        return max(times, default=self.begin)

    def _times(self) -> list[float]:
        return [trace.time for trace in self.traces] + [event.time for event in self.events]

    @property
    def code(self) -> str:
        """The error code; empty if there is none."""
        error = self.snapshot.error
        return self.verdict.code or (error.code if error is not None and error.code else "")


def read_account(archive: StoreArchive, id: str) -> Account | None:
    """Return the account of a response; None if the store does not have it."""
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
    """Group traces into attempts; each attempt begins with its request."""
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
    """Decode JSON; return None if it is empty, malformed or of another type."""
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.MsgspecError:
        return None
