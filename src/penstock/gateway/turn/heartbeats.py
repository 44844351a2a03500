"""Heartbeats for a client that waits, and an eye on one that does not read (decision 10, ask A8)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from penstock.gateway.settings import Limits
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.events import Event

_SHORTEST = 0.01
"""Seconds: however the limits are set, heartbeats do not keep the machine busy."""
_CHECKS = 4
"""So often a write is looked at before its client counts as stalled."""


class StreamedTurn(Protocol):
    """What heartbeats need of a turn."""

    def start(self) -> list[Event]:
        """The beginning of the stream, if it has not begun."""

    def heartbeat(self) -> list[Event]:
        """A repeated `response.in_progress`; nothing when the turn is over."""


class HeartbeatOutlet(Protocol):
    """What heartbeats need of an outlet."""

    lock: asyncio.Lock
    last_event: float
    last_write: float
    writing_since: float | None

    async def write_locked(self, events: Sequence[Event]) -> None: ...

    async def comment(self) -> None: ...

    def give_up(self) -> None:
        """The client takes nothing any more."""


class Heartbeats:
    """Runs beside a turn, as a task of its own that is cancelled with it."""

    def __init__(
        self,
        turn: StreamedTurn,
        outlet: HeartbeatOutlet,
        limits: Limits,
        verdict: Verdict,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._turn, self._outlet, self._limits, self._verdict = turn, outlet, limits, verdict
        self._clock, self._sleep = clock, sleep

    async def run(self) -> None:
        begins_at = self._clock() + self._limits.patience
        while self._clock() < begins_at:
            await self._sleep(max(min(begins_at - self._clock(), self._until_check()), _SHORTEST))
            self._watch_stalled_write()
        await self._unless_writing(self._begin)
        while True:
            await self._sleep(max(min(self._until_next(), self._until_check()), _SHORTEST))
            await self._unless_writing(self._beat)

    async def _unless_writing(self, act: Callable[[], Awaitable[None]]) -> None:
        """While the turn itself is writing, it needs no sign of life; it may need an end.

        A client that does not read stops whoever writes next, which may be the heartbeat itself.
        """
        if self._outlet.lock.locked():
            self._watch_stalled_write()
            return
        try:
            async with asyncio.timeout(self._limits.client_timeout), self._outlet.lock:
                await act()
        except TimeoutError:
            self._outlet.give_up()

    async def _begin(self) -> None:
        await self._outlet.write_locked(self._turn.start())

    def _until_next(self) -> float:
        outlet, limits = self._outlet, self._limits
        if outlet.writing_since is not None:
            return limits.comment_every
        due = min(outlet.last_write + limits.comment_every, outlet.last_event + limits.event_every)
        return due - self._clock()

    def _until_check(self) -> float:
        """A write that waits for the client may begin at any moment, and must not wait much too long."""
        longest = self._limits.client_timeout
        return math.inf if longest is None else longest / _CHECKS

    async def _beat(self) -> None:
        now, outlet, limits = self._clock(), self._outlet, self._limits
        if now - outlet.last_event >= limits.event_every:
            self._verdict.heartbeats += 1
            await outlet.write_locked(self._turn.heartbeat())
        elif now - outlet.last_write >= limits.comment_every:
            self._verdict.heartbeats += 1
            await outlet.comment()

    def _watch_stalled_write(self) -> None:
        since, longest = self._outlet.writing_since, self._limits.client_timeout
        if since is not None and longest is not None and self._clock() - since >= longest:
            self._outlet.give_up()
