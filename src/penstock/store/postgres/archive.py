"""Reads the store for operators' tools, and prunes it, while any number of workers use it.

The tools are synchronous. The connection belongs to an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.errors import StoreError
from penstock.store.contract import TIME_STEP
from penstock.store.ledger import Dimension, TurnFilter, TurnPage, TurnTotals
from penstock.store.postgres import ledger, pruning, queries, workers
from penstock.store.postgres.address import address_of
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool, Job
from penstock.store.postgres.schema import STEPS, Step, check, migrate_database
from penstock.store.postgres.statements import OUTPUT
from penstock.store.postgres.text import original, storable
from penstock.store.records import (
    ArchivedConversation,
    ArchiveStats,
    LoggedEvent,
    Pruned,
    StoredConversation,
    StoredItem,
    StoredResponse,
    Trace,
)

T = TypeVar("T")

_BATCH = 16
"""Rows read at a time."""
_SECONDS = 60.0

# No index begins with the id. There are few tenants, and the index of ids skips from each to the next.
_FIND = f"""
WITH RECURSIVE tenants (name) AS (
    SELECT min(tenant) FROM penstock.responses UNION ALL
    SELECT (SELECT min(tenant) FROM penstock.responses WHERE tenant > name)
    FROM tenants WHERE name IS NOT NULL
)
SELECT {queries.COLUMNS} FROM tenants JOIN penstock.responses ON tenant = name
WHERE id = $1 ORDER BY number DESC LIMIT 1
"""
_RESPONSES = f"""
SELECT {queries.COLUMNS} FROM penstock.responses WHERE number > $1 ORDER BY number LIMIT {_BATCH}
"""
_ITEMS = """
SELECT items.id, data FROM penstock.responses JOIN penstock.items ON items.response = responses.number
WHERE responses.tenant = $1 AND responses.id = $2 AND position >= $3 AND position < $4 ORDER BY position
"""
_CONVERSATIONS = f"""
SELECT number, tenant, changed_at, id, created_at, metadata FROM penstock.conversations
WHERE number > $1 ORDER BY number LIMIT {_BATCH}
"""
_CONVERSATION_ITEMS = """
SELECT id, data FROM penstock.conversation_items WHERE conversation = $1 AND tenant = $2 ORDER BY number
"""
_DISK_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = 'penstock'::regnamespace AND relkind = 'r'
"""
_HAS_WORKERS = "SELECT EXISTS (SELECT FROM penstock.workers WHERE lease_until > clock_timestamp())"


class LoopThread:
    """An event loop for code that is not asynchronous, whether or not its thread runs one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class PostgresArchive:
    """See `penstock.store.contract.StoreArchive` for what each method promises."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._thread: LoopThread | None = None
        self._pool: DatabasePool | None = None

    @property
    def location(self) -> str:
        return address_of(self._url).location

    @property
    def files(self) -> Sequence[Path]:
        return []

    def __enter__(self) -> Self:
        address = address_of(self._url)
        thread = LoopThread()
        self._thread, self._pool = thread, DatabasePool(address)
        try:
            self._run(partial(_check, location=address.location))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        thread, pool = self._thread, self._pool
        self._thread = self._pool = None
        if thread is not None and pool is not None:
            thread.run(pool.aclose())
            thread.close()

    def _use(self, work: Callable[[DatabasePool], Coroutine[Any, Any, T]]) -> T:
        if self._thread is None or self._pool is None:
            raise StoreError(StoreError.CLOSED, f"{self.location}: the archive is not open")
        return self._thread.run(work(self._pool))

    def _run(self, job: Job[T]) -> T:
        return self._use(lambda pool: pool.run(job, seconds=_SECONDS))

    def is_in_use(self) -> bool:
        """Return whether any worker uses the store."""
        return bool(self._rows(_HAS_WORKERS)[0][0])

    # Responses

    def find(self, id: str) -> StoredResponse | None:
        rows = self._rows(_FIND, storable(id))
        return queries.response_of(rows[0]) if rows else None

    def _rows(self, query: str, *values: object) -> Sequence[Any]:
        async def fetch(connection: DatabaseConnection) -> Sequence[Any]:
            return await connection.fetch(query, *values)

        return self._run(fetch)

    def responses(self) -> Iterator[StoredResponse]:
        last = 0
        while rows := self._rows(_RESPONSES, last):
            yield from map(queries.response_of, rows)
            last = rows[-1]["number"]

    def events(self, tenant: str, id: str) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        while more := self._run(
            partial(queries.events, tenant=tenant, id=id, after=found[-1].sequence if found else -1)
        ):
            found += more
        return found

    def traces(self, tenant: str, id: str) -> list[Trace]:
        return self._run(partial(queries.traces, tenant=tenant, id=id))

    def input(self, tenant: str, id: str) -> list[StoredItem]:
        return self._items(tenant, id, 0, OUTPUT)

    def output(self, tenant: str, id: str) -> list[StoredItem]:
        return self._items(tenant, id, OUTPUT, 2 * OUTPUT)

    def _items(self, tenant: str, id: str, first: int, end: int) -> list[StoredItem]:
        rows = self._rows(_ITEMS, storable(tenant), storable(id), first, end)
        return [queries.item_of(*row) for row in rows]

    # Conversations

    def conversations(self) -> Iterator[ArchivedConversation]:
        last = 0
        while rows := self._rows(_CONVERSATIONS, last):
            for number, tenant, changed_at, id, created_at, metadata in rows:
                items = [queries.item_of(*row) for row in self._rows(_CONVERSATION_ITEMS, number, tenant)]
                conversation = StoredConversation(original(id), created_at, metadata)
                yield ArchivedConversation(original(tenant), changed_at, conversation, tuple(items))
            last = rows[-1]["number"]

    # The ledger

    def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        return self._run(partial(ledger.turns, filter=filter, after=after, limit=limit))

    def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        return self._run(partial(ledger.totals, filter=filter, by=by))

    def last_used(self) -> dict[str, float]:
        return self._run(ledger.last_used)

    # Pruning

    def time(self, now: float) -> float:
        return min(now, self._run(partial(pruning.store_time, now=now)) + TIME_STEP)

    def stats(self) -> ArchiveStats:
        return self._run(_stats)

    def fail_queued(self) -> int:
        return self._use(lambda pool: pool.transact(workers.fail_queued, seconds=_SECONDS))

    def count_expired(self, *, older_than: float) -> Pruned:
        return self._run(partial(pruning.count_expired, older_than=older_than))

    def prune(
        self,
        *,
        older_than: float = 0.0,
        most_bytes: int | None = None,
        progress: Callable[[Pruned], None] | None = None,
    ) -> Pruned:
        return self._use(
            partial(pruning.prune, older_than=older_than, most_bytes=most_bytes, progress=progress)
        )


async def _check(connection: DatabaseConnection, location: str) -> None:
    """Refuse a database without our tables, or with those of another version."""
    try:
        version = await check(connection)
        if version == 0:
            raise StoreError(
                StoreError.EMPTY, "there is no store in this database; penstock store migrate creates it"
            )
        if version < len(STEPS):
            raise StoreError(
                StoreError.OLDER_VERSION,
                f"an older Penstock created these tables (step {version}, this version needs {len(STEPS)}); "
                "run penstock store migrate",
            )
    except StoreError as error:
        raise StoreError(error.code, f"{location}: {error.message}") from None


async def _stats(connection: DatabaseConnection) -> ArchiveStats:
    query = "SELECT min(created_at), max(created_at) FROM penstock.responses"
    oldest, newest = await connection.fetchrow(query)
    query = "SELECT status, count(*) FROM penstock.responses GROUP BY status ORDER BY status"
    counts = {original(status): count for status, count in await connection.fetch(query)}
    total = await queries.stats(connection)
    disk_bytes = await connection.fetchval(_DISK_BYTES)
    return ArchiveStats(total=total, by_status=counts, oldest=oldest, newest=newest, disk_bytes=disk_bytes)


def migrate_archive(url: str) -> list[Step]:
    """Apply the missing migration steps, and return them; raise `StoreError`."""
    thread = LoopThread()
    try:
        return thread.run(migrate_database(address_of(url)))
    finally:
        thread.close()


def has_workers(url: str) -> bool:
    """Return whether any worker uses the store."""
    try:
        with PostgresArchive(url) as archive:
            return archive.is_in_use()
    except StoreError:
        return False
