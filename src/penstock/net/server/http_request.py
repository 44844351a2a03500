"""One request on a client's connection, and its response: what the application sees as `HttpChannel`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from penstock.net.flow_control import SMALL, write_all
from penstock.net.server.channels import ChannelClosed, Headers
from penstock.net.server.request_heads import RequestHead
from penstock.net.server.response_heads import CHUNKED, CLOSE, CONTINUE, response_head

_NO_BODY = (204, 304)
_LAST_CHUNK = b"0\r\n\r\n"


class Owner(Protocol):
    """The connection of a request."""

    server_port: int
    is_writable: bool

    async def drain(self) -> None: ...

    def body_taken(self) -> None:
        """Go on reading: the application has taken the body that was received so far."""

    def response_ended(self) -> None: ...

    def is_past(self, request: HttpRequest) -> bool:
        """Return whether the connection already belongs to another request."""

    def close_ended(self) -> None:
        """Close the connection after a response that has already ended."""

    def abort(self) -> None: ...


class HttpRequest:
    __slots__ = (
        "_body",
        "_callback",
        "_expects_continue",
        "_has_body",
        "_has_chunks",
        "_head",
        "_is_body_complete",
        "_is_chunked",
        "_is_connected",
        "_left",
        "_owner",
        "_transport",
        "_waiter",
        "headers",
        "is_begun",
        "is_ended",
        "is_writable",
        "keep_alive",
        "method",
        "path",
        "query",
        "server_port",
    )

    def __init__(self, owner: Owner, transport: asyncio.Transport, head: RequestHead) -> None:
        self.method, self.path, self.query, self.headers = head.method, head.path, head.query, head.headers
        self.server_port = owner.server_port
        self.keep_alive = head.keep_alive
        self.is_begun = self.is_ended = False
        self._owner, self._transport = owner, transport
        self._has_chunks, self._expects_continue = head.has_chunks, head.expects_continue
        self._body: bytes | bytearray = b""
        self._is_body_complete = head.body_length == 0
        self._is_connected = True
        self.is_writable = owner.is_writable
        """Kept up to date by the connection. An attribute, because every piece of a stream checks it."""
        self._callback: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        """The head of the response, until it is sent."""
        self._is_chunked, self._has_body = False, True
        self._left: int | None = None
        """Bytes of the response still to be sent; None: unknown."""

    # The request

    @property
    def is_head_sent(self) -> bool:
        return self.is_begun and not self._head

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the body that the application has not taken yet."""
        return len(self._body)

    @property
    def is_body_complete(self) -> bool:
        return self._is_body_complete

    def feed(self, data: bytes, *, is_last: bool) -> None:
        """Add a received piece of the body. After the response has ended, it is discarded."""
        self._is_body_complete = is_last
        if not self.is_ended:
            if not self._body:
                self._body = data
            elif isinstance(self._body, bytes):
                self._body = bytearray(self._body + data)
            else:
                self._body += data
        if data or is_last:
            self._wake()

    async def receive(self) -> bytes:
        while True:
            if not self._is_connected or self.is_ended:
                raise ChannelClosed
            if self._body:
                body, self._body = bytes(self._body), b""
                self._owner.body_taken()
                return body
            if self._is_body_complete:
                return b""
            if self._expects_continue and not self.is_begun:
                self._expects_continue = False
                self._transport.write(CONTINUE)
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # The client

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._is_connected else 0

    async def drain(self) -> None:
        if not self.is_writable:
            await self._owner.drain()
            self.is_writable = True

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        if self._is_connected:
            self._callback = callback
        elif callback is not None and not self.is_ended:
            asyncio.get_running_loop().call_soon(callback)

    def disconnect(self) -> None:
        """Notify the application that its client has disconnected."""
        self._is_connected, self.is_writable = False, True
        self._body = b""
        self._wake()
        callback, self._callback = self._callback, None
        if callback is not None and not self.is_ended:
            callback()

    def abort(self) -> None:
        self._is_connected, self.is_writable = False, True
        if not self._owner.is_past(self):
            self._owner.abort()

    def close(self) -> None:
        self.keep_alive = False
        if self.is_ended and not self._owner.is_past(self):
            self._owner.close_ended()

    # The response

    def begin(self, status: int, headers: Headers) -> None:
        if self.is_begun:
            raise RuntimeError("the response has already begun")
        length = None
        for name, value in headers:
            if name == "content-length":
                length = int(value)
        has_body = self.method != "HEAD" and status not in _NO_BODY
        lines = []
        is_chunked = has_body and length is None and self._has_chunks
        if is_chunked:
            lines.append(CHUNKED)
        if not self.keep_alive:  # as for every client without chunks, whose body ends with the connection
            lines.append(CLOSE)
        self._head = response_head(status, headers, *lines)
        self._is_chunked, self._has_body, self._left = is_chunked, has_body, length
        self.is_begun = True

    def write(self, data: bytes) -> None:
        if self._is_chunked and 0 < len(data) <= SMALL and not (self._head or self.is_ended):
            if self._is_connected:  # nearly every piece of a stream
                self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            return
        self._send(self._framed(data))

    def end(self, data: bytes = b"") -> None:
        framed = self._framed(data)
        if self._left and self._has_body and self._is_connected:
            self.abort()
            raise RuntimeError("the response is shorter than its content-length")
        if self._is_chunked:
            framed.append(_LAST_CHUNK)
        self.is_ended = True
        self._callback = None
        self._body = b""
        self._send(framed)
        if self._is_connected:
            self._owner.response_ended()

    def _send(self, framed: list[bytes]) -> None:
        """Send the head, if it is not sent yet, and these bytes."""
        if self._head:
            framed.insert(0, self._head)
            self._head = b""
        if framed and self._is_connected:
            write_all(self._transport, framed)

    def _framed(self, data: bytes) -> list[bytes]:
        if not self.is_begun or self.is_ended:
            raise RuntimeError("the response has not begun, or has ended")
        if self._is_chunked:
            # An empty chunk would end the body.
            return [b"%x\r\n" % len(data), data, b"\r\n"] if data else []
        if not self._has_body or not data:
            return []
        if self._left is None:
            return [data]
        if len(data) > self._left:
            raise RuntimeError("the response is longer than its content-length")
        self._left -= len(data)
        return [data]
