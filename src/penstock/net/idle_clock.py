"""Measures how long nothing happens, with one timer that is rarely touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class IdleClock:
    """Calls `expired` when nothing has happened for the limit of `start`. Activity only sets `since`: the
    timer looks at it when it fires, and waits for the rest."""

    __slots__ = ("_due", "_expired", "_limit", "_loop", "_timer", "is_on", "since")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self.since = 0.0
        """When something happened last. Set it whenever something does."""
        self._limit: float | None = None
        self.is_on = False

    def start(self, limit: float | None) -> None:
        """Measure from now on. None is no limit."""
        self.is_on = True
        self.since = self._loop.time()
        self._limit = limit
        if limit is None:
            return
        due = self.since + limit
        if self._timer is not None:
            if self._due <= due:
                return  # it looks at the time again
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._check)

    def stop(self) -> None:
        """Measure nothing until the next `start`. The timer stays: the next start may use it."""
        self.is_on = False

    def cancel(self) -> None:
        """Stop for good."""
        self.is_on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if not self.is_on or self._limit is None:
            return
        self._due = self.since + self._limit
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._check)
            return
        self.is_on = False
        self._expired()
