"""Whose time it was: the upstream's, or ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Runs from its making. `clock` gives seconds that never run backwards."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = self._heard = clock()
        self._waited = 0.0
        self._waiting_since: float | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For as long as there is nothing to do but wait for somebody else."""
        self._waiting_since = started = self._clock()
        try:
            yield
        finally:
            self._waiting_since = None
            self._heard = self._clock()
            self._waited += self._heard - started

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def idle(self) -> float:
        """Seconds since somebody was last heard."""
        return self._clock() - self._heard

    @property
    def overhead(self) -> float:
        """Seconds so far that were nobody's but ours."""
        now = self._clock()
        waiting = now - self._waiting_since if self._waiting_since is not None else 0.0
        return max(now - self._began - self._waited - waiting, 0.0)
