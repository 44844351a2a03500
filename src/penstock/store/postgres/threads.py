"""The SQL for threads. See `store.threads` for how they are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.store.packing import unpack_document
from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.queries import unpacked
from penstock.store.postgres.statements import OUTPUT
from penstock.store.postgres.text import original, original_or_none, storable
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

_MOST_ROWS = 2_000
"""As `threads.MOST_ROWS`. A step along a chain costs several times as much here as in a file."""
_NEWEST = """
SELECT created_at, id FROM penstock.responses
WHERE tenant = $1 AND previous_id IS NOT NULL AND (created_at, id) < ($2, $3)
ORDER BY created_at DESC, id DESC LIMIT $4
"""
_CONVERSATIONS = """
SELECT changed_at, id FROM penstock.conversations WHERE tenant = $1 AND (changed_at, id) < ($2, $3)
ORDER BY changed_at DESC, id DESC LIMIT $4
"""
# A turn has a greater number than the turn that it continues, so this ends even if the ids form a cycle. The
# turns are looked up one by one, whatever the planner thinks of the size of the tables.
_CHAINS = """
WITH RECURSIVE up (number, id, created_at, previous_id) AS (
    SELECT number, id, created_at, previous_id FROM penstock.responses
    WHERE tenant = $1 AND id = ANY($2::text[])
    UNION
    SELECT before.number, before.id, before.created_at, before.previous_id FROM up CROSS JOIN LATERAL (
        SELECT number, id, created_at, previous_id FROM penstock.responses
        WHERE tenant = $1 AND responses.id = up.previous_id AND responses.number < up.number LIMIT 1
    ) AS before
), chains (first, number, id, created_at, previous_id) AS (
    SELECT id, number, id, created_at, previous_id FROM up WHERE NOT EXISTS (
        SELECT FROM up AS before WHERE before.id = up.previous_id AND before.number < up.number
    )
    UNION ALL
    SELECT first, next.number, next.id, next.created_at, next.previous_id FROM chains CROSS JOIN LATERAL (
        SELECT number, id, created_at, previous_id FROM penstock.responses
        WHERE tenant = $1 AND responses.previous_id = chains.id AND responses.number > chains.number OFFSET 0
    ) AS next
)
SELECT first, id, created_at, previous_id IS NOT NULL, number FROM chains
"""
_CONTINUATIONS = "SELECT id FROM penstock.responses WHERE tenant = $1 AND previous_id = $2 ORDER BY number"
_TALKS = """
SELECT given.id, (
    SELECT count(*) FROM penstock.responses WHERE tenant = $1 AND conversation_id = given.id
), (
    SELECT id FROM penstock.responses WHERE tenant = $1 AND conversation_id = given.id
    ORDER BY number DESC LIMIT 1
) FROM unnest($2::text[]) AS given (id)
"""
_MODELS = "SELECT id, model FROM penstock.turns WHERE tenant = $1 AND id = ANY($2::text[])"
_OPENINGS = f"""
SELECT responses.id, opening.data FROM penstock.responses CROSS JOIN LATERAL (
    SELECT position, data FROM penstock.items WHERE items.response = responses.number
    AND position < {OUTPUT} AND octet_length(data) <= {OPENING_BYTES} ORDER BY position LIMIT {OPENING_ITEMS}
) AS opening WHERE tenant = $1 AND responses.id = ANY($2::text[]) ORDER BY responses.id, position
"""
_TALK_OPENINGS = f"""
SELECT conversations.id, opening.data FROM penstock.conversations CROSS JOIN LATERAL (
    SELECT number, data FROM penstock.conversation_items AS items
    WHERE items.conversation = conversations.number AND octet_length(data) <= {OPENING_BYTES}
    ORDER BY items.number LIMIT {OPENING_ITEMS}
) AS opening WHERE tenant = $1 AND conversations.id = ANY($2::text[])
ORDER BY conversations.id, opening.number
"""
_NUMBERS = """
SELECT number FROM penstock.responses WHERE tenant = $1 AND conversation_id = $2
ORDER BY number DESC LIMIT $3
"""
_TURNS = """
SELECT responses.number, responses.id, previous_id, created_at, responses.status, coalesce((
    SELECT model FROM penstock.turns WHERE turns.tenant = $1 AND turns.id = responses.id
), '') AS model, position, data
FROM penstock.responses LEFT JOIN LATERAL (
    SELECT position, data FROM penstock.items WHERE items.response = responses.number OFFSET 0
) AS items ON true
WHERE responses.tenant = $1 AND responses.number = ANY($2::bigint[]) ORDER BY responses.number, position
"""


async def continuations(connection: DatabaseConnection, tenant: str, id: str) -> list[str]:
    rows = await connection.fetch(_CONTINUATIONS, storable(tenant), storable(id))
    return [original(found) for (found,) in rows]


async def threads(connection: DatabaseConnection, tenant: str, after: str, limit: int) -> ThreadPage:
    scan, owner = ChainScan(storable(after), limit, _MOST_ROWS), storable(tenant)
    while not scan.is_done:
        for some in scan.unknown(await connection.fetch(_NEWEST, owner, *scan.begin, BATCH)):
            scan.add([row[:4] for row in await connection.fetch(_CHAINS, owner, some)])
    talks = await connection.fetch(_CONVERSATIONS, owner, *scan.after, scan.limit + 1)
    page, cursor = scan.page((time, id) for time, id in talks)
    return ThreadPage(tuple(await _details(connection, owner, page)), original(cursor))


async def _details(
    connection: DatabaseConnection, tenant: str, page: Sequence[ListedThread]
) -> list[StoredThread]:
    talks = [each.id for each in page if each.kind == "conversation"]
    chains = [each.id for each in page if each.kind == "chain"]
    known = {each.id: (each.turns, each.last_id) for each in page if each.kind == "chain"}
    openings: dict[str, list[bytes]] = {}
    if talks:
        rows = await connection.fetch(_TALKS, tenant, talks)
        known |= {id: (count, last_id or "") for id, count, last_id in rows}
    for query, ids in ((_OPENINGS, chains), (_TALK_OPENINGS, talks)):
        for id, data in await connection.fetch(query, tenant, ids) if ids else ():
            openings.setdefault(id, []).append(unpack_document(data))
    lasts = [last_id for _, last_id in known.values()]
    models = dict(map(tuple, await connection.fetch(_MODELS, tenant, lasts))) if lasts else {}
    return [
        StoredThread(
            kind=each.kind,
            id=original(each.id),
            changed_at=each.position[0],
            turns=known[each.id][0],
            last_id=original(known[each.id][1]),
            model=original(models.get(known[each.id][1], "")),
            opening=tuple(openings.get(each.id, ())),
        )
        for each in page
    ]


async def conversation_turns(
    connection: DatabaseConnection, tenant: str, id: str, limit: int
) -> list[ThreadTurn]:
    rows = await connection.fetch(_NUMBERS, storable(tenant), storable(id), max(limit, 1))
    return await _turns(connection, tenant, [number for (number,) in rows])


async def chain_turns(connection: DatabaseConnection, tenant: str, id: str, limit: int) -> list[ThreadTurn]:
    rows = await connection.fetch(_CHAINS, storable(tenant), [storable(id)])
    return await _turns(connection, tenant, newest((row[4] for row in rows), limit))


async def _turns(connection: DatabaseConnection, tenant: str, numbers: Sequence[int]) -> list[ThreadTurn]:
    if not numbers:
        return []
    rows = await connection.fetch(_TURNS, storable(tenant), numbers)
    return await unpacked((row[-1] for row in rows), _turns_of(rows))


def _turns_of(rows: Sequence[Any]) -> Callable[[], list[ThreadTurn]]:
    def turns() -> list[ThreadTurn]:
        items: dict[int, tuple[list[bytes], list[bytes]]] = {}
        first: dict[int, Any] = {}
        for row in rows:
            number, position = row[0], row[6]
            first.setdefault(number, row)
            input, output = items.setdefault(number, ([], []))
            if position is not None:
                (input if position < OUTPUT else output).append(unpack_document(row[7]))
        return [_turn_of(row, *map(tuple, items[number])) for number, row in first.items()]

    return turns


def _turn_of(row: Any, input: tuple[bytes, ...], output: tuple[bytes, ...]) -> ThreadTurn:
    _, id, previous_id, created_at, status, model, _, _ = row
    return ThreadTurn(
        id=original(id),
        previous_id=original_or_none(previous_id),
        created_at=created_at,
        status=original(status),
        model=original(model),
        input=input,
        output=output,
    )
