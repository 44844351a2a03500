"""A load balancer, and a network that can be cut: both pass bytes on between TCP connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Self

_CONNECT_SECONDS = 2.0


class Relay:
    """Passes each connection on to the next of its targets that accepts it. While `is_cut`, everything that
    is sent disappears without an error: connections stay open, and new ones hang."""

    def __init__(self, *ports: int) -> None:
        self.ports = [*ports]
        self.connections = 0
        self.open: Counter[int] = Counter()
        """Connections to each target, also those that are being opened."""
        self.opened: Counter[int] = Counter()
        """The same, with those that have ended."""
        self._joined = asyncio.Event()
        self._joined.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self._joined.clear()

    def join(self) -> None:
        """Let everything pass again. What was sent meanwhile arrives late, as TCP would send it again."""
        self._joined.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._joined.wait()
            found = await self._connect()
            if found is None:
                return
            port, target_reader, target_writer = found
            try:
                await self._pass_on(reader, writer, target_reader, target_writer)
            finally:
                self.open[port] -= 1
                target_writer.transport.abort()
        finally:
            writer.transport.abort()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target_reader: asyncio.StreamReader,
        target_writer: asyncio.StreamWriter,
    ) -> None:
        """Pass on both ways. The connection ends when the target has closed it, or when the client has."""
        back = asyncio.ensure_future(self._copy(target_reader, writer))
        forth = asyncio.ensure_future(self._copy(reader, target_writer))
        try:
            await asyncio.wait({back, forth}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (back, forth):
                task.cancel()
            await asyncio.gather(back, forth, return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._joined.wait()
                writer.write(data)
                await writer.drain()
            await self._joined.wait()
            writer.write_eof()
            await writer.drain()

    async def _connect(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in range(2 * len(self.ports)):
            self.connections += 1
            port = self.ports[self.connections % len(self.ports)]
            self.open[port] += 1
            self.opened[port] += 1
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return port, *(await asyncio.open_connection("127.0.0.1", port))
            except OSError:  # a timeout is one
                self.open[port] -= 1
            except BaseException:
                self.open[port] -= 1
                raise
        return None
