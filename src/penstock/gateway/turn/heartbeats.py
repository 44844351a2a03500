"""Send heartbeats to a client that waits, and detect one that does not read (decision 10, ask A8)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from penstock.gateway.settings import Limits
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.events import Event

_SHORTEST = 0.01
"""Minimum seconds between checks: heartbeats must not keep the CPU busy, whatever the limits are."""
_CHECKS = 4
"""How often a write is checked before its client is treated as stalled."""


class StreamedTurn(Protocol):
    """The part of a turn that heartbeats use."""

    def start(self) -> list[Event]:
        """Return the first events of the stream if it has not begun."""

    def heartbeat(self) -> list[Event]:
        """Return a repeated `response.in_progress`, or nothing if the turn is over."""


class HeartbeatOutlet(Protocol):
    """The part of an outlet that heartbeats use."""

    lock: asyncio.Lock
    has_begun: bool
    """Whether the first event was sent."""
    last_event: float
    last_write: float
    writing_since: float | None

    async def write_locked(self, events: Sequence[Event]) -> None: ...

    async def comment(self) -> None: ...

    def give_up(self) -> None:
        """Report that the client has stopped reading."""


class Heartbeats:
    """Runs next to a turn, in its own task that is cancelled when the turn ends."""

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
        """Begin the stream after `patience`, unless the turn does; send heartbeats from its beginning."""
        begins_at, has_begun = self._clock() + self._limits.patience, False
        while True:
            if has_begun or self._outlet.has_begun:
                has_begun = True
                await self._unless_writing(self._beat)
            elif self._clock() >= begins_at:
                has_begun = True
                await self._unless_writing(self._begin)
            else:
                self._watch_stalled_write()
            until = self._until_next() if has_begun else begins_at - self._clock()
            # The turn may begin the stream while this sleeps: its first heartbeat must not be late.
            until = min(until, self._limits.comment_every, self._limits.event_every, self._until_check())
            await self._sleep(max(until, _SHORTEST))

    async def _unless_writing(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act` unless the turn is writing: then no heartbeat is needed, but the client may be stalled.

        A client that does not read blocks the next write, which may be the heartbeat itself.
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
        next_at = min(outlet.last_write + limits.comment_every, outlet.last_event + limits.event_every)
        return next_at - self._clock()

    def _until_check(self) -> float:
        """Return the seconds until the next check for a stalled write, which may begin at any moment."""
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
