"""Reads a store's file for operators' tools, also while a gateway has it open.

The file is not locked, no turn is ended and nothing is migrated, because a gateway may be using the file:
SQLite lets other processes read at any time, and write between two commits. What the gateway has not written
yet, at most a tenth of a second, is not visible here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from penstock.errors import StoreError
from penstock.store.contract import TIME_STEP
from penstock.store.ledger import Dimension, TurnFilter, TurnPage, TurnTotals
from penstock.store.packing import item_of
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
from penstock.store.sqlite import ledger, queries
from penstock.store.sqlite.file import (
    BUSY_MS,
    SUFFIXES,
    as_store_errors,
    connect_existing,
    prepare_for_writing,
)
from penstock.store.sqlite.pruning import pruning_steps, store_time
from penstock.store.sqlite.schema import STEPS, check
from penstock.store.sqlite.workers import fail_queued

P = ParamSpec("P")
T = TypeVar("T")

_BATCH = 16
"""Rows read at a time. A read that stays open would keep the journal from ever being emptied."""

_NUMBER = "SELECT max(number) FROM responses WHERE id = ?"
_RESPONSES = f"SELECT {queries.COLUMNS} FROM responses WHERE number > ? ORDER BY number LIMIT ?"
_ITEMS = """
SELECT items.id, data FROM responses JOIN items ON items.response = responses.number
WHERE responses.tenant = ? AND responses.id = ? AND is_output = ? ORDER BY items.number
"""
_CONVERSATIONS = """
SELECT number, tenant, changed_at, id, created_at, metadata FROM conversations
WHERE number > ? ORDER BY number LIMIT ?
"""
_CONVERSATION_ITEMS = "SELECT id, data FROM conversation_items WHERE conversation = ? ORDER BY number"


class SqliteArchive:
    """See `penstock.store.contract.StoreArchive` for what each method promises."""

    def __init__(self, path: str | Path, *, busy_ms: int = BUSY_MS) -> None:
        self._path = Path(path).expanduser().resolve()
        self._busy_ms = busy_ms
        self._connection: sqlite3.Connection | None = None

    @property
    def location(self) -> str:
        return str(self._path)

    @property
    def files(self) -> Sequence[Path]:
        return [self._path, *(self._path.with_name(self._path.name + suffix) for suffix in SUFFIXES)]

    def __enter__(self) -> Self:
        with as_store_errors(self._path):
            if not self._path.is_file():
                raise StoreError(
                    StoreError.MISSING,
                    "there is no such file; `penstock serve` creates it. Use --store for another file",
                )
            connection = connect_existing(self._path, self._busy_ms)
            try:
                _check(connection)
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(
        self, query: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self._connection is None:
            raise StoreError(StoreError.CLOSED, f"{self._path}: the archive is not open")
        with as_store_errors(self._path):
            return query(self._connection, *args, **kwargs)

    # Responses

    def find(self, id: str) -> StoredResponse | None:
        return self._run(_find, id)

    def responses(self) -> Iterator[StoredResponse]:
        last = 0
        while rows := self._run(_rows, _RESPONSES, last, _BATCH):
            yield from map(queries.response_of, rows)
            last = rows[-1][0]

    def events(self, tenant: str, id: str) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        while more := self._run(queries.events, tenant, id, found[-1].sequence if found else -1):
            found += more
        return found

    def traces(self, tenant: str, id: str) -> list[Trace]:
        return self._run(queries.traces, tenant, id)

    def input(self, tenant: str, id: str) -> list[StoredItem]:
        return [item_of(*row) for row in self._run(_rows, _ITEMS, tenant, id, False)]

    def output(self, tenant: str, id: str) -> list[StoredItem]:
        return [item_of(*row) for row in self._run(_rows, _ITEMS, tenant, id, True)]

    # Conversations

    def conversations(self) -> Iterator[ArchivedConversation]:
        last = 0
        while rows := self._run(_rows, _CONVERSATIONS, last, _BATCH):
            for number, tenant, changed_at, *conversation in rows:
                items = [item_of(*row) for row in self._run(_rows, _CONVERSATION_ITEMS, number)]
                yield ArchivedConversation(
                    tenant, changed_at, StoredConversation(*conversation), tuple(items)
                )
            last = rows[-1][0]

    # The ledger

    def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        return self._run(ledger.turns, filter, after, limit)

    def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        return self._run(ledger.totals, filter, by)

    def last_used(self) -> dict[str, float]:
        return self._run(ledger.last_used)

    def fail_queued(self) -> int:
        self._run(prepare_for_writing)
        return self._run(_in_transaction, fail_queued)

    # Pruning

    def time(self, now: float) -> float:
        return min(now, self._run(store_time, now) + TIME_STEP)

    def stats(self) -> ArchiveStats:
        return self._run(_stats)

    def count_expired(self, *, older_than: float) -> Pruned:
        return self._run(_count_expired, older_than)

    def prune(
        self,
        *,
        older_than: float = 0.0,
        most_bytes: int | None = None,
        progress: Callable[[Pruned], None] | None = None,
    ) -> Pruned:
        """Delete in small steps, as the store does, so that a gateway can write in between."""
        pruned = Pruned()
        self._run(prepare_for_writing)
        for step in pruning_steps(older_than=older_than, most_bytes=most_bytes):
            while done := self._run(_in_transaction, step.run):
                if step.deletes:
                    setattr(pruned, step.deletes, getattr(pruned, step.deletes) + done)
                if step.deletes and progress is not None:
                    progress(pruned)
        # Only a checkpoint shrinks the file; if a gateway is reading, a later one does.
        self._run(_rows, "PRAGMA wal_checkpoint(PASSIVE)")
        return pruned


def _check(connection: sqlite3.Connection) -> None:
    """Refuse a file that is not a store or has another format. Migrating an older one is up to a gateway."""
    version = check(connection)
    if version == 0:
        raise StoreError(StoreError.NOT_A_STORE, "the file is empty; use another file (--store PATH)")
    if version < len(STEPS):
        raise StoreError(
            StoreError.OLDER_VERSION,
            f"an older Penstock wrote this file (format {version}, this version needs {len(STEPS)}); "
            "to migrate it, run this version's `penstock serve --store PATH` once",
        )


def _rows(connection: sqlite3.Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()


def _find(connection: sqlite3.Connection, id: str) -> StoredResponse | None:
    (number,) = connection.execute(_NUMBER, (id,)).fetchone()
    rows = _rows(connection, _RESPONSES, number - 1, 1) if number is not None else []
    return next((stored for stored in map(queries.response_of, rows) if stored.id == id), None)


def _stats(connection: sqlite3.Connection) -> ArchiveStats:
    oldest, newest = _rows(connection, "SELECT min(created_at), max(created_at) FROM responses")[0]
    counts = _rows(connection, "SELECT status, count(*) FROM responses GROUP BY status ORDER BY status")
    return ArchiveStats(total=queries.stats(connection), by_status=dict(counts), oldest=oldest, newest=newest)


_EXPIRED = """
WITH RECURSIVE needed (number, tenant, previous_id) AS (
    SELECT number, tenant, previous_id FROM responses WHERE ended_at IS NULL OR ended_at >= :time
    UNION
    SELECT before.number, before.tenant, before.previous_id FROM needed
    JOIN responses AS before ON before.tenant = needed.tenant AND before.id = needed.previous_id
)
SELECT count(*) FROM responses WHERE number NOT IN (SELECT number FROM needed)
"""
"""Counts the old responses that no newer one continues."""


def _count_expired(connection: sqlite3.Connection, older_than: float) -> Pruned:
    responses = connection.execute(_EXPIRED, {"time": older_than}).fetchone()[0]
    conversations = _rows(connection, "SELECT count(*) FROM conversations WHERE changed_at < ?", older_than)
    return Pruned(responses, conversations[0][0])


def _in_transaction(connection: sqlite3.Connection, step: Callable[[sqlite3.Connection], int]) -> int:
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = step(connection)
        connection.execute("COMMIT")
        return done
    finally:
        if connection.in_transaction:
            connection.rollback()


_ENDED_AT = "SELECT ended_at FROM responses WHERE tenant = ? AND id = ?"
_MEMORIES = """
SELECT key, data FROM responses JOIN memories ON memories.response = responses.number
WHERE responses.tenant = ? AND responses.id = ? ORDER BY memories.number
"""
_TENANT_DAYS = "SELECT tenant, day, tokens, cost FROM tenant_days ORDER BY tenant, day"


class SqliteSource(SqliteArchive):
    """An archive that also returns what no operator's tool shows. See `store.postgres.importing`."""

    def ended_at(self, tenant: str, id: str) -> float | None:
        """Return when a turn ended; None if its process died before that."""
        rows = self._run(_rows, _ENDED_AT, tenant, id)
        return rows[0][0] if rows else None

    def memories(self, tenant: str, id: str) -> dict[str, bytes]:
        """Return what is remembered for as long as a response exists."""
        return dict(self._run(_rows, _MEMORIES, tenant, id))

    def tenant_days(self) -> list[tuple[str, int, int, float]]:
        """Return what budgets count: the tokens and the cost of each tenant and day since 1970."""
        return [(tenant, day, tokens, cost) for tenant, day, tokens, cost in self._run(_rows, _TENANT_DAYS)]

    def store_time(self, now: float) -> float:
        """Return the store's own time."""
        return self._run(store_time, now)
