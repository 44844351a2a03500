"""The synchronous client. A background thread runs an event loop with the asynchronous client.

A stream switches threads once for each network read, with all events of that read.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import random as _random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from penstock.client.client import ItemPage, OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.client.event_stream import EventStream, UndeliveredEvents
from penstock.net.error_responses import client_closed
from penstock.protocol.content import JsonObject
from penstock.protocol.events import Event
from penstock.protocol.items import Item
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response

T = TypeVar("T")


class SyncOpenResponsesClient:
    """A client for one endpoint, for any number of threads. Close it, or use it in a `with` statement."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._client = OpenResponsesClient(config, sleep=sleep, random=random)
        self._loop = _BackgroundLoop()

    def __repr__(self) -> str:
        return repr(self._client).replace(type(self._client).__name__, type(self).__name__, 1)

    def stream(self, request: CreateResponse) -> SyncEventStream:
        """Create a response and stream its events. The request is sent when the first event is read."""
        self._loop.check_open()
        return SyncEventStream(self._client.stream(request), self._loop)

    def resume(self, response_id: str, *, starting_after: int | None = None) -> SyncEventStream:
        """Stream a stored response, finished or not, from the beginning or after an event."""
        self._loop.check_open()
        return SyncEventStream(self._client.resume(response_id, starting_after=starting_after), self._loop)

    def create(self, request: CreateResponse) -> Response:
        """Create a response and wait until it is complete."""
        return self._loop.run(self._client.create(request))

    def retrieve(self, response_id: str) -> Response:
        return self._loop.run(self._client.retrieve(response_id))

    def cancel(self, response_id: str) -> Response:
        return self._loop.run(self._client.cancel(response_id))

    def delete(self, response_id: str) -> None:
        self._loop.run(self._client.delete(response_id))

    def input_items(
        self,
        response_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        order: str | None = None,
    ) -> ItemPage:
        """Return one page of the input items of a response. `order` is `asc` or `desc`."""
        return self._loop.run(self._client.input_items(response_id, limit=limit, after=after, order=order))

    def all_input_items(self, response_id: str, *, order: str | None = None) -> Iterator[Item]:
        """Yield all input items of a response, page by page."""
        after: str | None = None
        while True:
            page = self.input_items(response_id, after=after, order=order)
            yield from page.data
            after = page.next_after(after)
            if after is None:
                return

    def models(self) -> list[JsonObject]:
        """Return the models that the endpoint lists, each as the endpoint describes it."""
        return self._loop.run(self._client.models())

    def fetch(self, path: str, body: JsonObject | None = None) -> Any:
        """Send a request outside the protocol to a path from the server's root: GET, or POST with a body.

        Return None if the server answers 404.
        """
        return self._loop.run(self._client.fetch(path, body))

    def close(self) -> None:
        """End all streams and running requests, close the connections, and stop the thread."""
        self._loop.close(self._client.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncEventStream:
    """The events of one response, each once and in order; `for` ends after the last.

    Leaving the `with` block and `close` close the connection at once. `close` from another thread ends the
    iteration.
    """

    def __init__(self, stream: EventStream, loop: _BackgroundLoop) -> None:
        self._stream = stream
        self._loop = loop
        self._ready = UndeliveredEvents(stream.last_sequence)
        self._is_closed = False

    @property
    def response_id(self) -> str | None:
        """The id of the response, once an event contained it."""
        return self._stream.response_id

    @property
    def last_sequence(self) -> int | None:
        """The sequence number of the last delivered event, for `starting_after`."""
        return self._ready.last_delivered

    @property
    def skipped(self) -> int:
        """The number of invalid events that were skipped."""
        return self._stream.skipped

    @property
    def request_id(self) -> str | None:
        """The server's id of the last request for this stream."""
        return self._stream.request_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            if not self._ready and not self._stream.is_over:
                self._ready.extend(self._loop.run(self._stream.batch()))
        except _ClosedError:
            self._is_closed = True  # closing the client ends every stream
        except BaseException:
            self._loop.abandon(self._stream)  # an interrupt may come after the read has finished
            raise
        if self._is_closed or not self._ready:
            raise StopIteration
        return self._ready.deliver()

    def close(self) -> None:
        """Close the connection and end the iteration."""
        self._is_closed = True
        self._loop.run_if_open(self._stream.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._loop.abandon(self._stream)  # the caller left its loop without closing the stream


class _ClosedError(RuntimeError):
    """Not one of `penstock.errors`: using a closed client is a bug in the calling program."""


class _BackgroundLoop:
    """An event loop in its own thread, started by the first call of `run`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: garbage collection may call `abandon` at any line
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. An interrupt of the calling thread cancels it."""
        call = _LoopCall(coroutine)
        try:
            # `close` ends every call that was started before it, and no call may start after it.
            with self._lock:
                loop = self._started()
                future = asyncio.run_coroutine_threadsafe(call.run(), loop)
            return future.result()
        except concurrent.futures.CancelledError:
            raise client_closed() from None
        except BaseException:
            # An interrupt may come at any line, even before there is a future to cancel.
            call.cancel(self._loop)
            raise

    def run_if_open(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop is not None:
            with suppress(_ClosedError):
                self.run(start())

    def abandon(self, stream: EventStream) -> None:
        """Close a stream without waiting for it. Its connection belongs to the background thread."""
        with self._lock:
            if self._loop is not None and not self._is_closed and not stream.is_over:
                self._loop.call_soon_threadsafe(stream.abandon)

    def check_open(self) -> None:
        if self._is_closed:
            raise _ClosedError("the client is closed")

    def close(self, finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            loop, thread = self._loop, self._thread
        if was_closed or loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_shut_down(finish), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        self.check_open()
        if threading.current_thread() is self._thread:
            raise RuntimeError("a key source must not use the client that calls it")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="penstock-client", daemon=True
            )
            self._thread.start()
        return self._loop


class _LoopCall(Generic[T]):
    """A coroutine for the background thread that can be cancelled at any time."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    async def run(self) -> T:
        if self._is_cancelled:
            self._coroutine.close()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._coroutine

    def cancel(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Cancel the coroutine, even if it has finished or was never started."""
        try:
            if loop is None:
                raise RuntimeError
            loop.call_soon_threadsafe(self._stop)
        except RuntimeError:  # there is no loop, or it is closed
            self._coroutine.close()

    def _stop(self) -> None:
        self._is_cancelled = True
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()


async def _shut_down(finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await finish()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
