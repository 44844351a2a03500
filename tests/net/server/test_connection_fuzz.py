"""Arbitrary and damaged requests in arbitrary pieces: no exception, one answer each, bounded memory."""

from __future__ import annotations

import asyncio
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.net.server.connection import WAITING_BYTES
from tests.effort import examples
from tests.net.server.fake_connections import FakeClient, FakeClock

_READ = 256 * 1024
"""What one read of an event loop can return."""

WEBSOCKET = (
    b"GET /chat HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
GOOD = [
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello",
    b"POST /stream HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\nx: y\r\n\r\n",
    b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\nabc",
    b"HEAD /whole HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /stream HTTP/1.0\r\n\r\n",
    b"GET /close HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /fail HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    WEBSOCKET,
    b"\x81\x82\x00\x00\x00\x00hi",
    b"\x88\x82\x00\x00\x00\x00\x03\xe8",
]
TOKENS = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b":",
    b" ",
    b"0",
    b"-",
    b"content-length: 1\r\n",
    b"chunked",
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Good requests, some of them with bytes that are removed, repeated or inserted."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=5))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 20)))
        inserted = draw(st.sampled_from([b"", bytes(data[at:to]) * 2, *TOKENS]) | st.binary(max_size=8))
        data[at:to] = inserted
    return bytes(data)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start]


async def exchange(pieces: list[bytes]) -> FakeClient:
    client = FakeClient()
    failures: list[object] = []
    client.loop.set_exception_handler(lambda _, context: failures.append(context))
    for piece in pieces:
        await client.send(piece)
        requests = len(client.app.channels) + len(client.app.sockets) + len(client.refusals.refused)
        final = re.findall(rb"HTTP/1\.1 (?!100)\d{3} ", bytes(client.transport.written))
        assert len(final) <= requests
    await client.end()
    assert failures == []
    assert [error for error in client.refusals.errors if not isinstance(error, LookupError)] == []
    return client


def run(pieces: list[bytes]) -> FakeClient:
    with asyncio.Runner(loop_factory=FakeClock) as runner:
        return runner.run(exchange(pieces))


@settings(max_examples=examples(600), deadline=None)
@given(st.one_of(damaged(), st.binary(max_size=200)), st.lists(st.integers(0, 1000), max_size=6))
def test_no_bytes_break_a_connection(data: bytes, places: list[int]) -> None:
    run(cut(data, places))


@settings(max_examples=examples(600), deadline=None)
@given(damaged(), st.lists(st.integers(0, 1000), max_size=6))
def test_the_answers_do_not_depend_on_the_cuts(data: bytes, places: list[int]) -> None:
    """Except for WebSockets, which a client must not use before they are open."""
    if b"websocket" in data.lower():
        return
    whole, pieces = run([data]), run(cut(data, places))

    def essence(client: FakeClient) -> list[bytes]:
        written = re.sub(rb"HTTP/1\.1 100 Continue\r\n\r\n|date: [^\r]*\r\n", b"", client.transport.written)
        return re.findall(rb"HTTP/1\.1 \d{3} ", written)

    assert essence(whole) == essence(pieces)
    assert [each.path for each in whole.app.channels] == [each.path for each in pieces.app.channels]


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(GOOD), st.integers(1, 4))
def test_what_waits_is_bounded(request: bytes, reads: int) -> None:
    async def flood() -> None:
        client = FakeClient()
        client.transport.is_client_reading = False
        await client.send(b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        await client.send(request * (reads * _READ // len(request)))
        taken = reads * _READ - client.unread
        assert taken <= WAITING_BYTES + _READ
        await client.end()

    with asyncio.Runner(loop_factory=FakeClock) as runner:
        runner.run(flood())
