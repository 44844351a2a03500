"""Whether a failure is worth another attempt, and after how long. It is asked before anything was delivered;
after that nothing is ever sent again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from penstock.errors import (
    NetworkError,
    OpenResponsesError,
    OverloadedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)

log = logging.getLogger("penstock.client")

FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0

TRUNCATED = "stream_truncated"
"""The code of a stream that was closed in good order before its end."""

FINAL_CODES = frozenset({"insufficient_quota", "certificate_error", "tls_error", "client_closed"})
"""Failures of a kind that may pass, which will not."""

_NOT_THERE = (501, 505)
_TRY_AGAIN = (408, 421, 425, 499)
"""Statuses below 500 that say nothing against the request."""


class RetryPolicy(Struct, frozen=True):
    """`random` gives numbers from 0 to 1; it spreads out the clients that one failure stopped together."""

    retries: int
    max_wait: float
    random: Callable[[], float]

    def wait(self, error: OpenResponsesError, attempt: int) -> float | None:
        """Seconds until the next attempt after `attempt` failed ones before this; None to give up."""
        if attempt >= self.retries or not is_transient(error):
            return None
        if error.retry_after:
            return error.retry_after if error.retry_after <= self.max_wait else None
        return self.backoff(attempt)

    def backoff(self, attempt: int) -> float:
        """Doubling from half a second to eight, of which a random half is taken off."""
        longest: float = min(FIRST_WAIT * 2 ** min(attempt, 16), LONGEST_WAIT)
        return longest * (0.5 + self.random() / 2)


class Patience:
    """A policy and the clock that it waits by."""

    def __init__(self, policy: RetryPolicy, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.policy = policy
        self._sleep = sleep

    async def allows_another(self, error: OpenResponsesError, attempt: int) -> bool:
        """True when it is time for the next attempt, after a wait; False when there is none."""
        wait = self.policy.wait(error, attempt)
        if wait is None:
            return False
        await self.rest(wait, f"attempt {attempt + 1} failed", error)
        return True

    async def rest(self, seconds: float, what: str, error: OpenResponsesError) -> None:
        log.warning("%s, again in %.1f s: %s", what, seconds, _one_line(str(error)))
        if seconds:
            await self._sleep(seconds)


def is_transient(error: OpenResponsesError) -> bool:
    """May the same request succeed a little later?"""
    if error.code in FINAL_CODES:
        return False
    match error:
        case RateLimitError() | OverloadedError():
            return True
        case ServerError():
            if error.status is None or error.status in _TRY_AGAIN:
                return True
            return error.status >= 500 and error.status not in _NOT_THERE
        case NetworkError():
            return error.status is None or error.status >= 500  # a proxy's refusal has a status
        case ProtocolError():
            return error.code == TRUNCATED
        case _:
            return error.status in _TRY_AGAIN


def is_break(error: OpenResponsesError) -> bool:
    """Did the connection end, as opposed to a server that said no? Only then a stream can be taken up."""
    if isinstance(error, NetworkError):
        return error.status is None and error.code not in FINAL_CODES
    return isinstance(error, ProtocolError) and error.code == TRUNCATED


def log_failure(error: OpenResponsesError) -> None:
    """Log a failure that is raised to the caller."""
    status = f" {error.status}" if error.status else ""
    log.error("%s%s %s: %s", type(error).__name__, status, error.code, _one_line(str(error)))


def _one_line(text: str) -> str:
    """A log entry is one line, whatever a server wrote."""
    return " ".join(text.split())
