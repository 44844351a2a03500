"""The store in an SQLite file. It needs no setup, and one process at a time can open it.

What `close` reports as durable was committed and synced: it survives `kill -9` and, on a disk that does not
lie about syncs, a power cut. A running turn may lose its last tenth of a second if the process dies, and what
was committed since the last sync in a power cut. The file opens without errors after either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from penstock.store.batch_writer import WriteLimits
from penstock.store.buffered import BufferedStore
from penstock.store.latencies import TurnLatencies
from penstock.store.ledger import Dimension, Exceeded, KeyLimits, TurnFilter, TurnPage, TurnRecord, TurnTotals
from penstock.store.records import (
    HeldKey,
    LoggedEvent,
    Opened,
    Page,
    Stats,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoredTurn,
    Trace,
)
from penstock.store.sqlite import latencies, ledger, queries, statements, threads, workers
from penstock.store.sqlite.file import BUSY_MS, FileLocation, FileLock, locate
from penstock.store.sqlite.opening import open_file
from penstock.store.sqlite.pruning import advance_time, prune
from penstock.store.sqlite.reader_pool import ReaderPool
from penstock.store.sqlite.workers import TurnClaim
from penstock.store.sqlite.writer import SqliteWriter
from penstock.store.threads import ThreadPage, ThreadTurn

_LEDGER_BATCH = 1000
"""Rows deleted in one transaction: a turn that ends in between does not wait for all of them."""


async def open_sqlite_store(
    path: str | Path,
    *,
    clock: Callable[[], float] = time.time,
    bounds: WriteLimits | None = None,
    busy_ms: int = BUSY_MS,
) -> SqliteStore:
    """Open a file, or create it; raise `StoreError` if that is not possible.

    Turns that were running when an earlier process died are ended as failed (ask G8).
    """
    file = locate(path)
    lock, connection = await asyncio.to_thread(open_file, file, busy_ms, clock)
    writer = SqliteWriter(connection, bounds or WriteLimits(), file_exists=FileLocation(file).exists)
    backend = SqliteBackend(writer, ReaderPool(file, busy_ms), clock, lock)
    return SqliteStore(backend, writer, clock, worker=uuid4().hex)


class SqliteStore(BufferedStore[SqliteWriter]):
    """See `penstock.store.contract.Store` for what each method promises; open it with `open_sqlite_store`."""


class SqliteBackend:
    """See `penstock.store.buffered.Backend`: each method runs the SQL of its name in a thread."""

    def __init__(
        self,
        writer: SqliteWriter,
        readers: ReaderPool,
        clock: Callable[[], float],
        lock: FileLock | None = None,
        worker: str = "",
    ) -> None:
        """`worker` identifies this process if several share the file; then another one holds its lock."""
        self._writer, self._readers, self._clock = writer, readers, clock
        self._lock, self._worker = lock, worker

    # Reading

    async def response(self, tenant: str, id: str) -> StoredResponse | None:
        return await self._readers.read(queries.response, tenant, id)

    async def exists(self, tenant: str, id: str) -> bool:
        return await self._readers.read(queries.exists, tenant, id)

    async def events(self, tenant: str, id: str, after: int) -> list[LoggedEvent]:
        return await self._readers.read(queries.events, tenant, id, after)

    async def traces(self, tenant: str, id: str) -> list[Trace]:
        return await self._readers.read(queries.traces, tenant, id)

    async def history(self, tenant: str, id: str, *, is_before: bool) -> list[tuple[int, str]]:
        return await self._readers.read(queries.history, tenant, id, is_before)

    async def items(self, numbers: list[int]) -> dict[int, StoredItem]:
        return await self._readers.read(queries.items, numbers)

    async def chain(self, tenant: str, id: str) -> list[StoredTurn] | None:
        return await self._readers.read(queries.chain, tenant, id)

    async def items_of(self, tenant: str, ids: Sequence[str]) -> dict[str, tuple[StoredItem, bool]]:
        return await self._readers.read(queries.items_of, tenant, ids)

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        return await self._readers.read(queries.reasoning_memory, tenant, keys)

    async def conversation(self, tenant: str, id: str) -> StoredConversation | None:
        return await self._readers.read(queries.conversation, tenant, id)

    async def conversation_items(
        self, tenant: str, id: str, *, after: str | None, limit: int, newest_first: bool
    ) -> Page | None:
        return await self._readers.read(queries.conversation_items, tenant, id, after, limit, newest_first)

    async def continuations(self, tenant: str, id: str) -> list[str]:
        return await self._readers.read(threads.continuations, tenant, id)

    async def threads(self, tenant: str, *, after: str = "", limit: int = 50) -> ThreadPage:
        return await self._readers.read(threads.threads, tenant, after, limit)

    async def conversation_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        return await self._readers.read(threads.conversation_turns, tenant, id, limit)

    async def chain_turns(self, tenant: str, id: str, *, limit: int = 200) -> list[ThreadTurn]:
        return await self._readers.read(threads.chain_turns, tenant, id, limit)

    async def stats(self) -> Stats:
        await self._writer.flush_logs()
        return await self._readers.read(queries.stats)

    # Changing

    async def open_background(self, turn: Opened, token: str) -> None:
        claim = TurnClaim(self._worker, token)
        await self._writer.do(partial(statements.begin_background, turn=turn, claim=claim))

    def discard(self, tenant: str, id: str, token: str) -> None:
        self._writer.do_later(partial(statements.delete_response, tenant=tenant, id=id, token=token))

    async def delete(self, tenant: str, id: str) -> bool:
        return await self._writer.do(partial(statements.delete_response, tenant=tenant, id=id))

    async def create_conversation(self, tenant: str, conversation: StoredConversation, now: float) -> None:
        job = partial(statements.create_conversation, tenant=tenant, conversation=conversation, now=now)
        await self._writer.do(job)

    async def update_conversation(self, tenant: str, id: str, metadata: bytes, now: float) -> bool:
        job = partial(statements.update_conversation, tenant=tenant, id=id, metadata=metadata, now=now)
        return await self._writer.do(job)

    async def delete_conversation(self, tenant: str, id: str) -> bool:
        return await self._writer.do(partial(statements.delete_conversation, tenant=tenant, id=id))

    async def add_items(self, tenant: str, id: str, items: Sequence[StoredItem], now: float) -> bool:
        return await self._writer.do(
            partial(statements.add_items, tenant=tenant, id=id, items=items, now=now)
        )

    async def delete_item(self, tenant: str, id: str, item_id: str) -> bool:
        return await self._writer.do(partial(statements.delete_item, tenant=tenant, id=id, item_id=item_id))

    async def remember(self, tenant: str, id: str, key: str, data: bytes) -> None:
        await self._writer.do(partial(statements.remember, tenant=tenant, id=id, key=key, data=data))

    async def shared_secrets(self, name: str, candidate: bytes) -> list[bytes]:  # noqa: ARG002 - a file has it
        return []

    # A key that the disk does not have after a power cut could be used twice.

    async def hold(self, tenant: str, key: str, worker: str, data: bytes) -> HeldKey | None:
        job = partial(workers.hold, tenant=tenant, key=key, worker=worker, data=data, now=self._clock())
        return await self._writer.do(job)

    async def release(self, tenant: str, key: str, worker: str) -> None:
        job = partial(workers.release_key, tenant=tenant, key=key, worker=worker)
        await self._writer.do(job, is_synced=False)

    async def retire(self, tenant: str, key: str, worker: str, data: bytes, seconds: float) -> None:
        until = self._clock() + seconds
        job = partial(workers.retire_key, tenant=tenant, key=key, worker=worker, data=data, until=until)
        await self._writer.do(job, is_synced=False)

    async def advance_time(self, now: float, every: float) -> float | None:
        return await self._writer.do(partial(advance_time, now=now, every=every))

    async def prune(self, *, older_than: float, most_bytes: int | None) -> int:
        return await prune(self._writer, older_than=older_than, most_bytes=most_bytes)

    # The ledger

    async def admit(self, record: TurnRecord, limits: KeyLimits) -> Exceeded | None:
        job = partial(ledger.admit, record=record, limits=limits, worker=self._worker)
        return await self._writer.do(job, is_synced=False)

    async def turns(self, filter: TurnFilter, *, after: str, limit: int) -> TurnPage:
        return await self._readers.read(ledger.turns, filter, after, limit)

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        return await self._readers.read(ledger.totals, filter, by)

    async def latencies(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnLatencies]:
        return await self._readers.read(latencies.latencies, filter, by)

    async def causes(self, filter: TurnFilter) -> list[tuple[str, int]]:
        return await self._readers.read(latencies.causes, filter)

    async def prune_ledger(self, *, older_than: float) -> int:
        count = 0
        job = partial(ledger.delete_turns, older_than=older_than, most=_LEDGER_BATCH)
        while done := await self._writer.do(job):
            count += done
        return count

    async def aclose(self) -> list[str]:
        await self._readers.aclose()
        # The last connection to close empties the journal, which a reader could not do.
        lost = await self._writer.aclose()
        if self._lock is not None:
            self._lock.release()
        return lost
