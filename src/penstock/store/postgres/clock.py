"""The clock of the database, as this worker can read it without asking.

Workers compare times with each other: when a turn ended, what counts in the last minute, how old a response
is. Their own clocks may differ by hours, so all of them use that of the database. Between two measurements, a
clock of this machine counts that nobody can set.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SLOWEST = 1.0
"""Seconds. A slower answer says too little about the time."""


class DatabaseClock:
    """Call it for the seconds since 1970."""

    def __init__(
        self, steady: Callable[[], float] = time.monotonic, own: Callable[[], float] = time.time
    ) -> None:
        self._steady = steady
        self._ahead = own() - steady()
        self._is_measured = False

    def __call__(self) -> float:
        return self._steady() + self._ahead

    def start(self) -> float:
        """Return the beginning of a measurement."""
        return self._steady()

    def measured(self, began: float, seconds: float) -> None:
        """Note the time that the database has returned. Its clock was read between the beginning of the
        measurement and now; within these limits, this clock stays as it is."""
        duration = self._steady() - began
        if self._is_measured and duration > _SLOWEST:
            return
        ahead = seconds - began - duration / 2
        if not self._is_measured or abs(ahead - self._ahead) > duration / 2:
            self._ahead = ahead
        self._is_measured = True
