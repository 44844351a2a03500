"""`GET inspector/api/turns/{id}`: one turn, as it is drawn and explained. It has no texts of the model.

The sentences, the steps and the numbers are those of `penstock explain`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.explain.account import Account
from penstock.explain.outcome import OWN_CODES, outcome_sentence
from penstock.explain.sentences import sentences
from penstock.explain.timeline import timeline
from penstock.fairness import ITEM_WEIGHT
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.gateway.telemetry.traces import (
    AnswerTrace,
    FailureTrace,
    ReadTrace,
    RequestTrace,
    read_trace,
)
from penstock.inspector.answers import desk_of, while_connected, whole_number
from penstock.inspector.columns import StreamColumns
from penstock.inspector.lookup import FoundTurn, find_turn
from penstock.inspector.missing import missing_parts, why_no_replay
from penstock.inspector.violations import violations_of_log
from penstock.store.ledger import TurnRecord
from penstock.store.records import Trace


class ShownAttempt(Struct):
    target: str
    model: str
    dialect: str
    sent_ms: float
    status: int | None = None
    code: str = ""
    message: str = ""
    answered_ms: float | None = None
    ended_ms: float | None = None


class ReadColumns(Struct):
    at_ms: list[float] = []
    size: list[int] = []
    attempt: list[int] = []


async def show_turn(gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, turn_id: str) -> None:
    after = whole_number(exchange, "events_after", -1, least=-1)
    found = await find_turn(gateway, key, turn_id)
    await desk_of(gateway).answer(
        exchange, weight_of(found.account), lambda: turn_report(found, after, exchange)
    )


def weight_of(account: Account) -> int:
    """Return how heavy reading the log and the traces is (`fairness.run_heavy`)."""
    log = sum(len(event.data) for event in account.events)
    return log + ITEM_WEIGHT * (len(account.events) + len(account.traces))


def turn_report(found: FoundTurn, after: int = -1, exchange: Exchange | None = None) -> dict[str, Any]:
    account = found.account
    stored, record, begin = account.stored, account.record, account.begin
    columns = StreamColumns(after=after)
    for event in while_connected(exchange, account.events):
        columns.add(event.sequence, (event.time - begin) * 1000, event.data)
    attempts, reads = _traffic(account.traces, begin)
    _add_failure(attempts, reads, account)
    received = _received_at(record) if record is not None else None
    if received is not None and not account.is_stored:
        begin = received
    reason = why_no_replay(found)
    return {
        "id": stored.id,
        "tenant": stored.tenant,
        # A turn in the background is stored as queued until it ends.
        "status": "in_progress" if stored.status == "queued" and columns.has_begun else stored.status,
        "is_running": account.is_running,
        "is_stored": account.is_stored,
        "has_content": found.is_own and account.is_stored,
        "created_at": float(stored.created_at),
        "begin": begin,
        "request_at": received,
        "request_ms": round((received - begin) * 1000, 3) if received is not None else None,
        "end": _end(account),
        "sentence": outcome_sentence(account),
        "sentences": sentences(account),
        "missing": missing_parts(found),
        "steps": [
            {"at": round(each.at, 6), "what": each.what, "tone": each.tone} for each in timeline(account)
        ],
        "model": account.verdict.model or account.snapshot.model or "",
        "target": account.verdict.target or (attempts[-1].target if attempts else ""),
        "client": record.user_agent if record is not None else "",
        "stream": account.verdict.stream if stored.verdict else account.snapshot.stream is True,
        "lanes": columns.lanes,
        "events": columns.events,
        "reads": reads,
        "attempts": attempts,
        "tried": account.verdict.tried,
        "retry_after": _retry_after(account),
        "heartbeats": {"at_ms": columns.heartbeats, "count": _heartbeats(account, columns)},
        "usage": account.snapshot.usage,
        "diagnostics": account.snapshot.diagnostics or [],
        "verdict": account.verdict if stored.verdict else None,
        "record": record,
        "violations": _violations(account),
        "previous_response_id": stored.previous_id,
        "conversation_id": stored.conversation_id,
        "next": found.next,
        "can_replay": not reason,
        "why_no_replay": reason,
    }


def _received_at(record: TurnRecord) -> float:
    """Return when the request had been received: the durations count from then. The record begins when the
    request is prepared, which takes long for the first request of a process."""
    if record.ended_at is None:
        return record.started_at
    preparing = record.started_at - (record.ended_at - record.duration_ms / 1000)
    is_plausible = 0 < preparing * 1000 <= record.duration_ms  # the clock may have been set in between
    return record.started_at - preparing if is_plausible else record.started_at


def _add_failure(attempts: list[ShownAttempt], reads: ReadColumns, account: Account) -> None:
    """Add what failed to a failed attempt without a trace of the failure: the upstream answered, but with an
    error, or with something unreadable. Its last words were the failure."""
    error = account.snapshot.error
    if not attempts or error is None or attempts[-1].message or account.code in OWN_CODES:
        return
    attempt = attempts[-1]
    attempt.message, attempt.code = error.message, attempt.code or account.code
    if attempt.ended_ms is None:
        last = reads.at_ms[-1] if reads.attempt and reads.attempt[-1] == len(attempts) - 1 else None
        attempt.ended_ms = last if last is not None else attempt.answered_ms


def _retry_after(account: Account) -> float | None:
    """Return the seconds after which the last upstream that failed permits another request."""
    if account.verdict.retry_after:
        return account.verdict.retry_after
    failures = [read_trace(trace) for trace in account.traces if trace.kind == "failure"]
    last = failures[-1] if failures else None
    return last.retry_after if isinstance(last, FailureTrace) else None


def _heartbeats(account: Account, columns: StreamColumns) -> int:
    """Return the number of heartbeats. The log does not have all of them, the record only their number."""
    record = account.record.heartbeats if account.record is not None else 0
    return max(len(columns.heartbeats), account.verdict.heartbeats, record)


def _end(account: Account) -> float | None:
    if account.is_running:
        return None
    ended_at = account.record.ended_at if account.record is not None else None
    return ended_at or account.last_activity


def _violations(account: Account) -> list[Any]:
    """Check a turn that has ended. While it runs, its log has no end, and is read again and again."""
    if account.is_running or not account.events:
        return []
    return violations_of_log(account.events, account.stored.accent)


def _traffic(traces: list[Trace], begin: float) -> tuple[list[ShownAttempt], ReadColumns]:
    """Return the exchange with the upstreams."""
    attempts: list[ShownAttempt] = []
    reads = ReadColumns()
    for trace in traces:
        at, record = round((trace.time - begin) * 1000, 3), read_trace(trace)
        if isinstance(record, RequestTrace):
            attempts.append(ShownAttempt(record.target, record.model, record.dialect, at))
            continue
        if not attempts:
            continue
        attempt = attempts[-1]
        match record:
            case AnswerTrace():
                attempt.status, attempt.answered_ms = record.status or None, at
            case ReadTrace(is_end=True):
                attempt.ended_ms = at
            case ReadTrace():
                reads.at_ms.append(at)
                reads.size.append(record.size)
                reads.attempt.append(len(attempts) - 1)
            case FailureTrace():
                attempt.code, attempt.message, attempt.ended_ms = record.code, record.message, at
                attempt.status = record.status or attempt.status
    return attempts, reads
