"""The SQL for threads. See `store.threads` for how they are found."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from penstock.store.packing import unpack_document
from penstock.store.threads import (
    BATCH,
    OPENING_BYTES,
    OPENING_ITEMS,
    ChainScan,
    ListedThread,
    StoredThread,
    ThreadPage,
    ThreadTurn,
    newest,
)

_NEWEST = """
SELECT created_at, id FROM responses INDEXED BY responses_continuing
WHERE tenant = ? AND previous_id IS NOT NULL AND (created_at, id) < (?, ?)
ORDER BY created_at DESC, id DESC LIMIT ?
"""
_CONVERSATIONS = """
SELECT changed_at, id FROM conversations WHERE tenant = ? AND (changed_at, id) < (?, ?)
ORDER BY changed_at DESC, id DESC LIMIT ?
"""
# A turn has a greater number than the turn that it continues, so this ends even if the ids form a cycle.
_CHAINS = """
WITH RECURSIVE given (id) AS (VALUES %s),
up (number, id, previous_id) AS (
    SELECT number, responses.id, previous_id
    FROM given CROSS JOIN responses ON tenant = ?1 AND responses.id = given.id
    UNION
    SELECT before.number, before.id, before.previous_id FROM up CROSS JOIN responses AS before
    ON before.tenant = ?1 AND before.id = up.previous_id AND before.number < up.number
),
chains (first, number, id, created_at, previous_id) AS (
    SELECT id, number, id, (SELECT created_at FROM responses WHERE number = up.number), previous_id FROM up
    WHERE NOT EXISTS (
        SELECT 1 FROM responses AS before
        WHERE before.tenant = ?1 AND before.id = up.previous_id AND before.number < up.number
    )
    UNION ALL
    SELECT first, next.number, next.id, next.created_at, next.previous_id
    FROM chains CROSS JOIN responses AS next
    ON next.tenant = ?1 AND next.previous_id = chains.id AND next.number > chains.number
)
SELECT first, id, created_at, previous_id IS NOT NULL, number FROM chains
"""
_CONTINUATIONS = "SELECT id FROM responses WHERE tenant = ? AND previous_id = ? ORDER BY number"
_IN_CONVERSATION = (
    "FROM responses INDEXED BY responses_by_conversation WHERE tenant = ? AND conversation_id = ?"
)
_MODEL = "SELECT model FROM turns WHERE id = ? AND tenant = ?"
_OPENING = f"""
SELECT data FROM items WHERE is_output = 0 AND length(data) <= {OPENING_BYTES} AND response = (
    SELECT number FROM responses WHERE tenant = ? AND id = ?
) ORDER BY number LIMIT {OPENING_ITEMS}
"""
_CONVERSATION_OPENING = f"""
SELECT data FROM conversation_items WHERE length(data) <= {OPENING_BYTES} AND conversation = (
    SELECT number FROM conversations WHERE tenant = ? AND id = ?
) ORDER BY number LIMIT {OPENING_ITEMS}
"""
_TURNS = """
SELECT number, id, previous_id, created_at, status, ifnull((
    SELECT model FROM turns WHERE turns.id = responses.id AND turns.tenant = responses.tenant
), '') FROM responses WHERE number IN (%s) ORDER BY number
"""
_ITEMS = "SELECT response, is_output, data FROM items WHERE response IN (%s) ORDER BY response, number"
_AT_ONCE = 500
"""Turns that one query looks up."""


def continuations(connection: sqlite3.Connection, tenant: str, id: str) -> list[str]:
    return [found for (found,) in connection.execute(_CONTINUATIONS, (tenant, id))]


def threads(connection: sqlite3.Connection, tenant: str, after: str, limit: int) -> ThreadPage:
    scan = ChainScan(after, limit)
    connection.execute("BEGIN")  # All queries see the same state of the file.
    try:
        while not scan.is_done:
            for some in scan.unknown(connection.execute(_NEWEST, (tenant, *scan.begin, BATCH))):
                scan.add(row[:4] for row in _chains(connection, tenant, some))
        talks = connection.execute(_CONVERSATIONS, (tenant, *scan.after, scan.limit + 1)).fetchall()
        page, cursor = scan.page(talks)
        return ThreadPage(tuple(_details(connection, tenant, each) for each in page), cursor)
    finally:
        connection.execute("COMMIT")


def _chains(connection: sqlite3.Connection, tenant: str, ids: Sequence[str]) -> list[tuple[Any, ...]]:
    places = ", ".join(f"(?{place})" for place in range(2, len(ids) + 2))
    return connection.execute(_CHAINS % places, (tenant, *ids)).fetchall()


def _details(connection: sqlite3.Connection, tenant: str, thread: ListedThread) -> StoredThread:
    key = (tenant, thread.id)
    last_id, turns, opening = thread.last_id, thread.turns, _OPENING
    if thread.kind == "conversation":
        opening = _CONVERSATION_OPENING
        turns = connection.execute(f"SELECT count(*) {_IN_CONVERSATION}", key).fetchone()[0]
        last = f"SELECT id {_IN_CONVERSATION} ORDER BY number DESC LIMIT 1"
        last_id = (connection.execute(last, key).fetchone() or ("",))[0]
    model = connection.execute(_MODEL, (last_id, tenant)).fetchone() or ("",)
    return StoredThread(
        kind=thread.kind,
        id=thread.id,
        changed_at=thread.position[0],
        turns=turns,
        last_id=last_id,
        model=model[0],
        opening=tuple(unpack_document(data) for (data,) in connection.execute(opening, key)),
    )


def conversation_turns(connection: sqlite3.Connection, tenant: str, id: str, limit: int) -> list[ThreadTurn]:
    query = f"SELECT number {_IN_CONVERSATION} ORDER BY number DESC LIMIT ?"
    rows = connection.execute(query, (tenant, id, max(limit, 1)))
    return _turns(connection, sorted(number for (number,) in rows))


def chain_turns(connection: sqlite3.Connection, tenant: str, id: str, limit: int) -> list[ThreadTurn]:
    rows = _chains(connection, tenant, [id])
    return _turns(connection, newest((row[4] for row in rows), limit))


def _turns(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[ThreadTurn]:
    """Return the turns with these numbers. A turn may be deleted in the meantime."""
    found: list[ThreadTurn] = []
    for begin in range(0, len(numbers), _AT_ONCE):
        some = numbers[begin : begin + _AT_ONCE]
        places = ", ".join("?" * len(some))
        items: dict[int, tuple[list[bytes], list[bytes]]] = {number: ([], []) for number in some}
        for number, is_output, data in connection.execute(_ITEMS % places, some):
            items[number][is_output].append(unpack_document(data))
        for number, id, previous_id, created_at, status, model in connection.execute(_TURNS % places, some):
            input, output = map(tuple, items[number])
            found.append(
                ThreadTurn(
                    id=id,
                    previous_id=previous_id,
                    created_at=created_at,
                    status=status,
                    model=model,
                    input=input,
                    output=output,
                )
            )
    return found
