"""Measure the duration of a turn, and how much of it was spent in the gateway and not waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self


class Stopwatch:
    """Starts when it is created. `clock` returns monotonic seconds."""

    __slots__ = ("_began", "_waited", "_waiting", "_waiting_since", "clock", "received")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._began = self.received = clock()
        """`received` is when the upstream last sent something; the relay sets it."""
        self._waited = 0.0
        self._waiting = 0
        """Number of current waits."""
        self._waiting_since = 0.0

    def waiting(self) -> Self:
        """Return a context whose duration counts as waiting for the upstream, the client or the store."""
        return self

    def __enter__(self) -> None:
        if not self._waiting:
            self._waiting_since = self.clock()
        self._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._waited += self.clock() - self._waiting_since

    def add_work(self, began: float) -> None:
        """Count the time since `began` as overhead, although it is part of a wait: the relay works in
        between, when something arrives."""
        self._waited -= self.clock() - began

    @property
    def seconds(self) -> float:
        return self.clock() - self._began

    @property
    def idle(self) -> float:
        """Seconds since the upstream last sent something."""
        return self.clock() - self.received

    @property
    def overhead(self) -> float:
        """Seconds so far that were not spent waiting."""
        now = self.clock()
        waiting = now - self._waiting_since if self._waiting else 0.0
        return max(now - self._began - self._waited - waiting, 0.0)
