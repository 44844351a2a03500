"""One request and its response, or one WebSocket, whichever server reads it from the network."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from copy import copy
from os import urandom
from urllib.parse import parse_qsl

from penstock.fairness import WorkSlice
from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.net.server.channels import ChannelClosed, ClientChannel, HttpChannel, SocketChannel

JSON = "application/json"

_NO_CONTENT = 204
_FIRST_POLL, _LONGEST_POLL = 0.001, 0.5
"""Seconds between checks whether a client has read its response. Short, because at shutdown the server waits
for the next check of an aborted connection."""
_VALID_ID = re.compile(r"[\x21-\x7e]{1,128}")


class ClientRequest:
    """What requests and WebSockets have in common. Header names are in lower case; the values of a repeated
    header are joined by commas."""

    __slots__ = ("_channel", "headers", "method", "path", "query", "request_id", "server_port")

    def __init__(self, channel: ClientChannel) -> None:
        self.method, self.path = channel.method, channel.path
        self.query = dict(parse_qsl(channel.query)) if channel.query else {}
        self.headers = channel.headers
        self.server_port = channel.server_port
        self.request_id = request_id_for(channel.headers.get("x-request-id", ""))
        self._channel = channel

    def abort(self) -> None:
        """Close the connection at once and discard what the client has not read."""
        self._channel.abort()


class ClientlessChannel:
    """The channel of a turn that no client of this process has requested. See `ClientChannel`."""

    method, path, server_port = "POST", "/v1/responses", 0
    is_connected, is_writable, unsent = False, True, 0

    def __init__(self, query: str) -> None:
        self.query = query
        self.headers: dict[str, str] = {}

    async def drain(self) -> None:
        """Nothing is sent."""

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """There is no client that could disconnect."""

    def abort(self) -> None:
        """There is no connection."""


class SocketExchange(ClientRequest):
    """One WebSocket."""

    __slots__ = ("channel",)

    def __init__(self, channel: SocketChannel) -> None:
        super().__init__(channel)
        self.channel = channel

    def renamed(self, request_id: str) -> SocketExchange:
        """Return the exchange under another request id: a WebSocket has many turns, some at the same time."""
        other = copy(self)
        other.request_id = request_id
        return other

    def refuse(self, refused: RequestRefused) -> None:
        """Refuse the handshake."""
        headers = [("content-type", JSON), ("x-request-id", self.request_id), *refused.headers]
        self.channel.refuse(refused.status, _one_line(headers), refused.body())


class Exchange(ClientRequest):
    """One HTTP request and its response. Sending never waits; `drain` does."""

    __slots__ = ("channel", "client_timeout", "cors", "status")

    def __init__(self, channel: HttpChannel) -> None:
        super().__init__(channel)
        self.channel = channel
        self.cors: list[tuple[str, str]] = []
        """Headers that let a web page of an allowed origin read the response."""
        self.status = 0
        """HTTP status of the response; 0 until it has begun."""
        self.client_timeout: float | None = None
        """Seconds after which a client that reads nothing is disconnected."""

    async def receive(self) -> bytes:
        """Return the next piece of the body; empty at its end."""
        try:
            return await self.channel.receive()
        except ChannelClosed:
            raise ClientDisconnected from None

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self.status = status
        self.channel.begin(status, _one_line([*headers, ("x-request-id", self.request_id), *self.cors]))

    def answer(
        self, status: int, body: bytes, *, content_type: str = JSON, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a complete response."""
        content = [("content-type", content_type), ("content-length", str(len(body)))]
        self.begin(status, [*(content if status != _NO_CONTENT else ()), *headers])
        self.channel.end(b"" if self.method == "HEAD" else body)

    async def answer_large(
        self, status: int, body: Callable[[], Iterable[bytes]], *, headers: Iterable[tuple[str, str]] = ()
    ) -> int:
        """Send a complete JSON response in pieces that are generated while the client reads, and return its
        length. `body` is called twice, first to measure the length. A client that reads nothing for
        `client_timeout` is disconnected."""
        work, length = WorkSlice(), 0
        for piece in body():
            length += len(piece)
            await work.pause()
        self.begin(status, [("content-type", JSON), ("content-length", str(length)), *headers])
        try:
            for piece in body():
                self.channel.write(piece)
                await self.drain()
                await work.pause()
            self.channel.end()
        except TimeoutError:
            self.abort()
        return length

    def refuse(self, refused: RequestRefused) -> None:
        self.answer(refused.status, refused.body(), headers=refused.headers)

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent. Raise `TimeoutError` if it reads nothing for
        `client_timeout`."""
        if not self.channel.is_writable:
            async with asyncio.timeout(self.client_timeout):
                await self.channel.drain()

    async def wait_disconnected(self) -> None:
        """Wait until the client disconnects."""
        disconnected = asyncio.get_running_loop().create_future()

        def resolve() -> None:
            if not disconnected.done():
                disconnected.set_result(None)

        self.channel.on_disconnect(resolve)
        await disconnected

    async def delivered(self) -> None:
        """Wait until the client has read the whole response, so that unread data cannot stay in memory
        forever. A client that reads nothing for `client_timeout` is disconnected."""
        size = self.channel.unsent
        if not size or self.client_timeout is None:
            return
        wait, clock = _FIRST_POLL, asyncio.get_running_loop().time
        last_read_at = clock()
        while size:
            await asyncio.sleep(wait)
            left, wait = self.channel.unsent, min(wait * 2, self.client_timeout / 4, _LONGEST_POLL)
            if left < size:
                last_read_at = clock()
            elif clock() - last_read_at >= self.client_timeout:
                self.abort()
                return
            size = left


def request_id_for(given: str) -> str:
    """Return the client's request id if it is safe in a header and a log, otherwise a new one."""
    return given if _VALID_ID.fullmatch(given) else f"req_{urandom(16).hex()}"


def _one_line(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return headers whose values are one line of ASCII; a diagnostic may contain a tool's name in any
    script."""
    return [
        (name, value if value.isascii() and value.isprintable() else _printable(value))
        for name, value in headers
    ]


def _printable(value: str) -> str:
    return "".join(each if " " <= each <= "~" else "?" for each in value)
