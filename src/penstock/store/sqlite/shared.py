"""One SQLite file for several processes of a machine.

A supervisor holds the lock of the file, and opens it once for all: only then is it known that turns without
an end have been interrupted. Its workers write in turn, each waiting for the others' transactions, and send
each other messages over sockets (`store.sqlite.socket_bus`).
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from penstock.errors import StoreError
from penstock.store.backend import ClaimedTurn, Orphan
from penstock.store.batch_writer import WriteLimits
from penstock.store.peers import PeerTimes
from penstock.store.shared import SharedStore
from penstock.store.sqlite import ledger, workers
from penstock.store.sqlite.file import (
    BUSY_MS,
    FileLocation,
    FileLock,
    as_store_errors,
    connect_existing,
    locate,
    prepare_for_writing,
)
from penstock.store.sqlite.opening import open_file
from penstock.store.sqlite.reader_pool import ReaderPool
from penstock.store.sqlite.socket_bus import SocketBus, bus_folder, clear_folder, remove_folder
from penstock.store.sqlite.store import SqliteBackend
from penstock.store.sqlite.writer import SqliteWriter


class HeldFile:
    """A file that workers of this machine share."""

    def __init__(self, lock: FileLock, folder: Path) -> None:
        self._lock, self._folder = lock, folder

    def release(self) -> None:
        """Let others have the file, and remove the folder of the workers' sockets. Workers that were killed
        have left theirs; one that still ends loses no more than messages."""
        with suppress(StoreError):
            clear_folder(self._folder)
            remove_folder(self._folder)
        self._lock.release()


def hold_file(
    path: str | Path, *, clock: Callable[[], float] = time.time, busy_ms: int = BUSY_MS
) -> HeldFile:
    """Prepare a file for workers, and hold its lock for them; raise `StoreError` if that is not possible.
    Turns that were running when an earlier process died are ended as failed (ask G8); background turns that
    had not started are left to the workers."""
    file = locate(path)
    lock, connection = open_file(file, busy_ms, clock, has_workers=True)
    connection.close()
    folder = bus_folder(file)
    try:
        clear_folder(folder)
    except BaseException:
        lock.release()
        raise
    return HeldFile(lock, folder)


async def open_shared_sqlite_store(
    path: str | Path,
    *,
    clock: Callable[[], float] = time.time,
    bounds: WriteLimits | None = None,
    times: PeerTimes | None = None,
    busy_ms: int = BUSY_MS,
) -> SharedStore:
    """Open a file whose lock a supervisor holds (`hold_file`); raise `StoreError` if that is not possible."""
    file, worker = locate(path), uuid4().hex
    connection = await asyncio.to_thread(_connect, file, busy_ms)
    limits = bounds or WriteLimits()
    writer = SqliteWriter(connection, limits, file_exists=FileLocation(file).exists, worker=worker)
    backend = SharedSqliteBackend(writer, ReaderPool(file, busy_ms), worker=worker, clock=clock)
    store = SharedStore(backend, writer, SocketBus(bus_folder(file)), worker, clock, times or PeerTimes())
    try:
        await store.join()
    except BaseException:
        await store.aclose()
        raise
    return store


def _connect(path: Path, busy_ms: int) -> sqlite3.Connection:
    with as_store_errors(path):
        connection = connect_existing(path, busy_ms)
        prepare_for_writing(connection)
        return connection


class SharedSqliteBackend(SqliteBackend):
    """See `penstock.store.backend.WorkerBackend`."""

    def __init__(
        self, writer: SqliteWriter, readers: ReaderPool, *, worker: str, clock: Callable[[], float]
    ) -> None:
        super().__init__(writer, readers, clock, worker=worker)

    async def renew(self, worker: str, lease: float) -> None:
        job = partial(workers.renew, worker=worker, lease=lease)
        await self._writer.do(job, is_synced=False)

    async def claimed(self, worker: str) -> list[ClaimedTurn]:
        return await self._readers.read(workers.claimed, worker)

    async def claim_orphans(self, worker: str, most: int, *, only_started: bool = False) -> list[Orphan]:
        if not await self._readers.read(workers.has_orphans, worker, only_started=only_started):
            return []
        job = partial(workers.claim_orphans, worker=worker, most=most, only_started=only_started)
        return await self._writer.do(job)

    async def settle_orphans(self, code: str) -> int:
        if not await self._readers.read(_has_dead_workers):
            return 0
        return await self._writer.do(partial(self._settle, code=code), is_synced=False)

    def _settle(self, connection: sqlite3.Connection, code: str) -> int:
        living = workers.living(connection)
        count = ledger.settle_interrupted(connection, self._clock(), code=code, living=living)
        workers.forget_dead(connection)
        return count

    async def owner(self, tenant: str, id: str) -> str | None:
        return await self._readers.read(workers.owner, tenant, id)

    async def running_in(self, tenant: str, conversation_id: str) -> list[str]:
        return await self._readers.read(workers.running_in, tenant, conversation_id)

    async def disown(self, token: str) -> None:
        await self._writer.do(partial(workers.disown, token=token), is_synced=False)

    async def hand_over(self, token: str) -> None:
        await self._writer.do(partial(workers.hand_over, token=token))

    async def request_cancel(self, tenant: str, id: str) -> str | None:
        return await self._writer.do(partial(workers.request_cancel, tenant=tenant, id=id), is_synced=False)

    async def start(self, tenant: str, id: str, token: str) -> bool:  # noqa: ARG002 - tokens are unique
        return await self._writer.do(partial(workers.start, token=token))

    async def aclose(self) -> list[str]:
        await self._writer.flush_logs()
        await self._writer.drain()  # turns that this worker has ended must not be taken over
        with suppress(StoreError):
            await self._writer.do(partial(workers.leave, worker=self._worker), is_synced=False)
        return await super().aclose()


def _has_dead_workers(connection: sqlite3.Connection) -> bool:
    return workers.has_dead(connection) or ledger.has_orphans(connection)
