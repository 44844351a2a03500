"""A client of the server without a network: bytes in, bytes out, and a clock that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, cast

from penstock.net.server.connection import ClientConnection
from penstock.net.server.server import Server
from tests.net.server.applications import Echo, Refusals

CLIENT_TIMEOUT = 300.0
MESSAGE_BYTES = 1_000_000


class FakeTransport(asyncio.Transport):
    """Collects what is written. A client that does not read leaves it in the buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None
        self.written = bytearray()
        self.writes = 0
        self.buffered = 0
        self.is_client_reading = True
        self.is_paused = self.is_aborted = False
        self._is_closing = self._is_lost = False
        self._high = 65536

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002
        self._high = high or 65536

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._is_closing, "written after the end"
        self.written += data
        self.writes += 1
        if not self.is_client_reading:
            before, self.buffered = self.buffered, self.buffered + len(data)
            if before <= self._high < self.buffered:
                self.protocol.pause_writing()

    def read_all(self) -> None:
        """Let the client read what is buffered."""
        was_paused, self.buffered = self.buffered > self._high, 0
        self.is_client_reading = True
        if was_paused:
            self.protocol.resume_writing()
        self._lose_if_done()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self.protocol
        return protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        self._lose_if_done()

    def abort(self) -> None:
        self._is_closing = self.is_aborted = True
        self.buffered = 0
        self._lose_if_done()

    def _lose_if_done(self) -> None:
        if self._is_closing and not self.buffered and not self._is_lost:
            self._is_lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def is_reading(self) -> bool:
        return not self.is_paused

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    @property
    def is_closed(self) -> bool:
        return self._is_closing


class FakeClient:
    """A connection to a server with the `Echo` application."""

    def __init__(self) -> None:
        self.app, self.refusals = Echo(), Refusals()
        self.most_connections = 0
        self.server = Server(
            self.app,
            self.refusals,
            client_timeout=lambda: CLIENT_TIMEOUT,
            message_bytes=MESSAGE_BYTES,
            most_connections=lambda: self.most_connections,
        )
        self.loop = cast(FakeClock, asyncio.get_running_loop())
        self.transport = FakeTransport()
        self._unsent = bytearray()
        self.connect()

    def another(self) -> FakeClient:
        """Return another client of the same server, with a connection of its own."""
        other = copy(self)
        other.transport, other._unsent = FakeTransport(), bytearray()
        other.connect()
        return other

    def connect(self) -> None:
        connection = ClientConnection(self.server, 8080)
        self.transport.protocol = connection
        connection.connection_made(self.transport)

    async def send(self, *pieces: bytes) -> bytes:
        """Send pieces, as far as the server reads; return everything that it has answered so far."""
        for piece in pieces:
            self._unsent += piece
            await self._flush()
        return await self.settle()

    async def _flush(self) -> None:
        while self._unsent and not self.transport.is_paused and not self.transport.is_closed:
            piece = bytes(self._unsent[: 256 * 1024])
            del self._unsent[: len(piece)]
            self.transport.protocol.data_received(piece)

    async def settle(self) -> bytes:
        """Let the server work until it has nothing to do."""
        for _ in range(8):
            await asyncio.sleep(0)
            await self._flush()
        return bytes(self.transport.written)

    async def wait(self, seconds: float) -> bytes:
        self.loop.now += seconds
        return await self.settle()

    @property
    def unread(self) -> int:
        """Bytes that the server did not want to read."""
        return len(self._unsent)

    def leave(self) -> None:
        """Disconnect."""
        self.transport.protocol.eof_received()
        self.transport.close()

    async def end(self) -> None:
        """Abort the connection, and let every task of the server end."""
        self.app.release.set()
        self.transport.read_all()
        self.server.stop()
        self.server.abort()
        self.transport.abort()
        async with asyncio.timeout(10):
            await self.server.stopped()


class FakeClock(asyncio.SelectorEventLoop):
    """An event loop whose time is moved by tests. It counts its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.timers = 0

    def time(self) -> float:
        return self.now

    def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:  # type: ignore[override]  # passed on
        self.timers += 1
        return super().call_at(*args, **kwargs)


def with_client(scenario: Callable[[FakeClient], Awaitable[None]]) -> Callable[[], None]:
    """Turn a coroutine function that needs a client into a test."""

    async def run() -> None:
        client = FakeClient()
        await scenario(client)
        await client.end()

    def test() -> None:
        with asyncio.Runner(loop_factory=FakeClock) as runner:
            runner.run(run())

    test.__doc__ = scenario.__doc__
    return test
