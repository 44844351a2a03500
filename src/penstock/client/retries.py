"""Decides whether and when a failed request is retried. After the first event nothing is ever retried."""

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
"""The code of a stream whose connection was closed normally, but before its last event."""

FINAL_CODES = frozenset(
    {"insufficient_quota", "budget_exceeded", "certificate_error", "tls_error", "client_closed"}
)
"""Failures that are not transient although others of their class are."""

_NOT_SUPPORTED = (501, 505)
_RETRYABLE = (408, 421, 425, 499)
"""Statuses below 500 that do not mean that the request is invalid."""


class RetryPolicy(Struct, frozen=True):
    """When to retry. `random` returns numbers from 0 to 1, to spread out clients that failed together."""

    retries: int
    max_wait: float
    random: Callable[[], float]

    def wait(self, error: OpenResponsesError, attempt: int) -> float | None:
        """Return the seconds until the next attempt, after `attempt` earlier failures; None to give up."""
        if attempt >= self.retries or not is_transient(error):
            return None
        if error.retry_after:
            return error.retry_after if error.retry_after <= self.max_wait else None
        return self.backoff(attempt)

    def backoff(self, attempt: int) -> float:
        """Return a wait that doubles from half a second to eight, minus up to a random half."""
        longest: float = min(FIRST_WAIT * 2 ** min(attempt, 16), LONGEST_WAIT)
        return longest * (0.5 + self.random() / 2)


class Retrier:
    """Waits between attempts as a policy demands."""

    def __init__(self, policy: RetryPolicy, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.policy = policy
        self._sleep = sleep

    async def wait_for_retry(self, error: OpenResponsesError, attempt: int) -> bool:
        """Wait and return True if there is another attempt; return False at once if there is none."""
        wait = self.policy.wait(error, attempt)
        if wait is None:
            return False
        await self.pause(wait, f"attempt {attempt + 1} failed", error)
        return True

    async def pause(self, seconds: float, reason: str, error: OpenResponsesError) -> None:
        log.warning("%s, retrying in %.1f s: %s", reason, seconds, _one_line(str(error)))
        if seconds:
            await self._sleep(seconds)


def is_transient(error: OpenResponsesError) -> bool:
    """Return whether the same request may succeed a little later."""
    if error.code in FINAL_CODES:
        return False
    match error:
        case RateLimitError() | OverloadedError():
            return True
        case ServerError():
            if error.status is None or error.status in _RETRYABLE:
                return True
            return error.status >= 500 and error.status not in _NOT_SUPPORTED
        case NetworkError():
            return error.status is None or error.status >= 500  # an error of a proxy has a status
        case ProtocolError():
            return error.code == TRUNCATED
        case _:
            return error.status in _RETRYABLE


def is_disconnect(error: OpenResponsesError) -> bool:
    """Return whether the connection broke, and the server reported no error: then a stream can be resumed."""
    if isinstance(error, NetworkError):
        return error.status is None and error.code not in FINAL_CODES
    return isinstance(error, ProtocolError) and error.code == TRUNCATED


def log_failure(error: OpenResponsesError) -> None:
    """Log a failure that is raised to the caller."""
    status = f" {error.status}" if error.status else ""
    log.error("%s%s %s: %s", type(error).__name__, status, error.code, _one_line(str(error)))


def _one_line(text: str) -> str:
    """Join lines: a log entry is one line, whatever the server sent."""
    return " ".join(text.split())
