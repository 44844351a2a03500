"""Measures how long nothing happens, with one timer that is rarely touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class IdleTimer(Protocol):
    def cancel(self) -> None: ...


class TimerSource(Protocol):
    """The part of an event loop that is needed here; `SharedTimers` has it as well."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> IdleTimer: ...


class IdleClock:
    """Calls `expired` when nothing has happened for the limit of `start`. Activity only sets `since`: the
    timer looks at it when it fires, and waits for the rest."""

    __slots__ = ("_due", "_expired", "_limit", "_timer", "_timers", "is_on", "since")

    def __init__(self, timers: TimerSource, expired: Callable[[], None]) -> None:
        self._timers = timers
        self._expired = expired
        self._timer: IdleTimer | None = None
        self._due = 0.0
        self.since = 0.0
        """When something happened last. Set it whenever something does."""
        self._limit: float | None = None
        self.is_on = False

    def start(self, limit: float | None) -> None:
        """Measure from now on. None is no limit."""
        self.is_on = True
        self.since = self._timers.time()
        self._limit = limit
        if limit is None:
            return
        due = self.since + limit
        if self._timer is not None:
            if self._due <= due:
                return  # it looks at the time again
            self._timer.cancel()
        self._due = due
        self._timer = self._timers.call_at(due, self._check)

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
        if self._timers.time() < self._due:
            self._timer = self._timers.call_at(self._due, self._check)
            return
        self.is_on = False
        self._expired()
