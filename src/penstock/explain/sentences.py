"""A turn in a few sentences: who was asked, how it ended and why, how long it took, what was odd."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.explain.account import Account, AttemptSummary
from penstock.explain.meanings import CLOSERS, explained
from penstock.formatting import counted, format_duration, format_time
from penstock.stream.recovery import RESTARTED


def sentences(account: Account) -> list[str]:
    """In the order in which somebody who looks for a fault would ask."""
    parts = (_beginning, _upstreams, _ending, _client, _times, _tokens, _diagnostics, _gaps)
    return [sentence for part in parts for sentence in part(account)]


def _beginning(account: Account) -> Iterator[str]:
    stored, verdict = account.stored, account.verdict
    model = verdict.model or account.snapshot.model or "without a name"
    whose = f" by {verdict.client}" if verdict.client else ""
    ways = [
        "in the background" if stored.is_background else "",
        f"as a continuation of {stored.previous_id}" if stored.previous_id else "",
        f"in the conversation {stored.conversation_id}" if stored.conversation_id else "",
        f"by the request {verdict.request_id}" if verdict.request_id else "",
    ]
    how = "".join(f", {way}" for way in ways if way)
    yield f"The model {model} was asked{whose} at {format_time(stored.created_at)}{how}."


# Who was asked


def _upstreams(account: Account) -> Iterator[str]:
    attempts = account.attempts
    if not attempts:
        yield from _upstream_of_verdict(account)
        return
    if len(attempts) > 1:
        yield f"There were {len(attempts)} attempts."
    for attempt in attempts[:-1]:
        yield f"{_asked(attempt)}, which failed with {_why(attempt)}."
    yield _last_attempt(attempts[-1], account)


def _upstream_of_verdict(account: Account) -> Iterator[str]:
    """Without traces, what the verdict says."""
    verdict = account.verdict
    if verdict.target:
        model = f" as {verdict.upstream_model}" if verdict.upstream_model else ""
        status = f" (HTTP {verdict.upstream_status})" if verdict.upstream_status else ""
        yield f"The last upstream asked was {verdict.target}{model}{status}."
    for tried in verdict.tried:
        yield f"Before it, {tried}."
    yield "What passed between the gateway and the upstream is not in the file."


def _asked(attempt: AttemptSummary) -> str:
    dialect = f" ({attempt.dialect})" if attempt.dialect else ""
    return f"The upstream {attempt.target}{dialect} was asked for {attempt.model}"


def _why(attempt: AttemptSummary) -> str:
    status = f"HTTP {attempt.status}, " if attempt.status is not None else ""
    return f"{status}{explained(attempt.code or 'no code')}"


def _last_attempt(attempt: AttemptSummary, account: Account) -> str:
    asked = _asked(attempt)
    if attempt.code:
        return f"{asked}, which failed with {_why(attempt)}."
    if attempt.status is not None:
        return f"{asked} and answered with HTTP {attempt.status}."
    yet = "has not answered yet" if account.is_running else "never answered"
    return f"{asked} and {yet}."


# How it ended


def _ending(account: Account) -> Iterator[str]:
    if account.is_running:
        yield (
            "It has not ended: it still runs, or its gateway died, "
            "and the next one that opens the file will end it."
        )
        return
    code = account.code
    incomplete = account.snapshot.incomplete_details
    if not code and incomplete is not None and incomplete.reason:
        code = incomplete.reason
    why = f" ({explained(code)})" if code else ""
    outcome = _OUTCOMES.get(account.stored.status, account.stored.status)
    yield f"It {outcome}; {_closer(account, code)}{why}."


def _closer(account: Account, code: str) -> str:
    """Who ended it. A turn that a restart ended has no verdict: there was nobody left to give one."""
    closer = account.verdict.closer or ("gateway" if code == RESTARTED else "upstream")
    if closer == "client" and code not in _CLIENT_GONE:
        return "a client ended it"
    return CLOSERS.get(closer, closer)


_CLIENT_GONE = ("client_gone", "client_stalled")
_OUTCOMES = {
    "completed": "completed",
    "incomplete": "ended incomplete",
    "failed": "failed",
    "cancelled": "was cancelled",
}


def _client(account: Account) -> Iterator[str]:
    if account.code in _CLIENT_GONE:
        yield "The client was gone by then; what had come is kept."
    elif account.code == RESTARTED and not account.stored.is_background:
        yield "The client's connection broke off; what was finished until then is kept."
    elif account.code == RESTARTED:
        yield "What was finished until then is kept."


# Figures


def _times(account: Account) -> Iterator[str]:
    first, verdict = first_output(account), account.verdict
    seconds = verdict.first_output_ms / 1000 if verdict.first_output_ms >= 0 else first
    begun = (
        f"The first output came after {format_duration(seconds)}" if seconds is not None else "No output came"
    )
    if account.is_running or account.code == RESTARTED:  # when its gateway died nobody knows
        yield f"{begun}; the last sign of it came after {format_duration(account.last_sign - account.begin)}."
        return
    whole = verdict.duration_ms / 1000 or account.last_sign - account.begin
    own = (
        f", {format_duration(verdict.overhead_ms / 1000)} of it in the gateway" if verdict.overhead_ms else ""
    )
    yield f"{begun}, and all of it took {format_duration(whole)}{own}."


def first_output(account: Account) -> float | None:
    """Seconds until the first item was announced, as the log has it."""
    for event in account.events:
        if b'"response.output_item.added"' in event.data:
            return event.time - account.begin
    return None


def _tokens(account: Account) -> Iterator[str]:
    usage = account.snapshot.usage
    if usage is None:
        if not account.is_running:
            yield "Nothing is known of its tokens."
        return
    cached = usage.input_tokens_details.cached_tokens if usage.input_tokens_details else 0
    reasoned = usage.output_tokens_details.reasoning_tokens if usage.output_tokens_details else 0
    text = f"{counted(usage.input_tokens, 'token')} went in" + (f" ({cached:,} cached)" if cached else "")
    text += f", {usage.output_tokens:,} came out" + (f" ({reasoned:,} for reasoning)" if reasoned else "")
    codes = [each.code for each in account.snapshot.diagnostics or ()]
    is_estimate = account.verdict.usage_estimated or "usage_estimated" in codes
    yield text + ("; these are estimates, the upstream told none." if is_estimate else ".")


# What was odd


def _diagnostics(account: Account) -> Iterator[str]:
    for each in account.snapshot.diagnostics or ():
        times = f" ({each.count} times)" if each.count > 1 else ""
        yield f"The client was told {each.code}{times}: {each.message.rstrip('.')}."


def _gaps(account: Account) -> Iterator[str]:
    if dropped := account.stored.dropped:
        lack = "event of its log is" if dropped == 1 else "events of its log are"
        yield f"{dropped:,} {lack} missing: the disk was too slow, or full. A resumed stream lacks them too."
