"""Checks the limits of a key against what its turns have used and reserved. Every store uses this, with its
own way of counting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from penstock.store.ledger import WINDOW, Budget, Exceeded, KeyLimits, TurnRecord, period_at

_WAIT_FOR_TURN = 1.0
"""Seconds until a client that has too many turns running should try again: nobody knows when one ends."""


class LedgerCounts(Protocol):
    """What a store counts for one tenant."""

    def running(self) -> int:
        """Return the number of turns that have not ended."""

    def recent(self, since: float) -> tuple[int, int]:
        """Return the number of turns that started after a time, and their tokens, used or reserved."""

    def recent_turns(self, since: float) -> Iterable[tuple[float, int]]:
        """Yield the start and the tokens of the turns that started after a time, oldest first."""

    def spent(self, budget: Budget, begin: float, end: float) -> float:
        """Return what the turns that started in a period have used or reserved, in the budget's unit."""


def check_limits(record: TurnRecord, limits: KeyLimits, counts: LedgerCounts) -> Exceeded | None:
    """Return the limit that a turn would exceed; of several, the one with the longest wait."""
    return max(_exceeded(record, limits, counts), key=lambda each: each.retry_after, default=None)


def _exceeded(record: TurnRecord, limits: KeyLimits, counts: LedgerCounts) -> Iterator[Exceeded]:
    most = limits.concurrent_turns
    if most is not None and (running := counts.running()) >= most:
        yield Exceeded(limit="concurrent_turns", allowed=most, used=running, retry_after=_WAIT_FOR_TURN)
    if limits.requests_per_minute is not None or limits.tokens_per_minute is not None:
        yield from _rates(record, limits, counts)
    for budget in limits.budgets:
        begin, end = period_at(budget.period, record.started_at)
        used = counts.spent(budget, begin, end)
        needed = record.reserved_tokens if budget.unit == "tokens" else record.reserved_cost
        if used >= budget.amount or used + needed > budget.amount:
            wait = end - record.started_at
            yield Exceeded(limit="budget", allowed=budget.amount, used=used, retry_after=wait, budget=budget)


def _rates(record: TurnRecord, limits: KeyLimits, counts: LedgerCounts) -> Iterator[Exceeded]:
    now = record.started_at
    requests, tokens = counts.recent(now - WINDOW)
    most = limits.requests_per_minute
    if most is not None and requests >= most:
        starts = ((start, 1) for start, _ in counts.recent_turns(now - WINDOW))
        wait = _wait_for(requests + 1 - most, starts, now)
        yield Exceeded(limit="requests_per_minute", allowed=most, used=requests, retry_after=wait)
    most, needed = limits.tokens_per_minute, record.reserved_tokens
    if most is not None and (tokens >= most or tokens + needed > most):
        excess = max(tokens + needed - most, tokens + 1 - most)
        wait = _wait_for(excess, counts.recent_turns(now - WINDOW), now)
        yield Exceeded(limit="tokens_per_minute", allowed=most, used=tokens, retry_after=wait)


def _wait_for(excess: float, turns: Iterable[tuple[float, int]], now: float) -> float:
    """Return the seconds until turns with this total have left the window; all of it, if they never will."""
    for start, amount in turns:
        excess -= amount
        if excess <= 0:
            return min(max(start + WINDOW - now, 0.0), WINDOW)
    return WINDOW
