"""Messages between workers over LISTEN and NOTIFY.

Each worker listens to a channel of its own, on a connection that does nothing else. Messages are small and
may be lost: nothing waits for them, and whoever waits for news also looks into the database.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from contextlib import suppress

from penstock.errors import StoreError
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool, connect
from penstock.store.postgres.failures import failure_of

_log = logging.getLogger("penstock.store")

_LONGEST = 7_990
"""Bytes. PostgreSQL refuses messages of 8000 bytes and more."""
_MOST_WAITING = 10_000
"""Messages that wait to be sent."""
_SEND_DELAY = 0.002
"""Seconds for which messages are gathered. Many of them are the same."""
_CHECK_EVERY = 5.0
"""Seconds between two checks of the connection. It only receives: nothing else shows that it is dead."""
_RECONNECT, _SLOWEST_RECONNECT = 0.2, 5.0
"""Seconds until a broken connection is replaced; the time doubles."""

_NOTIFY = """
SELECT pg_notify('penstock_' || worker, message), set_config('synchronous_commit', 'off', true)
FROM unnest($1::text[], $2::text[]) AS given (worker, message)
"""


class NotifyBus:
    """See `penstock.store.news.Bus`."""

    most_bytes = 0

    def __init__(self, pool: DatabasePool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, bytes], None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._is_closed = False

    # Sending

    def send(self, worker: str, data: bytes) -> None:
        if self._is_closed or len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting[worker, data] = None
        if self._sending is None:
            self._sending = self._loop.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(_SEND_DELAY)
                messages, self._waiting = [*self._waiting], {}
                encoded = [(worker, base64.b64encode(data).decode()) for worker, data in messages]
                some = [(worker, text) for worker, text in encoded if len(text) <= _LONGEST]
                if some:
                    await self._notify([worker for worker, _ in some], [text for _, text in some])
        finally:
            self._sending = None

    async def _notify(self, workers: list[str], messages: list[str]) -> None:
        async def notify(connection: DatabaseConnection) -> None:
            await connection.execute(_NOTIFY, workers, messages)

        with suppress(StoreError):
            await self._pool.run(notify)

    # Receiving

    def listen(self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]) -> None:
        if self._pool.address.can_listen and self._listening is None:
            self._listening = self._loop.create_task(self._listen(worker, receive, changed))

    async def _listen(
        self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]
    ) -> None:
        delay = _RECONNECT
        while True:
            try:
                connection = await connect(self._pool.address.direct_url, self._pool.address)
                delay = _RECONNECT
                try:
                    await _receive(connection, worker, receive, changed)
                finally:
                    connection.terminate()
            except Exception as error:
                fields = {"event": "store", "code": failure_of(error)[0]}
                _log.debug("cannot listen to other workers", extra={"fields": fields})
            await asyncio.sleep(delay)
            delay = min(delay * 2, _SLOWEST_RECONNECT)

    async def aclose(self) -> None:
        self._is_closed = True
        tasks = [task for task in (self._listening, self._sending) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(
    connection: DatabaseConnection,
    worker: str,
    receive: Callable[[bytes], None],
    changed: Callable[[], None],
) -> None:
    """Pass messages on until the connection breaks."""
    broken = asyncio.Event()
    connection.add_termination_listener(lambda _: broken.set())
    await connection.add_listener(
        f"penstock_{worker}", lambda _connection, _pid, _channel, text: receive(base64.b64decode(text))
    )
    changed()  # messages may have been missed
    while not broken.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_CHECK_EVERY):
                await broken.wait()
        async with asyncio.timeout(_CHECK_EVERY):
            await connection.fetchval("SELECT 1")
