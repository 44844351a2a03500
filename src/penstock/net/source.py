"""What feeds a turn: an answer whose body is still on its way, wherever it comes from.

A source calls back with what arrives. Network connections, the demo model and recordings are sources.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Protocol


class SourceCallbacks(Protocol):
    """Who is fed. After `end` or `failed` nothing more is called."""

    def data(self, data: bytes) -> None:
        """Some more bytes of the body; never empty."""

    def end(self) -> None:
        """The body came to its end."""

    def failed(self, error: Exception) -> None:
        """It broke, or a time ran out: an `OpenResponsesError`, unless the fault is ours."""


class UpstreamSource(Protocol):
    """An answer that is a success. Whoever has it must close it."""

    status: int
    content_type: str
    """In small letters and without parameters; empty where the upstream named none."""
    request_id: str | None
    """How the upstream calls this request, for those who run it."""

    def start(self, callbacks: SourceCallbacks) -> None:
        """Begin to read. Called once, on the event loop that the callbacks are to run on."""

    def pause(self) -> None:
        """Read no more until `resume`. What is already on its way may still arrive."""

    def resume(self) -> None:
        """Whoever is fed has taken everything, and waits for more."""

    async def finish(self) -> None:
        """Read the little that is left, so that the connection can be used again. Nothing is called back."""

    def close(self) -> None:
        """Stop reading at once. Closing twice does nothing."""

    def mask(self, text: str) -> str:
        """The same text without the secrets that were sent."""

    def mask_value(self, value: Any) -> Any:
        """The same value without them, wherever there is text in it."""

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        """What was read without them, to be written down; `before` is the end of what was read before it."""


class PulledSource(ABC):
    """A source on top of something that is read by awaiting `read`: a task reads and calls back."""

    def __init__(self) -> None:
        self._reading: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()

    @abstractmethod
    async def read(self) -> bytes:
        """What comes next; empty at the end. Raises when it breaks."""

    def start(self, callbacks: SourceCallbacks) -> None:
        self._reading = asyncio.create_task(self._read_all(callbacks))

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def _stop_reading(self) -> None:
        """Nothing is called back from here on."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read_all(self, callbacks: SourceCallbacks) -> None:
        try:
            while True:
                await self._may_read.wait()
                data = await self.read()
                if not data:
                    break
                callbacks.data(data)
        except Exception as error:
            callbacks.failed(error)
        else:
            callbacks.end()


class Inbox:
    """What a source has sent and nobody has taken yet. A source that is much faster is paused."""

    ROOM = 64 * 1024
    """Bytes."""

    def __init__(self, source: UpstreamSource) -> None:
        self._source = source
        self._chunks: list[bytes] = []
        self._size = 0
        self._is_ended = False
        self._error: Exception | None = None
        self._arrival: asyncio.Future[None] | None = None
        """Set while somebody waits."""
        source.start(self)

    def data(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size >= self.ROOM:
            self._source.pause()
        self._wake()

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._wake()

    @property
    def is_ready(self) -> bool:
        """Would `take` return, or raise, at once?"""
        return bool(self._chunks) or self._is_ended or self._error is not None

    async def take(self) -> bytes:
        """Everything that has come, or what comes next; empty at the end. A break is raised behind it."""
        while not self.is_ready:
            self._source.resume()
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        if not self._chunks:
            if self._error is not None:
                raise self._error
            return b""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        return data

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
