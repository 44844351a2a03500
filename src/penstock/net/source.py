"""Sources: responses whose body is still arriving, wherever they come from.

A source passes what arrives to callbacks. HTTP responses, the demo model and recordings are sources.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Protocol


class SourceCallbacks(Protocol):
    """Receives the body. After `end` or `failed` there are no more calls."""

    def data(self, data: bytes) -> None:
        """Receive bytes of the body; never empty."""

    def end(self) -> None:
        """Receive the end of the body."""

    def failed(self, error: Exception, refused: bytes = b"") -> None:
        """Receive a disconnect or timeout: an `OpenResponsesError`, unless there is a bug on our side.
        `refused` is the beginning of a body that is not passed on, for recordings."""


class UpstreamSource(Protocol):
    """A successful response. The caller must close it."""

    status: int
    content_type: str
    """In lower case and without parameters; empty if the upstream sent none."""
    request_id: str | None
    """The upstream's id of this request, for its operators."""

    def start(self, callbacks: SourceCallbacks) -> None:
        """Start reading. Call it once, on the event loop of the callbacks."""

    def pause(self) -> None:
        """Stop reading until `resume`. Data that is already on its way may still arrive."""

    def resume(self) -> None:
        """Continue reading: the receiver has consumed everything."""

    def finish(self) -> None:
        """Stop calling back: the answer was read. The connection reads the rest by itself, for a short time,
        so that it can be reused; else it is closed."""

    def close(self) -> None:
        """Stop reading at once. Closing twice is allowed."""

    def mask(self, text: str) -> str:
        """Return the text without the secrets that were sent."""

    def mask_value(self, value: Any) -> Any:
        """Return a value without the secrets, wherever there is text in it."""

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        """Return one read without the secrets, for recordings; `before` is the end of the previous read."""


class PulledSource(ABC):
    """A source for something with an asynchronous `read`: a task reads it and calls back."""

    def __init__(self) -> None:
        self._reading: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()

    @abstractmethod
    async def read(self) -> bytes:
        """Return the next bytes; empty at the end. Raise when the connection breaks."""

    def start(self, callbacks: SourceCallbacks) -> None:
        self._reading = asyncio.create_task(self._read_all(callbacks))

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    def finish(self) -> None:
        self._stop_reading()

    def close(self) -> None:
        self._stop_reading()

    def _stop_reading(self) -> None:
        """Stop the reading task: there are no more callbacks."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()

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
    """Buffers what a source has sent until it is taken. A source that is much faster is paused."""

    ROOM = 64 * 1024
    """Bytes."""

    def __init__(self, source: UpstreamSource) -> None:
        self._source = source
        self._chunks: list[bytes] = []
        self._size = 0
        self._is_ended = False
        self._error: Exception | None = None
        self._arrival: asyncio.Future[None] | None = None
        """Set while `take` waits."""
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

    def failed(self, error: Exception, refused: bytes = b"") -> None:  # noqa: ARG002
        self._error = error
        self._wake()

    @property
    def is_ready(self) -> bool:
        """Whether `take` would return or raise at once."""
        return bool(self._chunks) or self._is_ended or self._error is not None

    async def take(self) -> bytes:
        """Return everything received, or wait for the next bytes; empty at the end. A failure is raised after
        everything received before it was returned."""
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
