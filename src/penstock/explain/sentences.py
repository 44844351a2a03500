"""Describe a turn in sentences: which upstreams were tried, how it ended and why, timing, diagnostics."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.explain.account import Account, AttemptSummary
from penstock.explain.meanings import CLOSERS, explained
from penstock.explain.outcome import DISCONNECTED
from penstock.formatting import counted, format_duration, format_time
from penstock.stream.recovery import RESTARTED


def sentences(account: Account) -> list[str]:
    """Return the sentences, in the order that is useful for troubleshooting."""
    parts = (_beginning, _upstreams, _ending, _client, _times, _tokens, _cost, _diagnostics, _gaps, _storage)
    return [sentence for part in parts for sentence in part(account)]


def _beginning(account: Account) -> Iterator[str]:
    stored, verdict = account.stored, account.verdict
    model = verdict.model or account.snapshot.model or "(none)"
    client = f" by client {verdict.client}" if verdict.client else ""
    details = [
        "in the background" if stored.is_background else "",
        f"continuing {stored.previous_id}" if stored.previous_id else "",
        f"in conversation {stored.conversation_id}" if stored.conversation_id else "",
        f"request id {verdict.request_id}" if verdict.request_id else "",
    ]
    suffix = "".join(f", {detail}" for detail in details if detail)
    yield f"Model {model} was requested{client} at {format_time(stored.created_at)}{suffix}."


# Attempts


def _upstreams(account: Account) -> Iterator[str]:
    attempts = account.attempts
    if not attempts:
        yield from _upstream_of_verdict(account)
        return
    if len(attempts) > 1:
        yield f"There were {len(attempts)} attempts."
    for attempt in attempts[:-1]:
        yield f"{_attempted(attempt)} failed: {_reason(attempt)}."
    yield _last_attempt(attempts[-1], account)


def _upstream_of_verdict(account: Account) -> Iterator[str]:
    """Describe the attempts without traces, from the verdict."""
    verdict = account.verdict
    if verdict.target:
        model = f" as {verdict.upstream_model}" if verdict.upstream_model else ""
        status = f" (HTTP {verdict.upstream_status})" if verdict.upstream_status else ""
        yield f"The last upstream tried was {verdict.target}{model}{status}."
    for tried in verdict.tried:
        yield f"Tried before: {tried}."
    if verdict.attempts > 1:
        yield f"There were {verdict.attempts} attempts."
    if account.is_stored:
        yield "The store has no trace of the traffic between the gateway and the upstream."


def _attempted(attempt: AttemptSummary) -> str:
    dialect = f" ({attempt.dialect})" if attempt.dialect else ""
    return f"The request to upstream {attempt.target}{dialect} for {attempt.model}"


def _reason(attempt: AttemptSummary) -> str:
    status = f"HTTP {attempt.status}, " if attempt.status is not None else ""
    return f"{status}{explained(attempt.code or 'no code')}"


def _last_attempt(attempt: AttemptSummary, account: Account) -> str:
    attempted = _attempted(attempt)
    if attempt.code:
        return f"{attempted} failed: {_reason(attempt)}."
    if attempt.status is not None:
        return f"{attempted} was answered with HTTP {attempt.status}."
    outcome = "has not been answered yet" if account.is_running else "was never answered"
    return f"{attempted} {outcome}."


# Outcome


def _ending(account: Account) -> Iterator[str]:
    if account.is_running:
        yield (
            "Not ended: the turn is still running, or its gateway crashed. "
            "After a crash, the next gateway that opens the store ends it."
        )
        return
    code = account.code
    incomplete = account.snapshot.incomplete_details
    if not code and incomplete is not None and incomplete.reason:
        code = incomplete.reason
    # A turn that a restart ended has no verdict.
    closer = account.verdict.closer or ("gateway" if code == RESTARTED else "upstream")
    if account.stored.status == "completed" and closer == "upstream" and not code:
        yield "Completed normally."
        return
    ended_by = CLOSERS.get(closer, closer)
    if closer == "client" and code not in DISCONNECTED:
        ended_by = "a client ended the turn"
    reason = f" ({explained(code)})" if code else ""
    yield f"{account.stored.status.capitalize()}: {ended_by}{reason}."


def _client(account: Account) -> Iterator[str]:
    if not account.is_stored:
        return
    if account.code in DISCONNECTED:
        yield "The client had disconnected; the output so far is stored."
    elif account.code == RESTARTED and not account.stored.is_background:
        yield "The client was disconnected; the items finished by then are stored."
    elif account.code == RESTARTED:
        yield "The items finished by then are stored."


# Figures


def _times(account: Account) -> Iterator[str]:
    first, verdict = first_output(account), account.verdict
    seconds = verdict.first_output_ms / 1000 if verdict.first_output_ms >= 0 else first
    output = f"First output after {format_duration(seconds)}" if seconds is not None else "No output"
    active = account.last_activity - account.begin
    if not account.is_stored and account.is_running:
        return
    is_end_known = not (account.is_running or account.code == RESTARTED)  # a crash leaves no time
    if account.is_stored and not is_end_known:
        yield f"{output}; last activity after {format_duration(active)}."
        return
    total = format_duration(verdict.duration_ms / 1000 or active)
    overhead = verdict.overhead_ms / 1000
    yield f"{output}; {total} in total" + (
        f", of which {format_duration(overhead)} in the gateway." if overhead else "."
    )


def first_output(account: Account) -> float | None:
    """Return the seconds until the first item was announced, according to the event log."""
    for event in account.events:
        if b'"response.output_item.added"' in event.data:
            return event.time - account.begin
    return None


def _tokens(account: Account) -> Iterator[str]:
    usage = account.snapshot.usage
    if usage is None:
        if not account.is_running:
            yield "Token usage is unknown."
        return
    cached = usage.input_tokens_details.cached_tokens if usage.input_tokens_details else 0
    reasoning = usage.output_tokens_details.reasoning_tokens if usage.output_tokens_details else 0
    text = counted(usage.input_tokens, "input token") + (f" ({cached:,} cached)" if cached else "")
    text += f", {counted(usage.output_tokens, 'output token')}"
    text += f" ({reasoning:,} for reasoning)" if reasoning else ""
    codes = [each.code for each in account.snapshot.diagnostics or ()]
    is_estimate = account.verdict.usage_estimated or "usage_estimated" in codes
    yield text + ("; estimated, because the upstream reported no usage." if is_estimate else ".")


def _cost(account: Account) -> Iterator[str]:
    record = account.record
    if record is not None and record.ended_at is not None and account.snapshot.usage is not None:
        price = "unknown, because the model has no price" if record.cost is None else f"${record.cost:,.6f}"
        yield f"Cost: {price}."


# Problems


def _diagnostics(account: Account) -> Iterator[str]:
    for each in account.snapshot.diagnostics or ():
        times = f" ({each.count} times)" if each.count > 1 else ""
        message = f": {each.message.rstrip('.')}" if each.message else ""
        yield f"Diagnostic {each.code}{times}{message}."


def _gaps(account: Account) -> Iterator[str]:
    if dropped := account.stored.dropped:
        missing = counted(dropped, "event") + (" is" if dropped == 1 else " are")
        yield (
            f"{missing} missing from the log, because the disk was too slow or full; "
            "a client that resumes the stream does not receive them."
        )


def _storage(account: Account) -> Iterator[str]:
    record = account.record
    if account.is_stored or account.is_hidden or record is None:
        return
    if not record.is_stored:
        reason = '"store": false' + ("" if record.stream else ", or a compaction, which is never stored")
        yield f"Prompt, answer and events were not stored ({reason}); this is what the ledger has."
    elif account.stored.status == "refused":
        yield "The request was refused, so its response never began; this is what the ledger has."
    elif not account.is_running:
        yield "The response is no longer in the store; this is what the ledger has."
