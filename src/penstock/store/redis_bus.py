"""Messages between workers over Redis or Valkey: publish and subscribe.

Redis stores nothing here, so there is nothing to trim, to expire or to lose when it is flushed: a worker that
missed a message reads the store. While Redis cannot be reached, messages go over the bus of the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.errors import StoreError
from penstock.extras import EXTRAS
from penstock.store.news import Bus

if TYPE_CHECKING:
    from redis.asyncio import Redis

_log = logging.getLogger("penstock.store")

_MOST_BYTES = 1024 * 1024
_MOST_WAITING = 10_000
"""Messages that wait to be sent; beyond that the oldest are dropped."""
_AT_ONCE = 200
_DEADLINE = 1.0
"""Seconds that Redis may take to answer. A frozen server must not delay anything for longer."""
_QUIET = 3.0
"""Seconds without a message after which the connection is tested."""
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
"""Seconds between attempts to connect."""

_PREFIX = "penstock:worker:"


class RedisBus:
    """See `penstock.store.news.Bus`. `other` carries the messages while Redis cannot be reached."""

    def __init__(self, url: str, other: Bus) -> None:
        self._url, self._other = url, other
        self._location = redis_location(url)
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=_MOST_WAITING)
        self._has_work = asyncio.Event()
        self._is_sending = self._is_receiving = True
        self._tasks: list[asyncio.Task[None]] = []
        _client(url)  # a wrong URL, or a missing library, is reported at once

    @property
    def is_connected(self) -> bool:
        return self._is_sending and self._is_receiving

    @property
    def most_bytes(self) -> int:
        return _MOST_BYTES if self.is_connected else self._other.most_bytes

    def listen(self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]) -> None:
        self._other.listen(worker, receive, changed)
        self._tasks = [
            asyncio.create_task(self._keep_receiving(worker, receive, changed)),
            asyncio.create_task(self._keep_sending()),
        ]

    def send(self, worker: str, data: bytes) -> None:
        if self.is_connected:
            self._waiting.append((worker, data))
            self._has_work.set()
        elif len(data) <= max(self._other.most_bytes, _SHORT):
            self._other.send(worker, data)

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._other.aclose()

    # Sending

    async def _keep_sending(self) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                async with _connected(self._url) as client:
                    while True:
                        await self._has_work.wait()
                        await self._send_some(client)
                        self._is_sending, wait = True, _FIRST_WAIT
            except (OSError, _redis_errors()) as error:
                if self._is_sending:
                    self._report(error)
                self._is_sending = False
                self._waiting.clear()
                self._has_work.set()  # the next attempt sends nothing, and shows whether Redis answers
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _send_some(self, client: Redis) -> None:
        self._has_work.clear()
        if not self._waiting:
            await client.ping()
        while self._waiting:
            some = [self._waiting.popleft() for _ in range(min(len(self._waiting), _AT_ONCE))]
            async with client.pipeline(transaction=False) as pipeline:
                for worker, data in some:
                    pipeline.publish(_PREFIX + worker, data)
                await pipeline.execute()

    # Receiving

    async def _keep_receiving(
        self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]
    ) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                async with _connected(self._url) as client, client.pubsub() as messages:
                    await messages.subscribe(_PREFIX + worker)
                    self._is_receiving, wait = True, _FIRST_WAIT
                    changed()  # messages may have been lost in between
                    await self._receive_all(messages, receive)
            except (OSError, _redis_errors()) as error:
                if self._is_receiving:
                    self._report(error)
                self._is_receiving = False
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _receive_all(self, messages: Any, receive: Callable[[bytes], None]) -> None:
        """Pass messages on until Redis no longer answers; then raise an error."""
        is_tested = False
        while True:
            message = await messages.get_message(timeout=_DEADLINE if is_tested else _QUIET)
            if message is not None:
                is_tested = False
                if message["type"] == "message":
                    receive(message["data"])
            elif is_tested:
                raise TimeoutError("no answer")
            else:
                await messages.ping()
                is_tested = True

    def _report(self, error: Exception) -> None:
        """Log why Redis cannot be used, once for each outage; its messages may contain the password."""
        fields = {"event": "store", "code": "redis_unreachable", "error": type(error).__name__}
        _log.warning(
            "%s",
            f"{self._location} cannot be reached; messages between workers go through the store",
            extra={"fields": fields},
        )


_SHORT = 1024
"""Bytes of a message without events."""


def redis_location(url: str) -> str:
    """Return the address of a server for messages, without user and password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "redis://"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Redis]:
    client = _client(url)
    try:
        yield client
    finally:
        # A connection whose command was cancelled has an answer that nobody waits for: it is not used again.
        await client.aclose()


def _client(url: str) -> Redis:
    """Return a client, which is not connected yet; raise `StoreError` if the URL is wrong, or if the library
    is not installed."""
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        extra = EXTRAS["redis"]
        message = f"{redis_location(url)}: {extra.missing}. Install it: {extra.command}"
        raise StoreError(StoreError.NOT_INSTALLED, message) from None
    try:
        return Redis.from_url(
            url,
            socket_timeout=_DEADLINE,
            socket_connect_timeout=_DEADLINE,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        message = f"{redis_location(url)}: write redis://HOST:PORT/0, or rediss:// for TLS"
        raise StoreError(StoreError.ADDRESS, message) from None


def _redis_errors() -> type[Exception]:
    from redis.exceptions import RedisError

    return RedisError
