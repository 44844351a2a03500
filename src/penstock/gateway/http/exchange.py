"""One HTTP request and the way to answer it, over ASGI."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
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
"""Under this name a server offers what ASGI has no word for: `abort`, `close` and `unsent`."""

SERVER_STOPS = "penstock.server_stops"
"""A message that a WebSocket gets beside those of ASGI."""

_NO_CONTENT = 204
_FIRST_LOOK, _LONGEST_LOOK = 0.02, 0.5
"""Seconds until it is looked again whether a client has taken its answer. The connection may be aborted
meanwhile, and then the server waits for this."""
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
        self.request_id = request_id_for(self.headers.get("x-request-id", ""))
        extensions = scope.get("extensions") or {}
        self._connection = extensions.get(EXTENSION, {})
        self._can_refuse = "websocket.http.response" in extensions
        self.cors: list[tuple[str, str]] = []
        """What a web page of an allowed origin needs to read the answer."""
        self.status = 0
        """Of the answer, once it has begun."""
        self.client_timeout: float | None = None
        """Seconds after which a client that takes nothing is cut off."""

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

    async def answer_large(
        self, status: int, body: Callable[[], Iterable[bytes]], *, headers: Iterable[tuple[str, str]] = ()
    ) -> int:
        """A whole answer in JSON, in pieces that are made as the client reads them: once before that, for its
        length, which is returned. A client that reads nothing for `client_timeout` is cut off."""
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

    async def delivered(self) -> None:
        """Wait until the client has taken all of the answer, so that what it does not take cannot stay in
        memory for ever. One that takes nothing for `client_timeout` is cut off."""
        unsent = self._connection.get("unsent", _none)
        size, wait, clock = unsent(), _FIRST_LOOK, asyncio.get_running_loop().time
        taken_at = clock()
        while size and self.client_timeout is not None:
            await asyncio.sleep(wait)
            left, wait = unsent(), min(wait * 2, self.client_timeout / 4, _LONGEST_LOOK)
            if left < size:
                taken_at = clock()
            elif clock() - taken_at >= self.client_timeout:
                self.abort()
                return
            size = left

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


def _none() -> int:
    """What is unsent where the server cannot say."""
    return 0


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def request_id_for(given: str) -> str:
    """The client's own, if it can be a header and a word in a log; else a new one."""
    return given if _SOUND_ID.fullmatch(given) else f"req_{uuid4().hex}"


def _writable(value: str) -> bytes:
    """A header is one line of Latin letters; a diagnostic may name a tool in any script."""
    return "".join(each if " " <= each <= "~" else "?" for each in value).encode("ascii")
