"""What the connections of a server share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from penstock.net.server.channels import ChannelHandler
from penstock.net.server.refusals import Refuser


class Connection(Protocol):
    """What the server does with its connections, HTTP or WebSocket."""

    def shutdown(self) -> None:
        """Close the connection as soon as nothing is lost by it."""

    def abort(self) -> None: ...


class ServerState(Protocol):
    """What the connections of a server share."""

    handler: ChannelHandler
    refuser: Refuser
    message_bytes: int
    """Size limit of a WebSocket message."""
    client_timeout: Callable[[], float | None]
    """Returns the seconds after which a client that reads nothing is disconnected; this may change."""

    def add(self, connection: Connection) -> None: ...

    def discard(self, connection: Connection) -> None: ...

    def start(self, serving: Coroutine[Any, Any, None]) -> None:
        """Run the application for one request or WebSocket."""
