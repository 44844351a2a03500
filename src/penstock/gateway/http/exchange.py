"""One HTTP request and its response, over ASGI."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from copy import copy
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from penstock.fairness import WorkSlice
from penstock.gateway.errors import RequestRefused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = "application/json"
EXTENSION = "penstock"
"""The ASGI extension with controls that ASGI does not define: `abort`, `close` and `unsent`."""

SERVER_STOPS = "penstock.server_stops"
"""A message type that a WebSocket receives in addition to those of ASGI."""

_NO_CONTENT = 204
_FIRST_POLL, _LONGEST_POLL = 0.02, 0.5
"""Seconds between checks whether a client has read its response. Short, because at shutdown the server waits
for the next check of an aborted connection."""
_VALID_ID = re.compile(r"[\x21-\x7e]{1,128}")


class Exchange:
    """Header names are in lower case; the values of a repeated header are joined by commas."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        self.headers = _joined(scope["headers"])
        self.server_port: int = (scope.get("server") or ("", 0))[1] or 0
        self.receive = receive
        self.send = send
        self.request_id = request_id_for(self.headers.get("x-request-id", ""))
        extensions = scope.get("extensions") or {}
        self._connection = extensions.get(EXTENSION, {})
        self._can_refuse = "websocket.http.response" in extensions
        self.cors: list[tuple[str, str]] = []
        """Headers that let a web page of an allowed origin read the response."""
        self.status = 0
        """HTTP status of the response; 0 until it has begun."""
        self.client_timeout: float | None = None
        """Seconds after which a client that reads nothing is disconnected."""

    def renamed(self, request_id: str) -> Exchange:
        """Return the exchange under another request id: a WebSocket has many turns, some at the same time."""
        other = copy(self)
        other.request_id = request_id
        return other

    async def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self.status = status
        all_headers = [*headers, ("x-request-id", self.request_id), *self.cors]
        encoded = [(name.encode("ascii"), _header_value(value)) for name, value in all_headers]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})

    async def answer(
        self, status: int, body: bytes, *, content_type: str = JSON, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a complete response."""
        content = [("content-type", content_type), ("content-length", str(len(body)))]
        await self.begin(status, [*(content if status != _NO_CONTENT else ()), *headers])
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

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
        await self.begin(status, [("content-type", JSON), ("content-length", str(length)), *headers])
        try:
            for piece in body():
                async with asyncio.timeout(self.client_timeout):
                    await self.send({"type": "http.response.body", "body": piece, "more_body": True})
                await work.pause()
            await self.send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            self.abort()
        return length

    def abort(self) -> None:
        """Close the connection at once and discard what the client has not read."""
        self._connection.get("abort", _nothing)()

    async def abort_and_wait(self) -> None:
        """Abort, and wait until the connection is closed: the server logs an error if the application returns
        earlier."""
        self.abort()
        if self._connection:
            await self.wait_disconnected()

    async def wait_disconnected(self) -> None:
        """Wait until the client disconnects; ignore everything else that it sends."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        """Close the connection after the client has read everything."""
        self._connection.get("close", _nothing)()

    async def delivered(self) -> None:
        """Wait until the client has read the whole response, so that unread data cannot stay in memory
        forever. A client that reads nothing for `client_timeout` is disconnected."""
        unsent = self._connection.get("unsent", _none)
        size, wait, clock = unsent(), _FIRST_POLL, asyncio.get_running_loop().time
        last_read_at = clock()
        while size and self.client_timeout is not None:
            await asyncio.sleep(wait)
            left, wait = unsent(), min(wait * 2, self.client_timeout / 4, _LONGEST_POLL)
            if left < size:
                last_read_at = clock()
            elif clock() - last_read_at >= self.client_timeout:
                self.abort()
                return
            size = left

    async def refuse(self, refused: RequestRefused) -> None:
        await self.answer(refused.status, refused.body(), headers=refused.headers)

    async def refuse_socket(self, refused: RequestRefused) -> None:
        """Refuse a WebSocket with an HTTP error if the server supports that; otherwise close it."""
        headers = [(b"content-type", JSON.encode()), (b"x-request-id", self.request_id.encode("ascii"))]
        if not self._can_refuse:
            await self.send({"type": "websocket.close", "code": 1008})
            return
        start = {"type": "websocket.http.response.start", "status": refused.status, "headers": headers}
        await self.send(start)
        await self.send({"type": "websocket.http.response.body", "body": refused.body()})
        with suppress(TimeoutError):
            # uvicorn logs an error if the application returns before the connection is closed.
            async with asyncio.timeout(1):
                await self.receive()
                await self.receive()


def _nothing() -> None:
    """Stand in for `abort` and `close` if the server does not provide them."""


def _none() -> int:
    """Stand in for `unsent` if the server does not provide it."""
    return 0


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def request_id_for(given: str) -> str:
    """Return the client's request id if it is safe in a header and a log, otherwise a new one."""
    return given if _VALID_ID.fullmatch(given) else f"req_{uuid4().hex}"


def _header_value(value: str) -> bytes:
    """Return a header value as one line of ASCII; a diagnostic may contain a tool's name in any script."""
    return "".join(each if " " <= each <= "~" else "?" for each in value).encode("ascii")
