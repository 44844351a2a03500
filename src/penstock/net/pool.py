"""The connections to one server: those in use, and idle ones for the next request."""

from __future__ import annotations

import asyncio

from penstock.net.connection import UpstreamConnection
from penstock.net.flow_control import is_readable
from penstock.net.timers import SharedTimers

IDLE_SECONDS = 15.0
"""How long an idle connection is kept. Servers close theirs sooner or later as well."""


class ConnectionPool:
    """Opens no connections itself, and does not limit them: streams are long, and a request must not wait for
    one to end. Belongs to one event loop."""

    def __init__(self, *, keep_alive: bool, idle_seconds: float = IDLE_SECONDS) -> None:
        self._keep_alive = keep_alive
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._open: set[UpstreamConnection] = set()
        self._idle: dict[str, dict[UpstreamConnection, float]] = {}
        """By route: idle connections and since when, the most recently used last."""
        self._timer: asyncio.TimerHandle | None = None
        self.timers = SharedTimers()
        """For its connections."""
        self.is_closed = False

    @property
    def idle(self) -> int:
        """The number of idle connections."""
        return sum(map(len, self._idle.values()))

    def add(self, connection: UpstreamConnection) -> None:
        """Keep track of a new connection. It is closed at once if the pool was closed in the meantime."""
        transport = connection.transport
        if transport is None or transport.is_closing() or self.is_closed:
            connection.abort()
        else:
            self._open.add(connection)

    def take(self, route: str) -> UpstreamConnection | None:
        """Return the idle connection that was used last, None if there is none."""
        idle = self._idle.get(route)
        while idle:
            connection, _ = idle.popitem()
            # The server may have closed it, although the event loop does not know it yet. A request on such a
            # connection would fail, and could not be repeated.
            transport = connection.transport
            if transport is not None and not transport.is_closing() and not is_readable(transport):
                return connection
            connection.abort()
        return None

    def released(self, connection: UpstreamConnection) -> None:
        """Take a connection that is ready for another request."""
        if self.is_closed or not self._keep_alive:
            connection.abort()
            return
        self._idle.setdefault(connection.route, {})[connection] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle_seconds, self._close_idle)

    def lost(self, connection: UpstreamConnection) -> None:
        """Forget a connection that has ended."""
        self._open.discard(connection)
        idle = self._idle.get(connection.route)
        if idle is not None:
            idle.pop(connection, None)

    def close(self) -> None:
        """Close every connection at once; exchanges fail."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()

    def _close_idle(self) -> None:
        """Close connections that were idle for too long, and look again when the next one may be."""
        self._timer = None
        limit = self._loop.time() - self._idle_seconds
        for idle in self._idle.values():
            for connection, since in list(idle.items()):
                if since <= limit:
                    del idle[connection]
                    connection.abort()
        times = [since for idle in self._idle.values() for since in idle.values()]
        if times:
            self._timer = self._loop.call_at(min(times) + self._idle_seconds, self._close_idle)
