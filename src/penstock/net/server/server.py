"""A server: its listening socket, its connections, and how it stops."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import islice
from typing import Any

from penstock.net.server.channels import ChannelHandler
from penstock.net.server.connection import HEAD_SECONDS, ClientConnection
from penstock.net.server.state import Refuser, ServerConnection
from penstock.net.timers import SharedTimers

SHUTDOWN_SECONDS = 300.0
"""For how long a client may read its last response over TLS, which does not tell how much is left."""
_CANDIDATES = 64
"""How many idle connections are looked at to find one that can be closed."""
MOST_FILES = 65_536
"""More than a process can serve; some systems would allow a billion."""
_UNKNOWN = 1024
BACKLOG = 2048
"""Connections that the system accepts before the server does."""


class Server:
    """Serves an application on one socket.

    `client_timeout` returns the seconds after which a client that reads nothing is disconnected,
    `message_bytes` is the size limit of a WebSocket message, and `most_connections` returns how many
    connections may be open; 0: any number.
    """

    def __init__(
        self,
        handler: ChannelHandler,
        refuser: Refuser,
        *,
        client_timeout: Callable[[], float | None],
        message_bytes: int,
        most_connections: Callable[[], int] = lambda: 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.handler, self.refuser = handler, refuser
        self.client_timeout, self.message_bytes = client_timeout, message_bytes
        self.tls = tls
        self.timers = SharedTimers()
        self._most_connections = most_connections
        self._listeners: list[asyncio.Server] = []
        self._connections: set[ServerConnection] = set()
        self._idle: dict[ServerConnection, None] = {}
        """Connections without a request, or with half a head; the one that is so for longest is first."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._stopped = asyncio.Event()

    async def listen(self, listening: socket.socket, *, is_private: bool = False) -> None:
        """Accept connections from now on; those of a private socket without TLS."""
        port, tls = listening.getsockname()[1], None if is_private else self.tls
        listener = await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(self, port),
            sock=listening,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=HEAD_SECONDS if tls else None,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS if tls else None,
        )
        self._listeners.append(listener)

    async def stopped(self) -> None:
        """Wait until `stop` has ended all connections, or until `exit`."""
        await self._stopped.wait()

    def stop_listening(self) -> None:
        """Accept no more connections. Those that are open are served as before."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def stop(self) -> None:
        """Accept nothing more. Idle connections are closed now, busy ones after their responses."""
        self._is_stopping = True
        self.stop_listening()
        for connection in list(self._connections):
            connection.shutdown()
        self._check_stopped()

    def abort(self) -> None:
        """Abort the remaining connections: their clients neither finish their requests nor read."""
        for connection in list(self._connections):
            connection.abort()

    def exit(self) -> None:
        """Wait for nothing more."""
        self._stopped.set()

    # Called by connections

    def add(self, connection: ServerConnection) -> None:
        self._connections.add(connection)
        if self._is_stopping:
            connection.shutdown()

    def discard(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        self._idle.pop(connection, None)
        self._check_stopped()

    def idle(self, connection: ServerConnection) -> None:
        """Take a connection that waits for a request. If there are too many connections, the one that has
        waited for longest is closed: clients expect that of a connection that they do not use."""
        most = self._most_connections()
        if most and len(self._connections) > most and self._idle:
            oldest = list(islice(self._idle, _CANDIDATES))
            # A client may still be reading its last response.
            evicted = next((each for each in oldest if not each.has_unread), oldest[0])
            del self._idle[evicted]
            self._connections.discard(evicted)
            evicted.abort()
        self._idle[connection] = None

    def busy(self, connection: ServerConnection) -> bool:
        """Take a connection with a request. Return False if there are too many of them."""
        self._idle.pop(connection, None)
        most = self._most_connections()
        return not most or len(self._connections) - len(self._idle) <= most

    def start(self, serving: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(serving))

    def ended(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.discard(task)
        if self._is_stopping:
            self._check_stopped()

    def _check_stopped(self) -> None:
        if self._is_stopping and not self._connections and not self._tasks:
            self._stopped.set()


def raise_file_limit() -> int:
    """Let this process open as many files as the system allows, up to `MOST_FILES`, and return their number.
    Many systems start processes with 1024, whatever they allow."""
    if sys.platform == "win32":
        return _UNKNOWN
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return file_limit()


def file_limit() -> int:
    """Return how many files this process may have open, at most `MOST_FILES`."""
    if sys.platform == "win32":
        return _UNKNOWN
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, MOST_FILES)
