"""A scripted server on a real socket of this machine, for correct and faulty responses."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from tests.cli import streams

T = TypeVar("T")

HELLO = streams.hello()
LAST_CHUNK = b"0\r\n\r\n"
_TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS handshake."""


@dataclass
class Asked:
    """A request as received."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One connection, for the steps of a script."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.is_kept = False

    async def request(self) -> Asked | None:
        try:
            first = await self.reader.readexactly(1)
            if first == _TLS_HANDSHAKE:
                return None  # closes the connection at once: a probe for TLS must not wait for its timeout
            head = first + await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            return None
        start, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = start.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Asked(method, target, headers, body)


Step = Callable[[Connection], Awaitable[None]]
Script = list[Step]


def send(data: bytes) -> Step:
    async def step(connection: Connection) -> None:
        with suppress(OSError):  # the client has disconnected: the next step notices
            connection.writer.write(data)
            await connection.writer.drain()

    return step


def trickle(data: bytes) -> Step:
    """Send one byte per write."""

    async def step(connection: Connection) -> None:
        for byte in data:
            connection.writer.write(bytes([byte]))
            await connection.writer.drain()
            await asyncio.sleep(0)

    return step


async def stall(connection: Connection) -> None:
    """Send nothing until the client disconnects, and report that to `hung_up`."""
    with suppress(OSError):
        while await connection.reader.read(65536):
            pass
    connection.server.hangups.release()


async def gate(connection: Connection) -> None:
    """Wait until the test sets `opened`."""
    await connection.server.opened.wait()
    connection.server.opened.clear()


async def cut(connection: Connection) -> None:
    """Break the connection: the client gets a reset."""
    raw = connection.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.writer.transport.abort()


async def keep(connection: Connection) -> None:
    """Leave the connection open for another request."""
    connection.is_kept = True


def answer(status: int, body: Any = b"", content_type: str = "application/json", **headers: str) -> Step:
    """Send a complete response with its length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return send(_head(status, content_type, {"content-length": str(len(data)), **headers}) + data)


def head(status: int = 200, content_type: str = "text/event-stream", **headers: str) -> bytes:
    """Return the head of a response; without a length or chunks, the body ends with the connection."""
    return _head(status, content_type, headers)


def _head(status: int, content_type: str, headers: dict[str, str]) -> bytes:
    named = {"content-type": content_type, "connection": "close", **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status} Said", *lines, "", ""]).encode()


CHUNKED_HEAD = head(transfer_encoding="chunked")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def sse(events: list[streams.Event], done: bool = False) -> bytes:
    return streams.as_sse(events, done)


def streamed(events: list[streams.Event] = HELLO, **headers: str) -> Script:
    """Send a lawful stream in chunks."""
    body = chunk(sse(events, done=True)) + LAST_CHUNK
    return [send(_head(200, "text/event-stream", {"transfer-encoding": "chunked", **headers}) + body)]


class Server:
    """Plays one script per request, in order, and closes the connection after it."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        """`port`: 0 picks a free one."""
        self._scripts = list(scripts)
        self._tls = tls
        self._wanted_port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: list[Asked] = []
        self.connections = 0
        self.hangups = asyncio.Semaphore(0)
        self.opened = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._wanted_port, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def hung_up(self, times: int = 1) -> None:
        """Wait until clients have closed this many stalled connections."""
        for _ in range(times):
            await self.hangups.acquire()

    def script_for(self, asked: Asked) -> Script:  # noqa: ARG002 - subclasses choose by the request
        """Return the script for a request."""
        return self._scripts.pop(0) if self._scripts else [answer(418, b"no script left")]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(Connection(self, reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: Connection) -> None:
        try:
            with suppress(OSError):
                connection.is_kept = True
                while connection.is_kept and (asked := await connection.request()):
                    connection.is_kept = False
                    self.asked.append(asked)
                    for step in self.script_for(asked):
                        await step(connection)
        finally:
            connection.writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await connection.writer.wait_closed()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a test that is a coroutine, and check that it leaves no task behind."""

    async def watched() -> T:
        async with asyncio.timeout(10):
            result = await coroutine
        for _ in range(10):
            await asyncio.sleep(0)  # cancelled tasks may need another step
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        return result

    return asyncio.run(watched())


class Served:
    """A server in its own thread, for tests without an event loop."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self.url, self.asked = server, server.url, server.asked
        self._loop = loop

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self.server.opened.set)

    def hung_up(self, times: int = 1) -> None:
        asyncio.run_coroutine_threadsafe(self.server.hung_up(times), self._loop).result(10)


@contextmanager
def served(*scripts: Script) -> Iterator[Served]:
    with in_a_thread(Server(*scripts)) as running:
        yield running


@contextmanager
def in_a_thread(server: Server) -> Iterator[Served]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield Served(server, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
