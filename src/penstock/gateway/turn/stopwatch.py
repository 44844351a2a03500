"""Measure the duration of a turn, and how much of it was spent in the gateway and not waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self


class Stopwatch:
    """Starts when it is created. `clock` returns monotonic seconds."""

    __slots__ = ("_began", "_clock", "_received", "_waited", "_waiting", "_waiting_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = self._received = clock()
        self._waited = 0.0
        self._waiting = 0
        """Number of current waits."""
        self._waiting_since = 0.0

    def waiting(self) -> Self:
        """Return a context whose duration counts as waiting for the upstream, the client or the store."""
        return self

    def __enter__(self) -> None:
        if not self._waiting:
            self._waiting_since = self._clock()
        self._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._waited += self._clock() - self._waiting_since

    def mark_received(self) -> float:
        """Record that the upstream has sent something, and return the time."""
        self._received = now = self._clock()
        return now

    def add_work(self, began: float) -> None:
        """Count the time since `began` as overhead, although it is part of a wait: the relay works in
        between, when something arrives."""
        self._waited -= self._clock() - began

    @property
    def now(self) -> float:
        return self._clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def idle(self) -> float:
        """Seconds since the upstream last sent something."""
        return self._clock() - self._received

    @property
    def overhead(self) -> float:
        """Seconds so far that were not spent waiting."""
        now = self._clock()
        waiting = now - self._waiting_since if self._waiting else 0.0
        return max(now - self._began - self._waited - waiting, 0.0)
