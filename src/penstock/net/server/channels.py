"""What an application sees of one client: a request, or a WebSocket.

Our own server implements these on transports, and `gateway.http.asgi` on top of any ASGI server. Sending
never waits: a channel accepts everything, and `is_writable` says whether to send more. An application that
sends a lot waits in `drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Headers = Sequence[tuple[str, str]]


class ChannelClosed(Exception):  # noqa: N818 - named after what happened
    """The client has disconnected, and what the application waits for will not arrive."""


class ClientChannel(Protocol):
    """What requests and WebSockets have in common."""

    method: str
    path: str
    """Without the query, percent-decoded."""
    query: str
    """As it was sent, without the question mark."""
    headers: dict[str, str]
    """Names are in lower case; the values of a repeated header are joined by commas."""
    server_port: int
    """The port on which the server listens; 0 if it is unknown."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def is_writable(self) -> bool:
        """Whether the client reads as fast as it is sent to, or has disconnected."""

    @property
    def unsent(self) -> int:
        """Bytes that the client has not read yet, as far as this process knows."""

    async def drain(self) -> None:
        """Wait until `is_writable`."""

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call this function, instead of an earlier one, when the client disconnects; soon if it already has.
        After the end of a response it is not called."""

    def abort(self) -> None:
        """Close the connection at once and discard what the client has not read."""


class HttpChannel(ClientChannel, Protocol):
    """One request and its response."""

    async def receive(self) -> bytes:
        """Return the next piece of the body; empty at its end. Raise `ChannelClosed` if the client has
        disconnected."""

    def begin(self, status: int, headers: Headers) -> None:
        """Begin the response. The head is sent together with the first piece of the body. Without a
        `content-length`, the body is chunked, or ends with the connection for a client without chunks."""

    def write(self, data: bytes) -> None:
        """Send a piece of the body. Nothing happens if the client has disconnected."""

    def end(self, data: bytes = b"") -> None:
        """Send the last piece of the body."""

    def close(self) -> None:
        """Close the connection after the response, once the client has read everything."""


class SocketChannel(ClientChannel, Protocol):
    """One WebSocket. `accept` or `refuse` must be called first."""

    def accept(self) -> None:
        """Complete the handshake."""

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer the handshake with an HTTP error."""

    async def receive(self) -> str | None:
        """Return the next message, as text; None if the server is stopping: then the application ends what
        it is doing, and closes. Raise `ChannelClosed` if the client has disconnected."""

    def send(self, text: bytes) -> None:
        """Send a text message, given in UTF-8. Nothing happens if the client has disconnected."""

    def close(self, code: int, reason: str = "") -> None:
        """Close the connection after the client has read everything."""


class ChannelHandler(Protocol):
    """An application. The server calls one of these for each request, in a task of its own."""

    async def serve_http(self, channel: HttpChannel) -> None: ...

    async def serve_socket(self, channel: SocketChannel) -> None: ...
