"""Send heartbeats to a client that waits, and detect one that does not read (decision 10, ask A8).

There is one timer per turn (they share one of the event loop). It looks at the times of the last writes, so
that writing costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.gateway.settings import Limits
from penstock.gateway.telemetry.logs import log_fault
from penstock.gateway.turn.verdict import Verdict
from penstock.net.timers import SharedTimer, SharedTimers
from penstock.protocol.events import Event

_SHORTEST = 0.01
"""Minimum seconds between checks: heartbeats must not keep the CPU busy, whatever the limits are."""
_CHECKS = 4
"""How often a client that does not read is checked before it is treated as stalled."""


class StreamedTurn(Protocol):
    """The part of a turn that heartbeats use."""

    def start(self) -> list[Event]:
        """Return the first events of the stream if it has not begun."""

    def heartbeat(self) -> list[Event]:
        """Return a repeated `response.in_progress`, or nothing if the turn is over."""


class HeartbeatOutlet(Protocol):
    """The part of an outlet that heartbeats use."""

    has_begun: bool
    last_event: float
    last_write: float

    @property
    def is_ready(self) -> bool: ...

    def is_stalled(self, longest: float | None) -> bool: ...

    def write(self, events: Sequence[Event]) -> bool: ...

    def comment(self) -> None: ...


class Heartbeats:
    """The heartbeats of one turn, from `start` to `stop`."""

    __slots__ = (
        "_begins_at",
        "_clock",
        "_limits",
        "_on_stalled",
        "_outlet",
        "_timer",
        "_timers",
        "_turn",
        "_verdict",
    )

    def __init__(
        self,
        turn: StreamedTurn,
        outlet: HeartbeatOutlet,
        limits: Limits,
        verdict: Verdict,
        *,
        on_stalled: Callable[[], None],
        clock: Callable[[], float],
        timers: SharedTimers,
    ) -> None:
        """`on_stalled` is called when the client has stopped reading."""
        self._turn, self._outlet, self._limits, self._verdict = turn, outlet, limits, verdict
        self._on_stalled, self._clock, self._timers = on_stalled, clock, timers
        self._begins_at = clock() + limits.patience
        self._timer: SharedTimer | None = None

    def start(self) -> None:
        self._timer = self._timers.call_later(self._until_next(), self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        try:
            wait = self.check()
        except Exception as error:  # the turn itself goes on
            log_fault(error, self._verdict.request_id)
            wait = self._limits.comment_every
        if self._timer is not None:  # not stopped in the meantime
            self._timer = self._timers.call_later(wait, self._check)

    def check(self) -> float:
        """Do what is due; return the seconds until the next check. The stream begins after `patience`, unless
        the turn begins it before."""
        outlet = self._outlet
        if outlet.is_stalled(self._limits.client_timeout):
            self._on_stalled()
        elif not outlet.is_ready:
            pass  # it has something to send
        elif outlet.has_begun:
            self._beat()
        elif self._clock() >= self._begins_at:
            outlet.write(self._turn.start())
        return max(self._until_next(), _SHORTEST)

    def _beat(self) -> None:
        now, outlet, limits = self._clock(), self._outlet, self._limits
        if now - outlet.last_event >= limits.event_every:
            self._verdict.heartbeats += 1
            outlet.write(self._turn.heartbeat())
        elif now - outlet.last_write >= limits.comment_every:
            self._verdict.heartbeats += 1
            outlet.comment()

    def _until_next(self) -> float:
        """Return the seconds until something may be due. The turn may begin the stream, and its client may
        stop reading, at any moment in between."""
        outlet, limits, now = self._outlet, self._limits, self._clock()
        until = min(limits.comment_every, limits.event_every)
        if outlet.has_begun and outlet.is_ready:
            due = min(outlet.last_write + limits.comment_every, outlet.last_event + limits.event_every)
            until = min(until, due - now)
        elif not outlet.has_begun:
            until = min(until, self._begins_at - now)
        return min(until, self._until_check())

    def _until_check(self) -> float:
        longest = self._limits.client_timeout
        return math.inf if longest is None else longest / _CHECKS
