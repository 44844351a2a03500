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
        self._waiting = 0
        """How many wait now: the turn for its upstream, and a heartbeat for the client."""
        self._waiting_since = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For as long as there is nothing to do but wait for somebody else."""
        if not self._waiting:
            self._waiting_since = self._clock()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._waited += self._clock() - self._waiting_since

    def hear(self) -> None:
        """The upstream has said something."""
        self._heard = self._clock()

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def idle(self) -> float:
        """Seconds since the upstream was last heard."""
        return self._clock() - self._heard

    @property
    def overhead(self) -> float:
        """Seconds so far that were nobody's but ours."""
        now = self._clock()
        waiting = now - self._waiting_since if self._waiting else 0.0
        return max(now - self._began - self._waited - waiting, 0.0)
