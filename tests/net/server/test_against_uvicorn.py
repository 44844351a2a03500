"""The same exchanges through our server and through uvicorn: same outcome, or a listed reason."""

from __future__ import annotations

import asyncio
import io
import re
from functools import cache
from http.client import HTTPResponse
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tests.net.server.exchanges import EXCHANGES
from tests.net.server.fake_connections import FakeClient, FakeClock

Answer = tuple[int, bytes, bool]
"""Status, body, and whether it was chunked."""
Outcome = tuple[list[Answer], bool]
"""The answers, and whether the connection was closed."""

_OLD = "uvicorn sends chunks to HTTP/1.0 clients, which cannot read them"
_VERSION = "uvicorn serves versions of HTTP that it does not implement"
_OFFER = "uvicorn's parser stops at an offer of another protocol; we ignore the offer and go on"
_HOSTS = "of two hosts, a proxy may choose the other one"
_AHEAD = "uvicorn parses what was sent ahead first, and the valid request before it gets no answer"

REASONS = {
    **{
        f"HTTP/1.0 /stream connection {value}": _OLD
        for value in ("unset", "close", "keep-alive", "Close", "te, close", "keep-alive, close")
    },
    "version 'HTTP/0.9'": _VERSION,
    "version 'HTTP/2.0'": _VERSION,
    "version ''": _VERSION,
    "headers: two hosts": _HOSTS,
    "headers: an offer of HTTP/2": _OFFER,
    "headers: an offer of another protocol": _OFFER,
    "an offer of HTTP/2 with a body": _OFFER,
    "method 'CONNECT'": _OFFER,
    "garbage after a request": _AHEAD,
    "garbage after a body": _AHEAD,
    "target http://other": "a URL without a path is valid, and means `/`",
    "attack: an encoding before chunks": "uvicorn passes on a body that is still compressed",
    "attack: chunks of an old client": "HTTP/1.0 has no chunks, and a proxy may end the body elsewhere",
    "unusual: trailers": "uvicorn's parser checks trailers as if they were headers; we ignore them",
}
"""Why the outcomes of these exchanges differ."""


async def _application(scope: Any, receive: Any, send: Any) -> None:
    """What `Echo` does, for ASGI."""
    path, body = scope["path"], b""
    while path != "/early":
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    parts = {
        "/early": (403, [b"early"]),
        "/empty": (204, []),
        "/stream": (200, [b"one ", b"two ", b"three"]),
    }
    echo = f"{scope['method']} {path} {scope['query_string'].decode()} ".encode() + body
    status, pieces = parts.get(path, (200, [echo]))
    headers = [(b"content-type", b"text/plain")]
    if len(pieces) == 1:
        headers.append((b"content-length", b"%d" % len(pieces[0])))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@cache
def _config() -> uvicorn.Config:
    config = uvicorn.Config(_application, http="httptools", lifespan="off", log_config=None, access_log=False)
    config.load()
    return config


class UvicornClient(FakeClient):
    def connect(self) -> None:
        protocol = HttpToolsProtocol(_config(), ServerState(), {})
        self.transport.protocol = protocol
        protocol.connection_made(self.transport)


class _Recorded:
    """Looks like a socket to `HTTPResponse`."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)
        self.file.close = lambda: None  # type: ignore[method-assign]  # the next response is in it

    def makefile(self, *_: object) -> io.BytesIO:
        return self.file


def answers(written: bytes, methods: list[str]) -> list[Answer]:
    """The responses in these bytes; refusals by the server itself without their bodies, which differ."""
    recorded = _Recorded(re.sub(rb"HTTP/1\.1 100 Continue\r\n\r\n", b"", written))
    found: list[Answer] = []
    while recorded.file.tell() < len(recorded.file.getbuffer()):
        method = methods[len(found)] if len(found) < len(methods) else "GET"
        response = HTTPResponse(cast(Any, recorded), method=method)
        response.begin()
        body = response.read()
        is_chunked = response.getheader("transfer-encoding") == "chunked" and method != "HEAD"
        found.append((response.status, b"" if response.status == 400 else body, is_chunked))
    return found


def outcome(client_class: type[FakeClient], pieces: list[bytes]) -> Outcome:
    sent = b"".join(pieces)
    methods = [found.decode() for found in re.findall(rb"(?:^|\n)([A-Z]+) [^ ]+ HTTP/1", sent)]

    async def run() -> Outcome:
        client = client_class()
        for piece in pieces:
            await client.send(piece)
            await client.settle()
        for _ in range(10):
            written = await client.settle()
        result = answers(written, methods), client.transport.is_closed
        client.transport.abort()
        await client.settle()
        return result

    with asyncio.Runner(loop_factory=FakeClock) as runner:
        return runner.run(run())


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_outcome_is_uvicorns_or_there_is_a_reason(name: str) -> None:
    ours, theirs = outcome(FakeClient, EXCHANGES[name]), outcome(UvicornClient, EXCHANGES[name])
    if name in REASONS:
        assert ours != theirs, "the reason is out of date"
    else:
        assert ours == theirs


def test_every_reason_belongs_to_an_exchange() -> None:
    assert set(REASONS) <= set(EXCHANGES)
    assert len(EXCHANGES) >= 150
