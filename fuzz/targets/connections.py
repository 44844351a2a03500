"""Bytes of clients and of upstream servers: HTTP heads and bodies, WebSocket frames, compression."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import h11
from tests.net.server.fake_connections import FakeClient, FakeClock

from fuzz.target import Target
from fuzz.targets.inline import InlineExecutor
from fuzz.targets.pieces import after_options, ways_to_cut
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.bodies import DECODERS, BodyReader
from penstock.net.encodings import decoder_for
from penstock.net.network_errors import ConnectionFault, UndecodableBody
from penstock.net.response_parser import ResponseParser
from penstock.net.server.chunked_bodies import ChunkDecoder
from penstock.net.server.refusals import RefusedBytes
from penstock.net.server.request_heads import HeadParser, RequestHead

REFUSED = "refused"
BODY_LIMIT = 256 * 1024

# Requests


def read_heads(pieces: list[bytes]) -> list[Any]:
    """Return what every head of a connection says, as far as they have no body, and how it ends."""
    parser, buffer, heads = HeadParser(), bytearray(), list[Any]()
    try:
        for piece in pieces:
            buffer += piece
            while buffer:
                head = parser.read(buffer)
                if head is None:
                    break
                heads.append(_shown(head))
                if head.body_length != 0:
                    return heads
    except RefusedBytes:
        heads.append(REFUSED)
    finally:
        parser.close()
    return heads


def _shown(head: RequestHead) -> tuple[Any, ...]:
    assert head.path.encode()
    return (
        *(head.method, head.target, head.path, head.query, head.headers, head.body_length),
        *(head.keep_alive, head.is_websocket),
    )


def heads(data: bytes) -> None:
    whole = read_heads([data])
    for pieces in ways_to_cut(data):
        assert read_heads(pieces) == whole
    if whole and whole[0] != REFUSED:
        compare_with_h11(data, whole[0])


def compare_with_h11(data: bytes, ours: tuple[Any, ...]) -> None:
    """What h11 accepts as well, it frames in the same way: two opinions about a request are an attack."""
    connection = h11.Connection(h11.SERVER)
    try:
        connection.receive_data(data.lstrip(b"\r\n"))
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return
    if not isinstance(event, h11.Request):
        return
    method, target, _, _, headers, length, *_ = ours
    assert (event.method, event.target) == (method.encode(), target)
    theirs = {name.decode() for name, _ in event.headers}
    assert theirs == set(headers)
    named = dict(event.headers)
    if b"transfer-encoding" in named:
        assert length is None
    elif b"content-length" in named:
        assert length == int(named[b"content-length"])
    else:
        assert length == 0


def read_chunks(pieces: list[bytes]) -> tuple[bytes, str]:
    """Return the body of a chunked request, and how it ends."""
    decoder, buffer, body = ChunkDecoder(), bytearray(), b""
    try:
        for piece in pieces:
            buffer += piece
            body += decoder.decode(buffer)
            while decoder.is_behind and not decoder.is_done:
                body += decoder.decode(buffer)
            if decoder.is_done:
                return body, "done"
    except RefusedBytes:
        return b"", REFUSED
    return body, "incomplete"


def chunks(data: bytes) -> None:
    whole = read_chunks([data])
    for pieces in ways_to_cut(data):
        assert read_chunks(pieces) == whole
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + data)
    body, is_done = b"", False
    try:
        while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.Data):
                body += event.data
            is_done = is_done or isinstance(event, h11.EndOfMessage)
    except h11.RemoteProtocolError:
        return
    if whole[1] == "done" and is_done:
        assert body == whole[0]


# The server


async def _converse(pieces: list[bytes]) -> FakeClient:
    client = FakeClient()
    failures: list[Any] = []
    client.loop.set_exception_handler(lambda _, context: failures.append(context))
    for piece in pieces:
        await client.send(piece)
    written = -1
    while written != len(client.transport.written):  # until every request is answered, or waits
        written = len(client.transport.written)
        await client.settle()
    await client.end()
    assert failures == []
    assert [error for error in client.refusals.errors if not isinstance(error, LookupError)] == []
    return client


def converse(pieces: list[bytes]) -> FakeClient:
    with asyncio.Runner(loop_factory=FakeClock) as runner:
        return runner.run(_converse(pieces))


def _statuses(client: FakeClient) -> list[bytes]:
    written = re.sub(rb"HTTP/1\.1 100 Continue\r\n\r\n", b"", bytes(client.transport.written))
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", written)


def serve(data: bytes) -> None:
    """Pipelined requests: one answer each, and the same ones whatever the cuts."""
    whole = converse([data])
    assert len(_statuses(whole)) <= len(whole.app.channels) + len(whole.app.sockets) + len(
        whole.refusals.refused
    )
    if b"websocket" in data.lower():
        return  # a client must not use it before it is open
    *_, pieces = ways_to_cut(data)
    cut = converse(pieces)
    assert _statuses(cut) == _statuses(whole)
    assert [each.path for each in cut.app.channels] == [each.path for each in whole.app.channels]


HANDSHAKE = (
    b"GET /chat HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


def frames(data: bytes) -> None:
    """The frames of an open WebSocket: the same messages, whatever the cuts."""
    whole = converse([HANDSHAKE, data])
    assert whole.app.sockets
    *_, pieces = ways_to_cut(data)
    cut = converse([HANDSHAKE, *pieces])
    heard, heard_cut = whole.app.heard, cut.app.heard
    assert heard == heard_cut or heard[: len(heard_cut)] == heard_cut or heard_cut[: len(heard)] == heard


# Answers of upstream servers


def read_answer(pieces: list[bytes], method: str) -> tuple[Any, ...]:
    """Return the head and the body of an answer, and how it ends."""
    parser = ResponseParser()
    parser.begin(method)
    fault: ConnectionFault | None = None
    for piece in pieces:
        fault = parser.feed(piece)
        if fault is not None or parser.is_complete:
            break
    body = b"".join(parser.received)
    return parser.head, body, type(fault).__name__, parser.is_complete


def answers(data: bytes) -> None:
    options, data = after_options(data, frozenset({"HEAD", "GET", "CONNECT"}))
    method = next(iter(sorted(options)), "POST")
    whole = read_answer([data], method)
    for pieces in ways_to_cut(data):
        assert read_answer(pieces, method) == whole


ENCODINGS = ("gzip", "deflate", "br", "zstd")
"""The first byte of an input chooses one of them."""


def decoded(encoding: str, pieces: list[bytes]) -> tuple[bytes, str]:
    """Return a decoded body, at most `BODY_LIMIT` of it, and how it ends."""
    decoder, body = decoder_for(encoding), bytearray()
    assert decoder is not None
    try:
        for piece in pieces:
            decoder.feed(piece)
            empty = 0
            while decoder.has_more:
                part = decoder.read()
                empty = 0 if part else empty + 1
                assert empty < 3 * 4096, "the decoder makes no progress"
                body += part
                if len(body) > BODY_LIMIT:
                    return bytes(body[:BODY_LIMIT]), "too large"
    except UndecodableBody:
        return b"", REFUSED
    return bytes(body), "complete" if decoder.is_complete else "incomplete"


def encodings(data: bytes) -> None:
    encoding, body = ENCODINGS[data[0] % 4] if data else "gzip", data[1:]
    whole = decoded(encoding, [body] if body else [])
    for pieces in ways_to_cut(body):
        cut = decoded(encoding, [piece for piece in pieces if piece])
        # A body that is too large is given up before it is known whether its rest is valid.
        assert cut == whole or {cut[1], whole[1]} == {REFUSED, "too large"}
    request = received(body, {"content-encoding": encoding})
    assert request == whole[0] or request is None or whole[1] != "complete"
    if request is not None and body:
        assert whole == (request, "complete")


def received(body: bytes, headers: Mapping[str, str]) -> bytes | None:
    """Return the decompressed body of a request; None if it is refused."""

    async def run() -> bytes:
        asyncio.get_running_loop().set_default_executor(InlineExecutor(1))
        pieces = [body, b""]

        async def receive() -> bytes:
            return pieces.pop(0) if pieces else b""

        return await BodyReader().read(receive, headers, BODY_LIMIT)

    try:
        return asyncio.run(run())
    except RequestRefused as refused:
        assert refused.status in (400, 413, 415)
        refused.body()
        return None


def encoded_bodies(data: bytes) -> None:
    """Any `Content-Encoding`: the first line of the input."""
    encoding, _, body = data.partition(b"\n")
    received(
        body, {"content-encoding": encoding.decode("latin-1"), "content-length": encoding.decode("latin-1")}
    )


_target = partial(Target, group="connections")

TARGETS = [
    _target(
        name="request_heads",
        about="heads of requests, compared with h11 and whatever the cuts",
        run=heads,
        format="lines",
        words=("net.server",),
        work_per_byte=200,
    ),
    _target(
        name="chunked_bodies",
        about="chunked bodies, compared with h11 and whatever the cuts",
        run=chunks,
        words=("net.server.chunked_bodies",),
    ),
    _target(
        name="server",
        about="requests on one connection: one answer each, whatever the cuts",
        run=serve,
        format="lines",
        words=("net.server",),
        base_work=200_000,
    ),
    _target(
        name="websocket",
        about="frames of an open WebSocket: the same messages, whatever the cuts",
        run=frames,
        words=("net.server.websocket",),
        base_work=200_000,
        work_per_byte=1000,
    ),
    _target(
        name="answers",
        about="heads and bodies of upstream answers, whatever the cuts",
        run=answers,
        format="lines",
        words=("net.response_parser", "net.connection"),
    ),
    _target(
        name="encodings",
        about="compressed bodies, in both directions: the same bytes, whatever the cuts",
        run=encodings,
        words=(),
        base_work=200_000,
        work_per_byte=3000,
    ),
    _target(
        name="encoded_bodies",
        about="any Content-Encoding of a request: a body or a typed error",
        run=encoded_bodies,
        format="lines",
        words=("gateway.http.bodies",),
    ),
]

assert set(ENCODINGS) <= set(DECODERS)
