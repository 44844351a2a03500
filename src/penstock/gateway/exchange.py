"""One HTTP request and the way to answer it, over ASGI."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from penstock.gateway.errors import RequestRefused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = "application/json"
ABORT = "penstock.abort"
"""What a server that can close a connection at once calls it in its extensions."""

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
        self.abort: Callable[[], None] = _abort(scope.get("extensions") or {})
        """Closes the connection at once, with what was written and not yet taken."""
        self.cors: Headers = []
        """What a web page of an allowed origin needs to read the answer."""
        self.status = 0
        """Of the answer, once it has begun."""

    async def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self.status = status
        sent = [(name.encode("ascii"), _writable(value)) for name, value in headers]
        sent += [(b"x-request-id", self.request_id.encode("ascii")), *self.cors]
        await self.send({"type": "http.response.start", "status": status, "headers": sent})

    async def answer(
        self, status: int, body: bytes, *, content_type: str = JSON, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """A whole answer."""
        length = str(len(body))
        await self.begin(status, [("content-type", content_type), ("content-length", length), *headers])
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    async def refuse(self, refused: RequestRefused) -> None:
        await self.answer(refused.status, refused.body(), headers=refused.headers)


def _abort(extensions: Mapping[str, Mapping[str, Callable[[], None]]]) -> Callable[[], None]:
    return extensions.get(ABORT, {}).get("now", lambda: None)


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
