"""Pruning: deletes what is too old, or exceeds the size limit, from the file."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator

from msgspec import Struct

from penstock.store.contract import next_store_time
from penstock.store.sqlite import ledger, queries, statements
from penstock.store.sqlite.writer import SqliteWriter

_BATCH = 200
"""Rows deleted in one transaction: a turn that ends in between does not wait for all of them."""
_PAGE_BATCH = 500


class PruningStep(Struct, frozen=True):
    """A function to run in transactions of its own until it returns 0."""

    run: Callable[[sqlite3.Connection], int]
    deletes: str = ""
    """What it deletes and counts: `responses` or `conversations`."""


# The time from which ages are measured


def store_time(connection: sqlite3.Connection, now: float) -> float:
    """Return the store's own time. A file without one starts with the time of its newest row, or the clock if
    that is earlier."""
    row = connection.execute("SELECT seconds FROM store_time").fetchone()
    if row is not None:
        return float(row[0])
    newest = connection.execute(_NEWEST).fetchone()[0]
    return now if newest is None else min(now, newest)


_NEWEST = """
SELECT max(time) FROM (
    SELECT max(ended_at) AS time FROM responses UNION ALL SELECT max(changed_at) FROM conversations
)
"""


def set_initial_time(connection: sqlite3.Connection, now: float) -> None:
    """Set the store's own time, if the file has none."""
    if connection.execute("SELECT 1 FROM store_time").fetchone() is None:
        connection.execute("INSERT INTO store_time VALUES (?)", (store_time(connection, now),))


# A key of no tenant and no worker: nobody advances the time before it expires. If the clock was set back, it
# would expire too late, and does not count.
_TAKE_TURN = """
INSERT INTO held_keys (tenant, key, worker, data, until) VALUES ('', 'retention', '', x'', :now + :every)
ON CONFLICT (tenant, key) DO UPDATE SET until = excluded.until
WHERE until <= :now OR until > excluded.until + 60
"""


def advance_time(connection: sqlite3.Connection, now: float, every: float = 0.0) -> float | None:
    """Advance the store's own time, unless another worker has done so less than `every` seconds ago."""
    if every and connection.execute(_TAKE_TURN, {"now": now, "every": every}).rowcount == 0:
        return None
    advanced = next_store_time(store_time(connection, now), now)
    connection.execute("UPDATE store_time SET seconds = ?", (advanced,))
    return min(now, advanced)


# Deleting


def pruning_steps(*, older_than: float, most_bytes: int | None) -> Iterator[PruningStep]:
    """Yield the steps: delete what is too old, then the oldest until the rest fits, then shrink the file."""
    yield PruningStep(lambda file: statements.delete_ended(file, older_than, _BATCH), "responses")
    yield PruningStep(
        lambda file: statements.delete_unused_conversations(file, older_than, _BATCH), "conversations"
    )
    if most_bytes is not None:
        yield PruningStep(lambda file: _shrink(file, most_bytes), "responses")
        yield PruningStep(lambda file: _shrink_conversations(file, most_bytes), "conversations")
    yield PruningStep(lambda file: statements.release_pages(file, _PAGE_BATCH))


async def prune(writer: SqliteWriter, *, older_than: float, most_bytes: int | None) -> int:
    """Delete what is too old or too much; return the number of deleted responses."""
    count = 0
    for step in pruning_steps(older_than=older_than, most_bytes=most_bytes):
        while done := await writer.do(step.run):
            count += done if step.deletes == "responses" else 0
    return count


def _shrink(connection: sqlite3.Connection, most_bytes: int) -> int:
    return statements.delete_ended(connection, math.inf, _batch_size(connection, most_bytes))


def _shrink_conversations(connection: sqlite3.Connection, most_bytes: int) -> int:
    return statements.delete_unused_conversations(connection, math.inf, _batch_size(connection, most_bytes))


def _batch_size(connection: sqlite3.Connection, most_bytes: int) -> int:
    """Return how many rows to delete next: fewer than estimated, because their sizes differ and no more may
    be deleted than necessary."""
    used = queries.used_bytes(connection) - ledger.approximate_bytes(connection)  # it has its own retention
    if used <= most_bytes:
        return 0
    count = connection.execute(
        "SELECT (SELECT count(*) FROM responses) + (SELECT count(*) FROM conversations)"
    )
    excess = (used - most_bytes) / used
    return max(1, min(_BATCH, int(count.fetchone()[0] * excess / 2)))
