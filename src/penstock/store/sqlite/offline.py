"""A look into a store's file from beside the gateway that has it: for the tools of those who run one.

Nothing is claimed, nothing is ended and nothing is migrated, because a gateway may be at work in the file:
SQLite lets others read meanwhile, and write between two of its commits. What that gateway has not
written yet, at most a tenth of a second of it, cannot be seen from here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from msgspec import Struct

from penstock.errors import StoreError
from penstock.store.contract import Conversation, LoggedEvent, Stats, StoredItem, StoredResponse, Trace
from penstock.store.sqlite import queries
from penstock.store.sqlite.file import BUSY_MS, connect_existing, prepare_for_writing, telling_failures
from penstock.store.sqlite.packing import item_of
from penstock.store.sqlite.pruning import TIME_STEP, chores, seen_time
from penstock.store.sqlite.schema import STEPS, check

P = ParamSpec("P")
T = TypeVar("T")

_AT_ONCE = 16
"""So many rows are read at a time. A read that stays open would keep the journal from ever being emptied."""

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


class FileStats(Struct, frozen=True, kw_only=True):
    """What there is, and since when. Times are in seconds since 1970, None where there is no response."""

    total: Stats
    by_status: dict[str, int]
    oldest: int | None
    newest: int | None


class KeptConversation(Struct, frozen=True):
    tenant: str
    changed_at: float
    conversation: Conversation
    items: tuple[StoredItem, ...]


class Pruned(Struct):
    """What went, so far."""

    responses: int = 0
    conversations: int = 0


class StoreFile:
    """A file that a gateway made, whether it runs now or not. To be used in a `with`.

    `StoreError` says why it cannot be looked into. Every tenant is seen: this is for the operator.
    """

    def __init__(self, path: str | Path, *, busy_ms: int = BUSY_MS) -> None:
        self.path = Path(path).expanduser().resolve()
        self._busy_ms = busy_ms
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        with telling_failures(self.path):
            if not self.path.is_file():
                raise StoreError(
                    StoreError.MISSING,
                    "there is no such file: `penstock serve` makes it, --store names another",
                )
            connection = connect_existing(self.path, self._busy_ms)
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

    def _ask(
        self, question: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self._connection is None:
            raise StoreError(StoreError.CLOSED, f"{self.path}: the file was closed")
        with telling_failures(self.path):
            return question(self._connection, *args, **kwargs)

    # Responses

    def find(self, id: str) -> StoredResponse | None:
        """A response of whichever tenant, as it stands in the file: one that runs is `in_progress` here."""
        return self._ask(_find, id)

    def responses(self) -> Iterator[StoredResponse]:
        """All of them, the oldest first; also those that come while this goes on."""
        last = 0
        while rows := self._ask(_rows, _RESPONSES, last, _AT_ONCE):
            yield from map(queries.response_of, rows)
            last = rows[-1][0]

    def events(self, tenant: str, id: str) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        while more := self._ask(queries.events, tenant, id, found[-1].sequence if found else -1):
            found += more
        return found

    def traces(self, tenant: str, id: str) -> list[Trace]:
        return self._ask(queries.traces, tenant, id)

    def input(self, tenant: str, id: str) -> list[StoredItem]:
        """What this turn brought, without the chain before it."""
        return [item_of(*row) for row in self._ask(_rows, _ITEMS, tenant, id, False)]

    def output(self, tenant: str, id: str) -> list[StoredItem]:
        return [item_of(*row) for row in self._ask(_rows, _ITEMS, tenant, id, True)]

    # Conversations

    def conversations(self) -> Iterator[KeptConversation]:
        """All of them, the oldest first, with what is in them."""
        last = 0
        while rows := self._ask(_rows, _CONVERSATIONS, last, _AT_ONCE):
            for number, tenant, changed_at, *conversation in rows:
                items = [item_of(*row) for row in self._ask(_rows, _CONVERSATION_ITEMS, number)]
                yield KeptConversation(tenant, changed_at, Conversation(*conversation), tuple(items))
            last = rows[-1][0]

    # Keeping house

    def time(self, now: float) -> float:
        """The time from which ages are measured: the clock, unless it is far ahead of the store's own."""
        return min(now, self._ask(seen_time, now) + TIME_STEP)

    def stats(self) -> FileStats:
        return self._ask(_stats)

    def due(self, *, older_than: float) -> Pruned:
        """What `prune` would delete for its age."""
        return self._ask(_due, older_than)

    def prune(
        self,
        *,
        older_than: float = 0.0,
        most_bytes: int | None = None,
        progress: Callable[[Pruned], None] | None = None,
    ) -> Pruned:
        """As the store does it, in small steps, so that a gateway comes in between two of them."""
        gone = Pruned()
        self._ask(prepare_for_writing)
        for chore in chores(older_than=older_than, most_bytes=most_bytes):
            while done := self._ask(_in_transaction, chore.step):
                if chore.deletes:
                    setattr(gone, chore.deletes, getattr(gone, chore.deletes) + done)
                if chore.deletes and progress is not None:
                    progress(gone)
        # The freed pages leave the file itself only now; where a gateway reads just then, later.
        self._ask(_rows, "PRAGMA wal_checkpoint(PASSIVE)")
        return gone


def _check(connection: sqlite3.Connection) -> None:
    """Ours, and of the format that this version knows: an older one is for a gateway to migrate."""
    version = check(connection)
    if version == 0:
        raise StoreError(StoreError.NOT_A_STORE, "nothing is stored in it: give another file")
    if version < len(STEPS):
        raise StoreError(
            StoreError.OLDER_VERSION,
            f"it was written by an older Penstock (format {version}, this one needs {len(STEPS)}): "
            "start this version's `penstock serve` with it once, which migrates it",
        )


def _rows(connection: sqlite3.Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()


def _find(connection: sqlite3.Connection, id: str) -> StoredResponse | None:
    (number,) = connection.execute(_NUMBER, (id,)).fetchone()
    rows = _rows(connection, _RESPONSES, number - 1, 1) if number is not None else []
    return next((stored for stored in map(queries.response_of, rows) if stored.id == id), None)


def _stats(connection: sqlite3.Connection) -> FileStats:
    oldest, newest = _rows(connection, "SELECT min(created_at), max(created_at) FROM responses")[0]
    counts = _rows(connection, "SELECT status, count(*) FROM responses GROUP BY status ORDER BY status")
    return FileStats(total=queries.stats(connection), by_status=dict(counts), oldest=oldest, newest=newest)


_DUE = """
WITH RECURSIVE kept (number, tenant, previous_id) AS (
    SELECT number, tenant, previous_id FROM responses WHERE ended_at IS NULL OR ended_at >= :time
    UNION
    SELECT before.number, before.tenant, before.previous_id FROM kept
    JOIN responses AS before ON before.tenant = kept.tenant AND before.id = kept.previous_id
)
SELECT count(*) FROM responses WHERE number NOT IN (SELECT number FROM kept)
"""
"""What would go: neither what is young, nor what a young one continues."""


def _due(connection: sqlite3.Connection, older_than: float) -> Pruned:
    responses = connection.execute(_DUE, {"time": older_than}).fetchone()[0]
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
