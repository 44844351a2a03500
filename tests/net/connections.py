"""Connections to scripted servers of this machine, on both event loops."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import pytest
import uvloop

from penstock.net.connection import UpstreamConnection
from penstock.net.dialing import UpstreamRoute, dial
from penstock.net.pool import ConnectionPool
from penstock.net.response_parser import AnswerHead
from penstock.net.urls import read_address

T = TypeVar("T")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
on_both_loops = pytest.mark.parametrize("loop", LOOPS)
GET = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n"


def run_on(loop: str, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a test that is a coroutine on one of the event loops, for 10 seconds at most."""

    async def limited() -> T:
        async with asyncio.timeout(10):
            return await coroutine

    runner = asyncio.Runner(loop_factory=LOOPS[loop])
    try:
        result = runner.run(limited())
    finally:
        # uvloop warns about each open transport before it closes it. If that warning were an error, as it is
        # in tests, the transport would stay open, and the loop would wait for it forever.
        with warnings.catch_warnings(record=True) as unclosed:
            warnings.simplefilter("always", ResourceWarning)
            runner.close()
    assert not unclosed, [str(each.message) for each in unclosed]
    return result


class Received:
    """Callbacks that record what they get."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.error: Exception | None = None
        self.ends = 0
        self.is_over = asyncio.Event()
        self.has_data = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.calls)

    def data(self, data: bytes) -> None:
        assert not self.ends
        assert data
        self.calls.append(data)
        self.has_data.set()

    def end(self) -> None:
        self.ends += 1
        self.is_over.set()

    def failed(self, error: Exception, refused: bytes = b"") -> None:  # noqa: ARG002
        self.error = error
        self.end()


class Link:
    """A connection to a scripted server, with the pool to which it returns."""

    def __init__(self, pool: ConnectionPool, port: int) -> None:
        self.pool = pool
        self.port = port
        self.connections = 0

    async def connect(self) -> UpstreamConnection:
        """Return the idle connection, or a new one."""
        connection = self.pool.take("")
        if connection is None:
            self.connections += 1
            route = UpstreamRoute(read_address(f"http://127.0.0.1:{self.port}"), None, None, None)
            connection = await dial(route, lambda: UpstreamConnection(self.pool))
            self.pool.add(connection)
        return connection

    async def head(self, method: str = "GET", **options: Any) -> tuple[UpstreamConnection, AnswerHead]:
        connection = await self.connect()
        return connection, await connection.ask(method, GET, **options)

    async def get(self, method: str = "GET", **options: Any) -> tuple[AnswerHead, Received]:
        """Return a response whose body has been received to its end."""
        connection, head = await self.head(method, **options)
        received = Received()
        connection.start(received, lambda error: error)
        await received.is_over.wait()
        return head, received


@asynccontextmanager
async def link_to(handler: Handler, *, keep_alive: bool = True) -> AsyncIterator[Link]:
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = ConnectionPool(keep_alive=keep_alive)
    try:
        yield Link(pool, server.sockets[0].getsockname()[1])
    finally:
        pool.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def request(reader: asyncio.StreamReader) -> bytes:
    """Read the head of a request."""
    return await reader.readuntil(b"\r\n\r\n")


def playing(*answers: bytes | list[bytes], close: bool = False) -> Handler:
    """Answer each request with the next bytes; the pieces of a list are sent one by one. Then close, or keep
    the connection open."""
    left = list(answers)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while left:
            await request(reader)
            answer = left.pop(0)
            for piece in [answer] if isinstance(answer, bytes) else answer:
                writer.write(piece)
                await writer.drain()
                for _ in range(4):
                    await asyncio.sleep(0)
        if not close:
            while await reader.read(65536):
                pass

    return handler


async def settle(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
