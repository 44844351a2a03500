"""Pruning: what is deleted from the file because it is old, or because there is too much."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator

from msgspec import Struct

from penstock.store.contract import next_store_time
from penstock.store.sqlite import queries, statements
from penstock.store.sqlite.writer import Writer

_AT_ONCE = 200
"""So many go in one transaction: those who end a turn meanwhile do not wait for the whole of it."""
_PAGES_AT_ONCE = 500


class PruningStep(Struct, frozen=True):
    """Something to do in a transaction, again and again until it says 0."""

    run: Callable[[sqlite3.Connection], int]
    deletes: str = ""
    """What it counts: `responses` or `conversations`."""


# The time from which ages are measured


def store_time(connection: sqlite3.Connection, now: float) -> float:
    """The store's own time. A file without one begins with that of its newest row, or with the clock if that
    is earlier."""
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
    """Give a file its own time, if it has none."""
    if connection.execute("SELECT 1 FROM store_time").fetchone() is None:
        connection.execute("INSERT INTO store_time VALUES (?)", (store_time(connection, now),))


def advance_time(connection: sqlite3.Connection, now: float) -> float:
    reached = next_store_time(store_time(connection, now), now)
    connection.execute("UPDATE store_time SET seconds = ?", (reached,))
    return min(now, reached)


# What goes


def pruning_steps(*, older_than: float, most_bytes: int | None) -> Iterator[PruningStep]:
    """Old ones first, then as many of the oldest as it takes; the file shrinks by what they had."""
    yield PruningStep(lambda file: statements.delete_ended(file, older_than, _AT_ONCE), "responses")
    yield PruningStep(
        lambda file: statements.delete_unused_conversations(file, older_than, _AT_ONCE), "conversations"
    )
    if most_bytes is not None:
        yield PruningStep(lambda file: _shrink(file, most_bytes), "responses")
        yield PruningStep(lambda file: _shrink_conversations(file, most_bytes), "conversations")
    yield PruningStep(lambda file: statements.give_back_pages(file, _PAGES_AT_ONCE))


async def prune(writer: Writer, *, older_than: float, most_bytes: int | None) -> int:
    """How many responses went."""
    count = 0
    for step in pruning_steps(older_than=older_than, most_bytes=most_bytes):
        while done := await writer.do(step.run):
            count += done if step.deletes == "responses" else 0
    return count


def _shrink(connection: sqlite3.Connection, most_bytes: int) -> int:
    return statements.delete_ended(connection, math.inf, _how_many(connection, most_bytes))


def _shrink_conversations(connection: sqlite3.Connection, most_bytes: int) -> int:
    return statements.delete_unused_conversations(connection, math.inf, _how_many(connection, most_bytes))


def _how_many(connection: sqlite3.Connection, most_bytes: int) -> int:
    """A part of what should go, so that no more goes than must: they are not all of a size."""
    used = queries.used_bytes(connection)
    if used <= most_bytes:
        return 0
    count = connection.execute(
        "SELECT (SELECT count(*) FROM responses) + (SELECT count(*) FROM conversations)"
    )
    excess = (used - most_bytes) / used
    return max(1, min(_AT_ONCE, int(count.fetchone()[0] * excess / 2)))
