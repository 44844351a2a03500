"""What a server, its connections and its application expect from each other."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from penstock.net.server.channels import ChannelHandler, Headers
from penstock.net.server.refusals import ServerRefusal
from penstock.net.timers import SharedTimers


class Refuser(Protocol):
    """Turns refusals into responses."""

    def refuse(
        self, refusal: ServerRefusal, method: str, headers: Mapping[str, str]
    ) -> tuple[Headers, bytes]:
        """Log the refusal; return the headers and the body of the response. `method` and `headers` are those
        of the request, as far as they were received."""

    def report(self, error: Exception) -> None:
        """Log an exception that the application did not handle."""


class ServerConnection(Protocol):
    """What the server does with its connections, HTTP or WebSocket."""

    def shutdown(self) -> None:
        """Close the connection as soon as nothing is lost by it."""

    def abort(self) -> None: ...

    @property
    def has_unread(self) -> bool:
        """Whether the client has not read everything that was sent."""


class ServerState(Protocol):
    """What connections use of their server."""

    handler: ChannelHandler
    refuser: Refuser
    message_bytes: int
    """Size limit of a WebSocket message."""
    client_timeout: Callable[[], float | None]
    """Returns the seconds after which a client that reads nothing is disconnected; this may change."""
    timers: SharedTimers

    def add(self, connection: ServerConnection) -> None: ...

    def discard(self, connection: ServerConnection) -> None: ...

    def idle(self, connection: ServerConnection) -> None:
        """Take a connection that waits for a request, and may be closed to make room for others."""

    def busy(self, connection: ServerConnection) -> bool:
        """Take a connection with a request. Return False if there are too many, and it must be refused."""

    def start(self, serving: Coroutine[Any, Any, None]) -> None:
        """Run the application for one request or WebSocket, in a task of its own."""

    def ended(self) -> None:
        """Forget the current task. A callback of the task would cost another round of the event loop."""
