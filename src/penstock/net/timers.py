"""Timers that share one timer of the event loop.

Every open stream has timers that hardly ever fire. One of uvloop takes half a kilobyte, one of these a fifth
of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush

_FEW = 64
"""Cancelled timers that are not worth removing."""
_LATE = 0.001
"""Seconds. uvloop rounds to milliseconds. If it called too early, nothing would be due, and it would be asked
to call at once, again and again."""


class SharedTimer:
    """Calls back once, unless it is cancelled before."""

    __slots__ = ("_timers", "_when", "callback")

    def __init__(self, when: float, callback: Callable[[], None], timers: SharedTimers) -> None:
        self._when, self._timers = when, timers
        self.callback: Callable[[], None] | None = callback
        """None when it was called or cancelled."""

    def __lt__(self, other: SharedTimer) -> bool:
        return self._when < other.when()

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._timers.note_cancelled()


class SharedTimers:
    """Belongs to the event loop on which it is used."""

    def __init__(self) -> None:
        self._timers: list[SharedTimer] = []
        """A heap: the next one comes first."""
        self._cancelled = 0
        """How many of them are cancelled."""
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the event loop calls next, if there is a handle."""

    def __len__(self) -> int:
        return len(self._timers)

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> SharedTimer:
        return self.call_at(self.time() + seconds, callback)

    def call_at(self, when: float, callback: Callable[[], None]) -> SharedTimer:
        """Call back at a time of the event loop's clock."""
        timer = SharedTimer(when, callback, self)
        heappush(self._timers, timer)
        self._expect(when)
        return timer

    def note_cancelled(self) -> None:
        """Remove the cancelled timers if they are the majority. To find a single one would take too long."""
        self._cancelled += 1
        if self._cancelled > max(_FEW, len(self._timers) // 2):
            self._timers = [timer for timer in self._timers if timer.callback is not None]
            heapify(self._timers)
            self._cancelled = 0

    def _expect(self, when: float) -> None:
        """Look at the timers at this time, if not before."""
        if self._handle is not None:
            if self._due <= when:
                return
            self._handle.cancel()
        self._due = when
        self._handle = asyncio.get_running_loop().call_at(when + _LATE, self._call_due)

    def _call_due(self) -> None:
        self._handle = None
        now = self.time()
        try:
            while self._timers and self._timers[0].when() <= now:
                self._call(heappop(self._timers))
        finally:
            if self._timers:
                self._expect(self._timers[0].when())

    def _call(self, timer: SharedTimer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is None:
            self._cancelled -= 1
            return
        try:
            callback()
        except Exception as error:  # others must not suffer
            context = {"message": "a timer's callback failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
