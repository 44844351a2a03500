"""Everything the store has about a turn. Any of it may be missing or malformed.

Prompts and answers are not included; `report.content_lines` reads them on request.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from penstock.gateway.telemetry.traces import AnswerTrace, FailureTrace, RequestTrace, read_trace
from penstock.gateway.turn.verdict import Verdict
from penstock.store.contract import StoreArchive
from penstock.store.ledger import TurnRecord
from penstock.store.records import RUNNING, LoggedEvent, StoredResponse, Trace
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
    record: TurnRecord | None = None
    """The turn's record in the ledger; None if an older version ran it, or if it has expired."""
    is_stored: bool = True
    """False if the store has only the record."""
    is_hidden: bool = False
    """Whether there may be more in the store, which the reader may not see."""

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


def read_account(archive: StoreArchive, id: str, record: TurnRecord | None = None) -> Account | None:
    """Return the account of a response; None if the store does not have it. `record`: from the ledger; with
    it, a turn whose response is not stored has an account as well."""
    stored = archive.find(id)
    if stored is None:
        return account_of_record(record) if record is not None else None
    return account_of(stored, archive.events(stored.tenant, id), archive.traces(stored.tenant, id), record)


def account_of(
    stored: StoredResponse, events: list[LoggedEvent], traces: list[Trace], record: TurnRecord | None
) -> Account:
    """Return the account of a stored response."""
    return Account(
        stored,
        read_json(stored.verdict, Verdict) or Verdict(request_id=""),
        read_json(stored.response, TurnSnapshot) or TurnSnapshot(),
        events,
        traces,
        attempts_of(traces),
        record,
    )


def account_of_record(record: TurnRecord, *, is_hidden: bool = False) -> Account:
    """Return the account of a turn of which only the record in the ledger is left."""
    shared = {name: getattr(record, name) for name in _SHARED}
    verdict = Verdict(
        **shared, response_id=record.id, client=record.tenant, diagnostics=list(record.diagnostics)
    )
    usage = TurnUsage(
        record.input_tokens,
        record.output_tokens,
        InputDetails(record.cached_tokens),
        OutputDetails(record.reasoning_tokens),
    )
    has_usage = record.ended_at is not None and bool(record.input_tokens or record.output_tokens)
    snapshot = TurnSnapshot(
        model=record.model,
        stream=record.stream,
        usage=usage if has_usage else None,
        diagnostics=[TurnDiagnostic(code) for code in record.diagnostics],
    )
    stored = StoredResponse(
        id=record.id,
        tenant=record.tenant,
        created_at=int(record.started_at),
        status="in_progress" if record.ended_at is None else record.outcome,
        previous_id=None,
        conversation_id=None,
        is_background=False,
        request=b"",
        response=b"",
        verdict=msgspec.json.encode(verdict),
    )
    return Account(stored, verdict, snapshot, [], [], [], record, is_stored=False, is_hidden=is_hidden)


_SHARED = tuple(
    name
    for name in Verdict.__struct_fields__
    if name in TurnRecord.__struct_fields__ and name != "diagnostics"
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
    """Decode JSON; return None if it is empty, malformed, nested too deeply, or of another type."""
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.MsgspecError, RecursionError):
        return None
