"""One HTTP request and the way to answer it, over ASGI."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from penstock.gateway.errors import RequestRefused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = "application/json"
EXTENSION = "penstock"
"""Under this name a server offers what ASGI has no word for: `abort`, `close` and `drained`."""

SERVER_STOPS = "penstock.server_stops"
"""A message that a WebSocket gets beside those of ASGI."""

_NO_CONTENT = 204
_SOUND_ID = re.compile(r"[\x21-\x7e]{1,128}")


class Exchange:
    """`headers` are in small letters; of a header that came several times the values are joined by commas."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        self.headers = _joined(scope["headers"])
        self.server_port: int = (scope.get("server") or ("", 0))[1] or 0
        self.receive = receive
        self.send = send
        self.request_id = _request_id(self.headers.get("x-request-id", ""))
        extensions = scope.get("extensions") or {}
        self._connection = extensions.get(EXTENSION, {})
        self._can_refuse = "websocket.http.response" in extensions
        self.cors: list[tuple[str, str]] = []
        """What a web page of an allowed origin needs to read the answer."""
        self.status = 0
        """Of the answer, once it has begun."""

    async def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self.status = status
        told = [*headers, ("x-request-id", self.request_id), *self.cors]
        sent = [(name.encode("ascii"), _writable(value)) for name, value in told]
        await self.send({"type": "http.response.start", "status": status, "headers": sent})

    async def answer(
        self, status: int, body: bytes, *, content_type: str = JSON, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """A whole answer."""
        about = [("content-type", content_type), ("content-length", str(len(body)))]
        await self.begin(status, [*(about if status != _NO_CONTENT else ()), *headers])
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    def abort(self) -> None:
        """Close the connection at once, with what was written and not yet taken."""
        self._connection.get("abort", _nothing)()

    async def cut(self) -> None:
        """The same, and wait until it is done: the server complains of those who leave before."""
        self.abort()
        if self._connection:
            await self.gone()

    async def gone(self) -> None:
        """Wait until the client has gone; what else it still says is not listened to."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        """Close the connection when what was written has been taken."""
        self._connection.get("close", _nothing)()

    async def drained(self) -> None:
        """Wait until the client has taken nearly all that was written."""
        if wait := self._connection.get("drained"):
            await wait()

    async def refuse(self, refused: RequestRefused) -> None:
        await self.answer(refused.status, refused.body(), headers=refused.headers)

    async def refuse_socket(self, refused: RequestRefused) -> None:
        """Answer the request for a WebSocket with an HTTP error, where the server can; else close it."""
        headers = [(b"content-type", JSON.encode()), (b"x-request-id", self.request_id.encode("ascii"))]
        if not self._can_refuse:
            await self.send({"type": "websocket.close", "code": 1008})
            return
        start = {"type": "websocket.http.response.start", "status": refused.status, "headers": headers}
        await self.send(start)
        await self.send({"type": "websocket.http.response.body", "body": refused.body()})
        with suppress(TimeoutError):
            # uvicorn complains of those who leave before the connection is closed.
            async with asyncio.timeout(1):
                await self.receive()
                await self.receive()


def _nothing() -> None:
    """What a server does that cannot close a connection."""


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _request_id(given: str) -> str:
    """The client's own, if it can be a header and a word in a log; else a new one."""
    return given if _SOUND_ID.fullmatch(given) else f"req_{uuid4().hex}"


def _writable(value: str) -> bytes:
    """A header is one line of Latin letters; a diagnostic may name a tool in any script."""
    return "".join(each if " " <= each <= "~" else "?" for each in value).encode("ascii")
