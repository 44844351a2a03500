"""The SQL for reading. All of it runs in a reader's thread, and never waits for the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.store.packing import item_of, unpack_document, unpack_events, unpack_traces
from penstock.store.records import (
    LoggedEvent,
    Page,
    Stats,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoredTurn,
    Trace,
    page_of,
)
from penstock.store.sqlite.recent import recent_events

_KEYS_AT_ONCE = 100
"""Keys that one query looks up: each query releases the interpreter lock and takes it again, and with
thousands of them the event loop would get it too rarely."""
_ROWS = 4
"""Rows of a log that are read at a time: a reader that stops holds no more than these."""

COLUMNS = """
number, id, tenant, created_at, status, previous_id, conversation_id, is_background, dropped,
    accent, request, response, verdict
"""
"""The columns of a response that `response_of` expects."""
_RESPONSE = f"SELECT {COLUMNS} FROM responses WHERE tenant = ? AND id = ?"

# A turn has a greater number than the turn that it continues, so this ends even if the ids form a cycle.
_CHAIN = """
WITH RECURSIVE chain (number, id, status, previous_id, depth) AS (
    SELECT number, id, status, previous_id, 0 FROM responses WHERE tenant = :tenant AND id = :id
    UNION ALL
    SELECT before.number, before.id, before.status, before.previous_id, depth + 1
    FROM chain JOIN responses AS before
    ON before.tenant = :tenant AND before.id = chain.previous_id AND before.number < chain.number
)
"""
_LINKS = _CHAIN + "SELECT number, id, status, previous_id FROM chain ORDER BY depth DESC"
_LINKED_ITEMS = (
    _CHAIN
    + """
SELECT chain.number, is_output, items.id, data FROM chain CROSS JOIN items ON items.response = chain.number
ORDER BY depth DESC, is_output, items.number
"""
)
_HISTORY = (
    _CHAIN
    + """
SELECT items.number, items.id FROM chain CROSS JOIN items ON items.response = chain.number
WHERE depth > 0 OR is_output = 0 OR :is_before ORDER BY depth DESC, is_output, items.number
"""
)

_EVENTS = """
SELECT events.data FROM responses JOIN events ON events.response = responses.number
WHERE tenant = ? AND id = ? AND last > ? ORDER BY last LIMIT ?
"""
_TRACES = """
SELECT traces.data FROM responses JOIN traces ON traces.response = responses.number
WHERE tenant = ? AND id = ? ORDER BY traces.number
"""
_ITEM = """
SELECT id, data, is_output FROM items WHERE tenant = ? AND id = ? ORDER BY is_output DESC, number DESC LIMIT 1
"""
"""Output takes precedence over a client's copy of it: some clients omit fields that they do not use."""
_CONVERSATION_ITEM = (
    "SELECT id, data, 0 FROM conversation_items WHERE tenant = ? AND id = ? ORDER BY number DESC LIMIT 1"
)
_CONVERSATION = "SELECT number, id, created_at, metadata FROM conversations WHERE tenant = ? AND id = ?"


def response(connection: sqlite3.Connection, tenant: str, id: str) -> StoredResponse | None:
    """Return a response as it is in the file."""
    row = connection.execute(_RESPONSE, (tenant, id)).fetchone()
    return response_of(row) if row is not None else None


def response_of(row: tuple[Any, ...]) -> StoredResponse:
    """Return a response from a row of `COLUMNS`, as it is in the file."""
    _, id, tenant, created_at, status, previous_id, conversation_id, is_background, dropped, *rest = row
    accent, request, body, verdict = rest
    return StoredResponse(
        id=id,
        tenant=tenant,
        created_at=created_at,
        status=status,
        previous_id=previous_id,
        conversation_id=conversation_id,
        is_background=bool(is_background),
        request=request,
        response=unpack_document(body),
        verdict=verdict,
        dropped=dropped,
        accent=accent,
    )


def all_events(connection: sqlite3.Connection, number: int) -> Iterator[LoggedEvent]:
    """Yield the log of the response with this number, without its recent events."""
    query = "SELECT data FROM events WHERE response = ? ORDER BY last"
    for (blob,) in connection.execute(query, (number,)):
        yield from unpack_events(blob)


def events(connection: sqlite3.Connection, tenant: str, id: str, after: int) -> list[LoggedEvent]:
    """Return some of the events after a sequence number, or nothing at the end of the log."""
    connection.execute("BEGIN")  # Events may move from one table to the other between two queries.
    try:
        rows = connection.execute(_EVENTS, (tenant, id, after, _ROWS)).fetchall()
        found = [event for (blob,) in rows for event in unpack_events(blob) if event.sequence > after]
        if len(rows) < _ROWS:
            found += recent_events(connection, tenant, id, found[-1].sequence if found else after)
        return found
    finally:
        if connection.in_transaction:  # an error of the disk may have ended it
            connection.execute("COMMIT")


def traces(connection: sqlite3.Connection, tenant: str, id: str) -> list[Trace]:
    rows = connection.execute(_TRACES, (tenant, id))
    return [trace for (blob,) in rows for trace in unpack_traces(blob)]


def chain(connection: sqlite3.Connection, tenant: str, id: str) -> list[StoredTurn] | None:
    """Return the turns that lead to a response; None if it or an earlier one does not exist."""
    parameters = {"tenant": tenant, "id": id}
    connection.execute("BEGIN")  # Both queries see the same state of the file.
    try:
        links = connection.execute(_LINKS, parameters).fetchall()
        if not links or links[0][3] is not None:
            return None
        items: dict[int, tuple[list[StoredItem], list[StoredItem]]] = {link[0]: ([], []) for link in links}
        for number, is_output, item_id, data in connection.execute(_LINKED_ITEMS, parameters):
            items[number][is_output].append(item_of(item_id, data))
    finally:
        connection.execute("COMMIT")
    return [
        StoredTurn(link_id, status, tuple(items[number][0]), tuple(items[number][1]))
        for number, link_id, status, _ in links
    ]


def exists(connection: sqlite3.Connection, tenant: str, id: str) -> bool:
    query = "SELECT 1 FROM responses WHERE tenant = ? AND id = ?"
    return connection.execute(query, (tenant, id)).fetchone() is not None


def history(connection: sqlite3.Connection, tenant: str, id: str, is_before: bool) -> list[tuple[int, str]]:
    """Return the numbers and ids of all input items of a response and its chain; with `is_before` also its
    own output, as the history of a later turn."""
    parameters = {"tenant": tenant, "id": id, "is_before": is_before}
    return connection.execute(_HISTORY, parameters).fetchall()


def items(connection: sqlite3.Connection, numbers: list[int]) -> dict[int, StoredItem]:
    found: dict[int, StoredItem] = {}
    for number in numbers:
        row = connection.execute("SELECT id, data FROM items WHERE number = ?", (number,)).fetchone()
        if row is not None:
            found[number] = item_of(*row)
    return found


def items_of(
    connection: sqlite3.Connection, tenant: str, ids: Sequence[str]
) -> dict[str, tuple[StoredItem, bool]]:
    """Return items by id, and for each whether it is the output of a model."""
    found = {}
    for id in ids:
        for query in (_ITEM, _CONVERSATION_ITEM):
            row = connection.execute(query, (tenant, id)).fetchone()
            if row is not None:
                found[id] = item_of(row[0], row[1]), bool(row[2])
                break
    return found


def reasoning_memory(connection: sqlite3.Connection, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for begin in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[begin : begin + _KEYS_AT_ONCE]
        places = ", ".join("?" * len(some))
        query = f"SELECT key, data FROM memories WHERE tenant = ? AND key IN ({places})"
        found.update(connection.execute(query, (tenant, *some)))
    return found


def conversation(connection: sqlite3.Connection, tenant: str, id: str) -> StoredConversation | None:
    row = connection.execute(_CONVERSATION, (tenant, id)).fetchone()
    return StoredConversation(*row[1:]) if row else None


def conversation_items(
    connection: sqlite3.Connection, tenant: str, id: str, after: str | None, limit: int, newest_first: bool
) -> Page | None:
    row = connection.execute(_CONVERSATION, (tenant, id)).fetchone()
    if row is None:
        return None
    query = "SELECT number, id FROM conversation_items WHERE conversation = ? ORDER BY number"
    entries = connection.execute(query, (row[0],)).fetchall()
    page, has_more = page_of(entries, _second, after=after, limit=limit, newest_first=newest_first)
    data = "SELECT id, data FROM conversation_items WHERE number = ?"
    rows = (connection.execute(data, (number,)).fetchone() for number, _ in page)
    return Page(tuple(item_of(*row) for row in rows if row), has_more)


def _second(row: tuple[int, str]) -> str:
    return row[1]


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file that are in use. Free pages are reused before the file grows."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def stats(connection: sqlite3.Connection) -> Stats:
    def count(expression: str) -> int:
        return int(connection.execute(f"SELECT {expression}").fetchone()[0])

    return Stats(
        responses=count("count(*) FROM responses"),
        items=count("count(*) FROM items") + count("count(*) FROM conversation_items"),
        events=count("coalesce(sum(count), 0) FROM events"),
        conversations=count("count(*) FROM conversations"),
        bytes=used_bytes(connection),
    )
