"""The SQL that changes what does not belong to a running turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.store.packing import pack_document
from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.text import indexable, storable
from penstock.store.records import StoredConversation, StoredItem

# Deleting and remembering

DELETE_WITH_RESPONSES = """
, items_gone AS (
    DELETE FROM penstock.items USING gone WHERE items.response = gone.number
), segments_gone AS (
    DELETE FROM penstock.segments USING gone
    WHERE segments.day = gone.day AND segments.response = gone.number
)
"""
"""Deletes what belongs to the responses of `gone`. It cannot grow any more: they have ended. What is
remembered goes with them by itself, because it may still grow."""

_DELETE = f"""
WITH gone AS (
    DELETE FROM penstock.responses WHERE tenant = $1 AND id = $2
    AND NOT EXISTS (SELECT FROM penstock.running WHERE running.tenant = $1 AND running.id = $2)
    RETURNING number, day
){DELETE_WITH_RESPONSES}
SELECT count(*) FROM gone
"""
_DISCARD = f"""
WITH ended AS (
    DELETE FROM penstock.running WHERE tenant = $1 AND id = $2 AND token = $3 RETURNING response
), gone AS (
    DELETE FROM penstock.responses USING ended WHERE number = ended.response AND tenant = $1
    RETURNING number, day
){DELETE_WITH_RESPONSES}
SELECT count(*) FROM gone
"""
_REMEMBER = """
INSERT INTO penstock.memories (tenant, key, response, data)
SELECT tenant, $3, number, $4 FROM penstock.responses WHERE tenant = $1 AND id = $2
ON CONFLICT (tenant, key) DO UPDATE SET response = excluded.response, data = excluded.data
"""


async def delete_response(connection: DatabaseConnection, tenant: str, id: str) -> bool:
    """Delete a response, unless a worker runs its turn."""
    return bool(await connection.fetchval(_DELETE, storable(tenant), storable(id)))


async def discard_response(connection: DatabaseConnection, tenant: str, id: str, token: str) -> None:
    """Delete a running turn, unless another worker has taken it over."""
    await connection.fetchval(_DISCARD, storable(tenant), storable(id), token)


async def remember(connection: DatabaseConnection, tenant: str, id: str, key: str, data: bytes) -> None:
    await connection.execute(_REMEMBER, storable(tenant), storable(id), indexable(key), data)


# Conversations

_ADD_TO_CONVERSATIONS = """
WITH changed AS (
    UPDATE penstock.conversations
    SET changed_at = greatest(changed_at, given.now), size = conversations.size + given.size
    FROM unnest($5::bigint[], $6::double precision[], $7::bigint[]) AS given (number, now, size)
    WHERE conversations.number = given.number
)
INSERT INTO penstock.conversation_items (conversation, tenant, id, data)
SELECT conversation, tenant, id, data
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY
    AS given (conversation, tenant, id, data, place)
ORDER BY place
"""

_CREATE_CONVERSATION = """
INSERT INTO penstock.conversations (tenant, id, created_at, changed_at, metadata, size)
VALUES ($1, $2, $3, $4, $5, 200 + octet_length($5::bytea))
"""
_UPDATE_CONVERSATION = """
UPDATE penstock.conversations
SET metadata = $3, changed_at = $4, size = size - octet_length(metadata) + octet_length($3::bytea)
WHERE tenant = $1 AND id = $2
"""
_LOCK_CONVERSATION = "SELECT number FROM penstock.conversations WHERE tenant = $1 AND id = $2 FOR UPDATE"
_DELETE_ITEM = """
WITH gone AS (
    DELETE FROM penstock.conversation_items
    WHERE conversation = $1 AND tenant = $2 AND left(id, 200) = left($3, 200) AND id = $3
    RETURNING octet_length(data) + 100 AS size
)
UPDATE penstock.conversations SET size = size - (SELECT sum(size) FROM gone)
WHERE number = $1 AND tenant = $2 AND EXISTS (SELECT FROM gone)
"""


async def create_conversation(
    connection: DatabaseConnection, tenant: str, conversation: StoredConversation, now: float
) -> None:
    created_at, metadata = conversation.created_at, conversation.metadata
    values = (storable(tenant), storable(conversation.id), created_at, now, metadata)
    await connection.execute(_CREATE_CONVERSATION, *values)


async def update_conversation(
    connection: DatabaseConnection, tenant: str, id: str, metadata: bytes, now: float
) -> bool:
    done = await connection.execute(_UPDATE_CONVERSATION, storable(tenant), storable(id), metadata, now)
    return count_of(done) > 0


async def delete_conversation(connection: DatabaseConnection, tenant: str, id: str) -> bool:
    query = "DELETE FROM penstock.conversations WHERE tenant = $1 AND id = $2"
    return count_of(await connection.execute(query, storable(tenant), storable(id))) > 0


async def add_items(
    connection: DatabaseConnection, tenant: str, id: str, items: Sequence[StoredItem], now: float
) -> bool:
    number = await connection.fetchval(_LOCK_CONVERSATION, storable(tenant), storable(id))
    if number is None:
        return False
    await insert_items(connection, storable(tenant), number, items, now)
    return True


async def insert_items(
    connection: DatabaseConnection, tenant: str, number: int, items: Iterable[StoredItem], now: float
) -> None:
    """Add items to the conversation with this number."""
    rows = [(number, tenant, storable(item.id), pack_document(item.data)) for item in items]
    size = sum(len(row[3]) + 100 for row in rows)
    await connection.execute(_ADD_TO_CONVERSATIONS, *columns_of(rows, 4), [number], [now], [size])


async def delete_item(connection: DatabaseConnection, tenant: str, id: str, item_id: str) -> bool:
    number = await connection.fetchval(_LOCK_CONVERSATION, storable(tenant), storable(id))
    if number is None:
        return False
    done = await connection.execute(_DELETE_ITEM, number, storable(tenant), storable(item_id))
    return count_of(done) > 0


def count_of(done: str) -> int:
    """Return the number of rows in the answer to a statement, such as `DELETE 3`."""
    return int(done.rpartition(" ")[2])


def columns_of(rows: Iterable[Sequence[object]], count: int) -> list[list[object]]:
    """Return rows of so many columns as columns."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]
