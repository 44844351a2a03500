"""News of the usage: after every change, but no more than ten times a second, and the last state always."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

PAUSE = 0.1


class Timer(Protocol):
    """What of an event loop is needed."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> object: ...


class UsageNews:
    """`tell` says whether it could: where there is no room, the news are told with the next pause."""

    def __init__(self, tell: Callable[[], bool], timer: Timer) -> None:
        self._tell = tell
        self._timer = timer
        self._next = timer.time()
        self._is_planned = False

    def changed(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._timer.call_later(max(self._next - self._timer.time(), 0.0), self._due)

    def _due(self) -> None:
        self._is_planned = False
        self._next = self._timer.time() + PAUSE
        if not self._tell():
            self.changed()
