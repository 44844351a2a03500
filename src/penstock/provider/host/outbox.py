"""Write lines in a thread; producers wait while nobody reads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

ROOM = 256 * 1024
"""Bytes that may be unwritten. If the editor does not read, the upstreams are paused beyond this."""

_BATCH = 256


class Outbox:
    """Writes lines to a pipe. It uses a thread, because on Windows an event loop cannot write to a pipe."""

    def __init__(self, descriptor: int, when_broken: Callable[[], None], room: int = ROOM) -> None:
        self._descriptor = descriptor
        self._when_broken = when_broken
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._unwritten = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._ended = asyncio.Event()
        threading.Thread(target=self._write_all, name="penstock output", daemon=True).start()

    @property
    def has_room(self) -> bool:
        return self._unwritten < self._room

    def put(self, line: bytes) -> None:
        self._unwritten += len(line)
        self._queue.put(line)

    async def wait_for_room(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until there is room or `unless` returns true; it is checked again after `wake`."""
        while not self.has_room and not unless():
            waiter = self._loop.create_future()
            self._waiting.append(waiter)
            await waiter

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def aclose(self, timeout: float) -> None:
        """Write the remaining lines, for at most `timeout` seconds."""
        self._queue.put(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._ended.wait()

    def _write_all(self) -> None:
        """Write all lines, in the thread. Stop at the first error: the reader is disconnected."""
        in_loop = self._loop.call_soon_threadsafe
        with suppress(RuntimeError):  # the loop is closed: the process is exiting
            try:
                while (batch := self._next_batch()) is not None:
                    _write(self._descriptor, batch)
                    in_loop(self._written, len(batch))
            except OSError:
                in_loop(self._when_broken)
            in_loop(self._ended.set)

    def _next_batch(self) -> bytes | None:
        """Return the queued lines, joined; None at the end."""
        line = self._queue.get()
        lines: list[bytes] = []
        try:
            while line is not None and len(lines) < _BATCH:
                lines.append(line)
                line = self._queue.get_nowait()
        except Empty:
            return b"".join(lines)
        if line is None:
            if not lines:
                return None
            self._queue.put(None)  # nothing follows the end, so it stays last
        else:
            lines.append(line)
        return b"".join(lines)

    def _written(self, length: int) -> None:
        self._unwritten -= length
        if self.has_room:
            self.wake()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
