"""Arbitrary bytes in arbitrary pieces: a connection never raises, ends once, and keeps little in memory."""

from __future__ import annotations

import asyncio
import gzip
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.net.connection import UpstreamConnection
from penstock.net.network_errors import ConnectionFault
from penstock.net.pool import ConnectionPool

BODY = b"data: hello\n\n"
PACKED = gzip.compress(BODY * 20, mtime=0)
SEEDS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + BODY,
    b"HTTP/1.1 200 \r\ntransfer-encoding:chunked\r\n\r\n7;a\r\ndata: h\r\n6\r\nello\n\n\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED,
    b"HTTP/1.1 500 Oh\nContent-Length: 2\n\nno",
]
TOKENS = [
    b"\r\n",
    b"\n",
    b"\0",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b": ",
    b"HTTP/1.1 200 OK\r\n",
    b"x" * 70_000,
]


class FakeTransport(asyncio.Transport):
    """Accepts everything, and ends when it is aborted."""

    def __init__(self, connection: UpstreamConnection) -> None:
        super().__init__()
        self._connection = connection
        self._is_closing = False
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        return default

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self.is_paused

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.end(None)

    def end(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, error)


class Counting:
    """Callbacks that check their order."""

    def __init__(self) -> None:
        self.size = self.ends = 0
        self.error: Exception | None = None

    def data(self, data: bytes) -> None:
        assert data
        assert not self.ends
        self.size += len(data)

    def end(self) -> None:
        self.ends += 1

    def failed(self, error: Exception, refused: bytes = b"") -> None:  # noqa: ARG002
        self.error = error
        self.ends += 1


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A response with some changes; sometimes two of them."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            data[at:at] = draw(st.sampled_from(TOKENS))
        elif kind == 1:
            del data[at : at + draw(st.integers(1, 8))]
        elif kind == 2:
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=3))
        else:
            data += draw(st.sampled_from(SEEDS))
    return bytes(data)


async def exchange(pieces: list[bytes], method: str, has_pause: bool, error: Exception | None) -> None:
    pool = ConnectionPool(keep_alive=True)
    connection = UpstreamConnection(pool)
    transport = FakeTransport(connection)
    connection.connection_made(transport)
    pool.add(connection)
    received, total = Counting(), sum(map(len, pieces))
    asking = asyncio.ensure_future(connection.ask(method, b"", first_byte_timeout=5, idle_timeout=5))
    await asyncio.sleep(0)
    is_started = False
    for piece in pieces:
        if transport.is_closing():
            break
        connection.data_received(piece)
        await asyncio.sleep(0)
        if asking.done() and not is_started and asking.exception() is None:
            is_started = True
            connection.start(received, lambda fault: fault)
            if has_pause:
                connection.pause()
        await asyncio.sleep(0)
    if is_started and connection.transport is not None:
        connection.resume()
    transport.end(error)
    for _ in range(20):
        await asyncio.sleep(0)
    assert asking.done()
    if asking.exception() is not None:
        assert isinstance(asking.exception(), (ConnectionFault, OSError))
        assert received.ends == received.size == 0
    elif not is_started:
        connection.start(received, lambda fault: fault)
        for _ in range(20):
            await asyncio.sleep(0)
    if asking.exception() is None:
        assert received.ends == 1
        assert received.error is None or isinstance(received.error, ConnectionFault)
    assert received.size <= total * 1100  # the best that gzip can do
    assert pool.idle == 0
    pool.close()


@settings(deadline=None)
@given(
    data=st.one_of(st.binary(max_size=300), mutated()),
    cuts=st.lists(st.integers(0, 400), max_size=8),
    method=st.sampled_from(["GET", "POST", "HEAD", "CONNECT"]),
    has_pause=st.booleans(),
    error=st.sampled_from([None, ConnectionResetError(104, "reset")]),
)
def test_whatever_arrives_there_is_one_end(
    data: bytes, cuts: list[int], method: str, has_pause: bool, error: Exception | None
) -> None:
    places = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    pieces = [data[start:end] for start, end in pairwise(places)]
    asyncio.run(exchange(pieces, method, has_pause, error))
