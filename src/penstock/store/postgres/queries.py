"""The SQL for reading. Each function is one statement, so that it sees one state of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from penstock.store.packing import unpack_document, unpack_events, unpack_traces
from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.statements import OUTPUT
from penstock.store.postgres.text import indexable, original, original_or_none, storable
from penstock.store.records import (
    LoggedEvent,
    Page,
    Stats,
    StoredConversation,
    StoredItem,
    StoredResponse,
    StoredTurn,
    Trace,
)

T = TypeVar("T")

_UNPACK_IN_THREAD = 1024 * 1024
"""Bytes. Unpacking more than these on the event loop would delay everything else."""
_ROWS = 4
"""Rows of a log that are read at a time: a reader that stops holds no more than these."""

COLUMNS = """
number, tenant, id, created_at, status, previous_id, conversation_id, is_background, dropped, accent,
    day >= (SELECT logs_since FROM penstock.state) AS has_log, request, response, verdict
"""
"""The columns of a response that `response_of` expects."""
_RESPONSE = f"SELECT {COLUMNS} FROM penstock.responses WHERE tenant = $1 AND id = $2"
_EXISTS = "SELECT EXISTS (SELECT FROM penstock.responses WHERE tenant = $1 AND id = $2)"

# A turn has a greater number than the turn that it continues, so this ends even if the ids form a cycle. The
# turns and their items are looked up one by one, whatever the planner thinks of the size of the tables.
_CHAIN = """
WITH RECURSIVE chain (number, id, status, previous_id, depth) AS (
    SELECT number, id, status, previous_id, 0 FROM penstock.responses WHERE tenant = $1 AND id = $2
    UNION ALL
    SELECT before.number, before.id, before.status, before.previous_id, depth + 1
    FROM chain CROSS JOIN LATERAL (
        SELECT number, id, status, previous_id FROM penstock.responses
        WHERE tenant = $1 AND responses.id = chain.previous_id AND number < chain.number LIMIT 1
    ) AS before
)
"""
_LINKED_ITEMS = f"""{_CHAIN}
SELECT chain.number, chain.id, status, previous_id, position, items.id, data
FROM chain LEFT JOIN LATERAL (
    SELECT position, id, data FROM penstock.items WHERE items.response = chain.number OFFSET 0
) AS items ON true
ORDER BY depth DESC, position
"""
_HISTORY = f"""{_CHAIN}
SELECT number, position, items.id FROM chain CROSS JOIN LATERAL (
    SELECT position, id FROM penstock.items WHERE items.response = chain.number OFFSET 0
) AS items
WHERE depth > 0 OR position < {OUTPUT} OR $3 ORDER BY depth DESC, position
"""
_ITEMS = """
SELECT response, position, id, data FROM penstock.items
JOIN unnest($1::bigint[], $2::integer[]) AS given (response, position) USING (response, position)
"""
_EVENTS = """
SELECT data FROM penstock.responses JOIN penstock.segments
ON segments.response = responses.number AND segments.day = responses.day
WHERE responses.tenant = $1 AND id = $2 AND NOT is_trace AND last > $3 ORDER BY last LIMIT $4
"""
_TRACES = """
SELECT data FROM penstock.responses JOIN penstock.segments
ON segments.response = responses.number AND segments.day = responses.day
WHERE responses.tenant = $1 AND id = $2 AND is_trace ORDER BY last
"""
# Output takes precedence over a client's copy of it: some clients omit fields that they do not use.
_ITEMS_BY_ID = f"""
SELECT given.id, found.data, found.is_output FROM unnest($2::text[]) AS given (id)
CROSS JOIN LATERAL (
    SELECT data, position >= {OUTPUT} AS is_output FROM penstock.items
    WHERE tenant = $1 AND left(items.id, 200) = left(given.id, 200) AND items.id = given.id
    ORDER BY (position >= {OUTPUT}) DESC, response DESC, position DESC LIMIT 1
) AS found
"""
_CONVERSATION_ITEMS_BY_ID = """
SELECT given.id, found.data, false FROM unnest($2::text[]) AS given (id)
CROSS JOIN LATERAL (
    SELECT data FROM penstock.conversation_items AS items
    WHERE tenant = $1 AND left(items.id, 200) = left(given.id, 200) AND items.id = given.id
    ORDER BY number DESC LIMIT 1
) AS found
"""
_MEMORIES = "SELECT key, data FROM penstock.memories WHERE tenant = $1 AND key = ANY($2::text[])"
_CONVERSATION = """
SELECT number, created_at, metadata FROM penstock.conversations WHERE tenant = $1 AND id = $2
"""

_STATS = """
SELECT (SELECT count(*) FROM penstock.responses),
    (SELECT count(*) FROM penstock.items) + (SELECT count(*) FROM penstock.conversation_items),
    (SELECT coalesce(sum(count), 0)::bigint FROM penstock.segments WHERE NOT is_trace),
    (SELECT count(*) FROM penstock.conversations)
"""
USED_BYTES = """
SELECT ((SELECT coalesce(sum(size), 0) FROM penstock.responses WHERE ended_at IS NOT NULL)
    + (SELECT coalesce(sum(size), 0) FROM penstock.conversations))::bigint
"""


async def response(connection: DatabaseConnection, tenant: str, id: str) -> StoredResponse | None:
    row = await connection.fetchrow(_RESPONSE, storable(tenant), storable(id))
    return await unpacked([row["response"]], lambda: response_of(row)) if row is not None else None


async def unpacked(blobs: Iterable[bytes | None], unpack: Callable[[], T]) -> T:
    """Return the result of a function that unpacks these blobs."""
    if sum(len(blob) for blob in blobs if blob is not None) > _UNPACK_IN_THREAD:
        return await asyncio.to_thread(unpack)
    return unpack()


def response_of(row: Any) -> StoredResponse:
    """Return a response from a row of `COLUMNS`, as it is in the database."""
    return StoredResponse(
        id=original(row["id"]),
        tenant=original(row["tenant"]),
        created_at=row["created_at"],
        status=original(row["status"]),
        previous_id=original_or_none(row["previous_id"]),
        conversation_id=original_or_none(row["conversation_id"]),
        is_background=row["is_background"],
        request=row["request"],
        response=unpack_document(row["response"]),
        verdict=row["verdict"],
        dropped=row["dropped"],
        accent=original(row["accent"]),
        has_log=row["has_log"],
    )


async def exists(connection: DatabaseConnection, tenant: str, id: str) -> bool:
    return bool(await connection.fetchval(_EXISTS, storable(tenant), storable(id)))


async def events(connection: DatabaseConnection, tenant: str, id: str, after: int) -> list[LoggedEvent]:
    """Return some of the events after a sequence number, or nothing at the end of the log."""
    rows = await connection.fetch(_EVENTS, storable(tenant), storable(id), after, _ROWS)
    blobs = [blob for (blob,) in rows]

    def unpack() -> list[LoggedEvent]:
        return [event for blob in blobs for event in unpack_events(blob) if event.sequence > after]

    return await unpacked(blobs, unpack)


async def traces(connection: DatabaseConnection, tenant: str, id: str) -> list[Trace]:
    rows = await connection.fetch(_TRACES, storable(tenant), storable(id))
    return [trace for (blob,) in rows for trace in unpack_traces(blob)]


async def chain(connection: DatabaseConnection, tenant: str, id: str) -> list[StoredTurn] | None:
    """Return the turns that lead to a response; None if it or an earlier one does not exist."""
    rows = await connection.fetch(_LINKED_ITEMS, storable(tenant), storable(id))
    if not rows or rows[0][3] is not None:
        return None
    return await unpacked((row[-1] for row in rows), lambda: _turns_of(rows))


def _turns_of(rows: Iterable[Any]) -> list[StoredTurn]:
    turns: dict[int, tuple[str, str, list[StoredItem], list[StoredItem]]] = {}
    for number, link_id, status, _, position, item_id, data in rows:
        _, _, input, output = turns.setdefault(number, (original(link_id), original(status), [], []))
        if position is not None:
            (input if position < OUTPUT else output).append(item_of(item_id, data))
    return [
        StoredTurn(id, status, tuple(input), tuple(output)) for id, status, input, output in turns.values()
    ]


async def history(
    connection: DatabaseConnection, tenant: str, id: str, is_before: bool
) -> list[tuple[int, str]]:
    """Return the numbers and ids of all input items of a response and its chain; with `is_before` also its
    own output, as the history of a later turn."""
    rows = await connection.fetch(_HISTORY, storable(tenant), storable(id), is_before)
    return [(number << _POSITION_BITS | position, original(id)) for number, position, id in rows]


_POSITION_BITS = 24
"""The number of an item is that of its response, and its position in these bits."""


async def items(connection: DatabaseConnection, numbers: Sequence[int]) -> dict[int, StoredItem]:
    responses = [number >> _POSITION_BITS for number in numbers]
    positions = [number & ((1 << _POSITION_BITS) - 1) for number in numbers]
    rows = await connection.fetch(_ITEMS, responses, positions)

    def unpack() -> dict[int, StoredItem]:
        return {
            response << _POSITION_BITS | position: item_of(id, data) for response, position, id, data in rows
        }

    return await unpacked((row[-1] for row in rows), unpack)


async def items_of(
    connection: DatabaseConnection, tenant: str, ids: Sequence[str]
) -> dict[str, tuple[StoredItem, bool]]:
    """Return items by id, and for each whether it is the output of a model."""
    found: dict[str, tuple[StoredItem, bool]] = {}
    for query in (_ITEMS_BY_ID, _CONVERSATION_ITEMS_BY_ID):
        missing = list({storable(id) for id in ids if id not in found})
        if missing:
            rows = await connection.fetch(query, storable(tenant), missing)
            found |= await unpacked((row[1] for row in rows), partial(_found_items, rows))
    return found


def _found_items(rows: Iterable[Any]) -> dict[str, tuple[StoredItem, bool]]:
    return {original(id): (item_of(id, data), is_output) for id, data, is_output in rows}


async def recall(connection: DatabaseConnection, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
    wanted = {indexable(key): key for key in keys}
    rows = await connection.fetch(_MEMORIES, storable(tenant), [*wanted])
    return {wanted[key]: data for key, data in rows}


async def conversation(connection: DatabaseConnection, tenant: str, id: str) -> StoredConversation | None:
    row = await connection.fetchrow(_CONVERSATION, storable(tenant), storable(id))
    return StoredConversation(id, row["created_at"], row["metadata"]) if row is not None else None


async def conversation_items(
    connection: DatabaseConnection, tenant: str, id: str, after: str | None, limit: int, newest_first: bool
) -> Page | None:
    """Return a page. If a conversation contains the id `after` more than once, its last occurrence in
    reading order counts (`records.page_of`)."""
    row = await connection.fetchrow(_CONVERSATION, storable(tenant), storable(id))
    if row is None:
        return None
    order, comparison, last = ("DESC", "<", "min") if newest_first else ("ASC", ">", "max")
    values: list[object] = [row["number"], storable(tenant)]
    condition = ""
    if after is not None:
        query = f"""
        SELECT {last}(number) FROM penstock.conversation_items
        WHERE conversation = $1 AND tenant = $2 AND left(id, 200) = left($3, 200) AND id = $3
        """
        number = await connection.fetchval(query, *values, storable(after))
        if number is None:
            return Page((), False)
        values.append(number)
        condition = f"AND number {comparison} $3"
    limit = max(limit, 0)
    query = f"""
    SELECT id, data FROM penstock.conversation_items WHERE conversation = $1 AND tenant = $2 {condition}
    ORDER BY number {order} LIMIT ${len(values) + 1}
    """
    rows = await connection.fetch(query, *values, limit + 1)

    def unpack() -> Page:
        return Page(tuple(item_of(*row) for row in rows[:limit]), len(rows) > limit)

    return await unpacked((row[-1] for row in rows), unpack)


async def stats(connection: DatabaseConnection) -> Stats:
    responses, items, events, conversations = await connection.fetchrow(_STATS)
    used = await connection.fetchval(USED_BYTES)
    return Stats(responses=responses, items=items, events=events, conversations=conversations, bytes=used)


def item_of(id: str, blob: bytes) -> StoredItem:
    return StoredItem(original(id), unpack_document(blob))
