"""The SQL for writing. All of it runs in the writer's thread, inside a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain

from penstock.errors import StoreError
from penstock.store.interrupted import end_interrupted
from penstock.store.packing import item_of, pack_document, pack_traces
from penstock.store.records import Closed, Opened, StoredConversation, StoredItem
from penstock.store.sqlite.queries import all_events
from penstock.store.sqlite.recent import append
from penstock.store.sqlite.workers import UNCLAIMED, TurnClaim, claim_new, number_claimed, release
from penstock.store.turn_buffer import UnwrittenPart

_RESPONSE = """
INSERT INTO responses
    (tenant, id, created_at, status, previous_id, conversation_id, is_background, accent, request, response)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_END = (
    "UPDATE responses SET status = ?, response = ?, verdict = ?, ended_at = ?, dropped = ? WHERE number = ?"
)
_ITEM = "INSERT INTO items (response, is_output, tenant, id, data) VALUES (?, ?, ?, ?, ?)"
_ITEMS_AT_ONCE = 100
_MANY_ITEMS = _ITEM + ", (?, ?, ?, ?, ?)" * (_ITEMS_AT_ONCE - 1)
"""Each call releases the interpreter lock and takes it again. While thousands of items are inserted one by
one, the event loop would get it too rarely."""
_REASONING_MEMORY = "INSERT OR REPLACE INTO memories (response, tenant, key, data) VALUES (?, ?, ?, ?)"
_NUMBER = "SELECT number FROM responses WHERE tenant = ? AND id = ?"
_CONVERSATION = "SELECT number FROM conversations WHERE tenant = ? AND id = ?"
_CONVERSATION_ITEM = "INSERT INTO conversation_items (conversation, tenant, id, data) VALUES (?, ?, ?, ?)"
_UNFINISHED = """
SELECT number, tenant, id, conversation_id, dropped, response FROM responses
WHERE ended_at IS NULL
"""
_NOT_STARTED = "SELECT response FROM running WHERE NOT is_started"


def write_part(connection: sqlite3.Connection, part: UnwrittenPart, worker: str = "") -> None:
    """Write the part of a turn that is not in the file yet. If several workers share the file, raise
    `TurnTakenOver` if another one holds the turn."""
    turn = part.turn
    if part.is_new:
        number: int | None = begin_turn(connection, turn, TurnClaim(worker, part.token))
    elif part.token:
        number = number_claimed(connection, part.token)
    else:
        number = _number_of(connection, turn.tenant, turn.id)
    if number is None:
        raise StoreError(StoreError.IO, "the row of a running turn was deleted from the file")
    append(connection, number, part.events)
    if part.traces:
        statement = "INSERT INTO traces (response, data) VALUES (?, ?)"
        connection.execute(statement, (number, pack_traces(part.traces)))
    _add_memory(connection, number, turn.tenant, part.reasoning_memory)
    if part.end is not None:
        _finish(connection, number, turn.tenant, part.end, part.ended_at, part.dropped)
        _add_to_conversation(connection, turn, part.end, part.ended_at)
        release(connection, number, part.token)


def begin_turn(connection: sqlite3.Connection, turn: Opened, claim: TurnClaim = UNCLAIMED) -> int:
    """Insert the row of a new turn and its input items; return the row's number."""
    values = (
        turn.tenant,
        turn.id,
        turn.created_at,
        turn.status,
        turn.previous_id,
        turn.conversation_id,
        turn.is_background,
        turn.accent,
        turn.request,
        turn.response,
    )
    number = connection.execute(_RESPONSE, values).lastrowid
    assert number is not None  # always set after an INSERT of one row
    _add_items(connection, number, turn.tenant, turn.input, is_output=False)
    claim_new(connection, number, turn, claim)
    return number


def begin_background(connection: sqlite3.Connection, turn: Opened, claim: TurnClaim = UNCLAIMED) -> None:
    """Insert everything of a new turn at once: its client gets the response when this is committed."""
    number = begin_turn(connection, turn, claim)
    _add_memory(connection, number, turn.tenant, turn.memory)


def _add_memory(
    connection: sqlite3.Connection, number: int, tenant: str, memory: Mapping[str, bytes]
) -> None:
    rows = ((number, tenant, key, data) for key, data in memory.items())
    connection.executemany(_REASONING_MEMORY, rows)


def _number_of(connection: sqlite3.Connection, tenant: str, id: str) -> int | None:
    row = connection.execute(_NUMBER, (tenant, id)).fetchone()
    return row[0] if row else None


def _add_items(
    connection: sqlite3.Connection, number: int, tenant: str, items: Sequence[StoredItem], *, is_output: bool
) -> None:
    for begin in range(0, len(items), _ITEMS_AT_ONCE):
        some = items[begin : begin + _ITEMS_AT_ONCE]
        rows = [(number, is_output, tenant, item.id, pack_document(item.data)) for item in some]
        if len(rows) == _ITEMS_AT_ONCE:
            connection.execute(_MANY_ITEMS, [*chain.from_iterable(rows)])
        else:
            connection.executemany(_ITEM, rows)


def _finish(
    connection: sqlite3.Connection, number: int, tenant: str, end: Closed, ended_at: float, dropped: int
) -> None:
    connection.execute(
        _END, (end.status, pack_document(end.response), end.verdict, ended_at, dropped, number)
    )
    _add_items(connection, number, tenant, end.output, is_output=True)


def _add_to_conversation(connection: sqlite3.Connection, turn: Opened, end: Closed, now: float) -> None:
    if turn.conversation_id is not None:
        add_items(connection, turn.tenant, turn.conversation_id, (*turn.input, *end.output), now)


# Interrupted turns


def end_unfinished(connection: sqlite3.Connection, now: float, *, keeps_queued: bool = False) -> int:
    """End every turn that has no end, because its process died (ask G8); return their number. With
    `keeps_queued`, leave out background turns that workers had not started: others start them."""
    query = f"{_UNFINISHED} AND number NOT IN ({_NOT_STARTED})" if keeps_queued else _UNFINISHED
    rows = connection.execute(query).fetchall()
    for number, tenant, id, conversation_id, dropped, response in rows:
        interrupted = end_interrupted(id, response, all_events(connection, number), now)
        end = interrupted.end
        append(connection, number, interrupted.events)
        _finish(connection, number, tenant, end, now, dropped)
        if conversation_id is not None:
            input = _input_of(connection, number)
            add_items(connection, tenant, conversation_id, (*input, *end.output), now)
    return len(rows)


def _input_of(connection: sqlite3.Connection, number: int) -> list[StoredItem]:
    query = "SELECT id, data FROM items WHERE response = ? AND is_output = 0 ORDER BY number"
    return [item_of(*row) for row in connection.execute(query, (number,))]


# Deleting and remembering


_DELETE = """
DELETE FROM responses WHERE tenant = ? AND id = ? AND NOT EXISTS (
    SELECT 1 FROM running WHERE running.response = responses.number AND running.token != ?
)
"""


def delete_response(connection: sqlite3.Connection, tenant: str, id: str, token: str = "") -> bool:
    """Delete a response, unless a worker runs its turn under another claim token."""
    return connection.execute(_DELETE, (tenant, id, token)).rowcount > 0


def remember(connection: sqlite3.Connection, tenant: str, id: str, key: str, data: bytes) -> None:
    number = _number_of(connection, tenant, id)
    if number is not None:
        _add_memory(connection, number, tenant, {key: data})


# Conversations


def create_conversation(
    connection: sqlite3.Connection, tenant: str, conversation: StoredConversation, now: float
) -> None:
    query = "INSERT INTO conversations (tenant, id, created_at, changed_at, metadata) VALUES (?, ?, ?, ?, ?)"
    connection.execute(query, (tenant, conversation.id, conversation.created_at, now, conversation.metadata))


def update_conversation(
    connection: sqlite3.Connection, tenant: str, id: str, metadata: bytes, now: float
) -> bool:
    query = "UPDATE conversations SET metadata = ?, changed_at = ? WHERE tenant = ? AND id = ?"
    return connection.execute(query, (metadata, now, tenant, id)).rowcount > 0


def delete_conversation(connection: sqlite3.Connection, tenant: str, id: str) -> bool:
    query = "DELETE FROM conversations WHERE tenant = ? AND id = ?"
    return connection.execute(query, (tenant, id)).rowcount > 0


def add_items(
    connection: sqlite3.Connection, tenant: str, id: str, items: Sequence[StoredItem], now: float
) -> bool:
    row = connection.execute(_CONVERSATION, (tenant, id)).fetchone()
    if row is None:
        return False
    connection.executemany(
        _CONVERSATION_ITEM, ((row[0], tenant, item.id, pack_document(item.data)) for item in items)
    )
    connection.execute("UPDATE conversations SET changed_at = ? WHERE number = ?", (now, row[0]))
    return True


def delete_item(connection: sqlite3.Connection, tenant: str, id: str, item_id: str) -> bool:
    query = f"DELETE FROM conversation_items WHERE conversation = ({_CONVERSATION}) AND id = ?"
    return connection.execute(query, (tenant, id, item_id)).rowcount > 0


# Pruning


_ENDED = """
SELECT number FROM responses AS old WHERE ended_at < ? AND NOT EXISTS (
    SELECT 1 FROM responses AS next WHERE next.tenant = old.tenant AND next.previous_id = old.id
) ORDER BY ended_at LIMIT ?
"""
_UNUSED = "SELECT number FROM conversations WHERE changed_at < ? ORDER BY changed_at LIMIT ?"


def delete_ended(connection: sqlite3.Connection, before: float, most: int) -> int:
    """Delete the oldest responses that ended before a time, at most `most`; return their number. A chain is
    deleted from its end: a turn that a newer turn continues stays, or the newer could not be continued."""
    return connection.execute(f"DELETE FROM responses WHERE number IN ({_ENDED})", (before, most)).rowcount


def delete_unused_conversations(connection: sqlite3.Connection, before: float, most: int) -> int:
    deleted = connection.execute(f"DELETE FROM conversations WHERE number IN ({_UNUSED})", (before, most))
    return deleted.rowcount


def release_pages(connection: sqlite3.Connection, most: int) -> bool:
    """Shrink the file by up to `most` unused pages; return whether there are more."""
    free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    for _ in range(min(free, most)):  # Python executes one step of the statement, which frees one page.
        connection.execute("PRAGMA incremental_vacuum")
    return free > most
