"""One sentence that says who ended a turn and why, and one about what its client received."""

from __future__ import annotations

from penstock.explain.account import Account
from penstock.explain.meanings import MEANINGS
from penstock.formatting import format_duration
from penstock.gateway.telemetry.traces import AnswerTrace, FailureTrace, ReadTrace, read_trace
from penstock.protocol.events import TERMINAL
from penstock.store.ledger import FAILED

_SILENCE = 0.1
"""Seconds. A shorter silence at the end of an answer means nothing."""
OWN_CODES = ("internal_error", "shutting_down", "gateway_restarted", "worker_lost")
"""Failures of the gateway itself."""
_ERROR_STATUS = 400
_SEVERAL = 2
DISCONNECTED = ("client_gone", "client_stalled")
"""The codes of turns whose client was not there any more."""


def outcome_sentence(account: Account) -> str:
    """Return who ended the turn and why, and what the client received."""
    if account.is_running:
        return "The turn is still running."
    return " ".join(part for part in (_ended(account), _attempts(account), _received(account)) if part)


def _ended(account: Account) -> str:
    status, verdict = account.stored.status, account.verdict
    if verdict.closer == "client" or status == "cancelled":
        meaning = MEANINGS.get(account.code, "the client ended the turn")
        return f"{_capitalised(meaning)}{_after(account)}."
    if status == "completed":
        return f"{_upstream(account)} completed the response{_after(account)}."
    if status == "incomplete":
        details = account.snapshot.incomplete_details
        reason = (details.reason if details is not None else "") or account.code
        return f"The response is incomplete: {_meaning(reason) if reason else 'no reason is known'}."
    return _failed(account)


def _failed(account: Account) -> str:
    code, verdict = account.code, account.verdict
    upstream = _upstream(account)
    attempt = account.attempts[-1] if account.attempts else None
    status = (attempt.status if attempt is not None else verdict.upstream_status) or 0
    if status >= _ERROR_STATUS:
        return f"{upstream} answered with HTTP {status} ({_meaning(code)})."
    match code:
        case "upstream_truncated":
            how = "ended its answer" if _is_answer_complete(account) else "closed the connection"
            return f"{upstream} {how} without a finish reason{_silence(account)}."
        case "upstream_timeout":
            silence = format_duration(seconds) if (seconds := _silent_seconds(account)) else ""
            waited = f" for {silence}" if silence else " within the time limit"
            return f"{upstream} sent nothing{waited}, and the gateway stopped waiting."
        case "upstream_unreachable":
            target = _target(account)
            return f"The gateway could not connect to the upstream{f' {target}' if target else ''}."
    is_own = code in OWN_CODES or (verdict.closer == "gateway" and not _target(account))
    if account.stored.status == "refused" and is_own:
        return f"The gateway refused the request ({_meaning(code)})."
    if is_own:
        return f"The gateway ended the turn ({_meaning(code)})."
    place = " in the middle of its answer" if status and verdict.first_output_ms >= 0 else ""
    return f"{upstream} failed{place} ({_meaning(code)})."


def _attempts(account: Account) -> str:
    """Say that a failure was the last of several."""
    count = max(len(account.attempts), account.verdict.attempts)
    if count < _SEVERAL or account.stored.status not in FAILED:
        return ""
    return f"That was the last of {count} attempts."


def _received(account: Account) -> str:
    # The verdict is stored before the terminal event is sent, the record is settled after that.
    record = account.record if account.record is not None and account.record.ended_at is not None else None
    ended = record or account.verdict
    last = ended.last_event
    if account.stored.is_background and not ended.stream:
        return "The turn ran in the background."
    if ended.status >= _ERROR_STATUS:
        return f"The client received HTTP {ended.status}."
    if ended.closer == "client" and account.code in DISCONNECTED:
        # The terminal event was written because the client had left.
        return f"The last event before that was `{last}`." if last and last not in TERMINAL else ""
    if ended.terminal_sent and last:
        return (
            f"The client received `{last}`." if ended.stream else "The client received the response as JSON."
        )
    if last and ended.closer == "client":
        return f"The last event before that was `{last}`."
    return ""


def _upstream(account: Account) -> str:
    target = _target(account)
    return f"The upstream {target}" if target else "The upstream"


def _target(account: Account) -> str:
    return account.attempts[-1].target if account.attempts else account.verdict.target


def _is_answer_complete(account: Account) -> bool:
    """Return whether the last answer ended as HTTP bodies do. If not, its connection was cut."""
    for trace in reversed(account.traces):
        read = read_trace(trace)
        if isinstance(read, ReadTrace):
            return read.is_end
    return False


def _silence(account: Account) -> str:
    seconds = _silent_seconds(account)
    return f" after {format_duration(seconds)} of silence" if seconds >= _SILENCE else ""


def _silent_seconds(account: Account) -> float:
    """Return how long the upstream had sent nothing when its answer ended or failed."""
    silence, last = account.verdict.idle_ms / 1000, None
    for trace in account.traces:
        record = read_trace(trace)
        is_over = isinstance(record, FailureTrace) or (isinstance(record, ReadTrace) and record.is_end)
        if is_over and last is not None:
            silence = trace.time - last
        is_heard = isinstance(record, AnswerTrace | ReadTrace) and not is_over
        last = trace.time if is_heard else None
    return silence


def _after(account: Account) -> str:
    seconds = account.verdict.duration_ms / 1000
    return f" after {format_duration(seconds)}" if seconds else ""


def _meaning(code: str) -> str:
    if not code:
        return "no error code is known"
    return f"{code}: {MEANINGS[code]}" if code in MEANINGS else code


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
