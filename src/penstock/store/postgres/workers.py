"""The SQL for workers: their leases, the turns that they run, and the keys that they hold.

Leases are measured by the clock of the database. A turn belongs to whoever has its claim token.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import uuid4

from penstock.store.backend import ClaimedTurn, Orphan
from penstock.store.packing import unpack_document
from penstock.store.postgres import ledger
from penstock.store.postgres.changes import count_of
from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.queries import item_of
from penstock.store.postgres.statements import OUTPUT
from penstock.store.postgres.text import indexable, original, original_or_none, storable
from penstock.store.records import HELD_KEY_SECONDS, HeldKey, Opened, StoredItem

_RENEW = """
INSERT INTO penstock.workers (id, lease_until) VALUES ($1, clock_timestamp() + make_interval(secs => $2))
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING extract(epoch FROM clock_timestamp())::double precision
"""
_IS_ALIVE = (
    "EXISTS (SELECT FROM penstock.workers WHERE workers.id = worker AND lease_until > clock_timestamp())"
)
# A turn of this worker that it does not have in memory was given up: nobody else will end it.
_IS_ORPHAN = f"""
is_started >= $3 AND (NOT {_IS_ALIVE} OR (
    worker = $1 AND NOT id = ANY($2::text[]) AND started_at < clock_timestamp() - interval '1 minute'
))
"""
_HAS_ORPHANS = f"SELECT EXISTS (SELECT FROM penstock.running WHERE {_IS_ORPHAN})"
_ORPHANS = f"""
SELECT tenant, id, response, is_started FROM penstock.running WHERE {_IS_ORPHAN}
ORDER BY started_at LIMIT $4 FOR UPDATE SKIP LOCKED
"""
_CLAIM = """
UPDATE penstock.running SET worker = $1, token = given.token
FROM unnest($2::text[], $3::text[], $4::text[]) AS given (tenant, id, token)
WHERE running.tenant = given.tenant AND running.id = given.id
"""
_ORPHAN_RESPONSES = """
SELECT number, tenant, id, created_at, status, previous_id, conversation_id, is_background, accent, request,
    response, (
        SELECT coalesce(max(last), -1) FROM penstock.segments
        WHERE segments.response = responses.number AND segments.day = responses.day AND NOT is_trace
    ) AS last
FROM penstock.responses JOIN unnest($1::text[], $2::bigint[]) AS given (tenant, number) USING (tenant, number)
"""
_ORPHAN_ITEMS = f"""
SELECT response, id, data FROM penstock.items
WHERE response = ANY($1::bigint[]) AND position < {OUTPUT} ORDER BY response, position
"""
_OLD_KEYS = f"penstock.held_keys AS held WHERE until < clock_timestamp() AND NOT {_IS_ALIVE}"
_HOLD = f"""
INSERT INTO penstock.held_keys AS held (tenant, key, worker, data, until)
VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => {HELD_KEY_SECONDS}))
ON CONFLICT (tenant, key) DO UPDATE SET worker = excluded.worker, data = excluded.data, until = excluded.until
WHERE held.worker = excluded.worker
OR (held.until < clock_timestamp() AND NOT {_IS_ALIVE.replace("= worker", "= held.worker")})
RETURNING worker
"""
_RETIRE = """
UPDATE penstock.held_keys
SET worker = '', data = $4, until = clock_timestamp() + make_interval(secs => $5)
WHERE tenant = $1 AND key = $2 AND worker = $3
"""
_UNFINISHED = f"""
SELECT {ledger.NAMES} FROM penstock.turns WHERE ended_at IS NULL AND NOT {_IS_ALIVE}
AND NOT EXISTS (SELECT FROM penstock.running WHERE running.tenant = turns.tenant AND running.id = turns.id)
"""
_ADD_SECRET = "INSERT INTO penstock.secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING"
_SECRETS = """
SELECT value FROM penstock.secrets WHERE name = $1 OR left(name, length($1) + 1) = $1 || '.'
ORDER BY name <> $1, name
"""
_FORGET = """
DELETE FROM penstock.workers WHERE lease_until < clock_timestamp()
AND NOT EXISTS (SELECT FROM penstock.running WHERE running.worker = workers.id)
AND NOT EXISTS (SELECT FROM penstock.turns WHERE turns.worker = workers.id AND ended_at IS NULL)
"""


# Workers


async def renew(connection: DatabaseConnection, worker: str, lease: float) -> float:
    """Renew the lease of a worker, and return the time of the database."""
    return float(await connection.fetchval(_RENEW, worker, lease))


async def leave(connection: DatabaseConnection, worker: str) -> None:
    await connection.execute("DELETE FROM penstock.workers WHERE id = $1", worker)


async def claimed(connection: DatabaseConnection, worker: str) -> list[ClaimedTurn]:
    query = "SELECT tenant, id, token, is_cancelled FROM penstock.running WHERE worker = $1"
    return [
        ClaimedTurn(tenant=original(tenant), id=original(id), token=token, is_cancelled=is_cancelled)
        for tenant, id, token, is_cancelled in await connection.fetch(query, worker)
    ]


# Turns


async def owner(connection: DatabaseConnection, tenant: str, id: str) -> str | None:
    query = "SELECT worker FROM penstock.running WHERE tenant = $1 AND id = $2"
    found: str | None = await connection.fetchval(query, storable(tenant), storable(id))
    return found


async def running_in(connection: DatabaseConnection, tenant: str, conversation_id: str) -> list[str]:
    query = "SELECT id FROM penstock.running WHERE tenant = $1 AND conversation_id = $2"
    rows = await connection.fetch(query, storable(tenant), storable(conversation_id))
    return [original(id) for (id,) in rows]


async def request_cancel(connection: DatabaseConnection, tenant: str, id: str) -> str | None:
    query = "UPDATE penstock.running SET is_cancelled = true WHERE tenant = $1 AND id = $2 RETURNING worker"
    found: str | None = await connection.fetchval(query, storable(tenant), storable(id))
    return found


async def start(connection: DatabaseConnection, tenant: str, id: str, token: str) -> bool:
    query = """
    UPDATE penstock.running SET is_started = true WHERE tenant = $1 AND id = $2 AND token = $3 RETURNING true
    """
    return bool(await connection.fetchval(query, storable(tenant), storable(id), token))


async def disown(connection: DatabaseConnection, token: str) -> None:
    """Give up a turn that this worker has claimed but does not run."""
    query = "UPDATE penstock.running SET worker = '', is_started = true WHERE token = $1"
    await connection.execute(query, token)


async def hand_over(connection: DatabaseConnection, token: str) -> None:
    """Give up a turn that this worker has not started."""
    query = "UPDATE penstock.running SET worker = '' WHERE token = $1 AND NOT is_started"
    await connection.execute(query, token)


async def fail_queued(connection: DatabaseConnection) -> int:
    """Let no worker start what has not started: it ends as failed."""
    query = "UPDATE penstock.running SET is_started = true WHERE NOT is_started"
    return count_of(await connection.execute(query))


# Orphans


async def has_orphans(
    connection: DatabaseConnection, worker: str, known: Sequence[str], *, only_started: bool = False
) -> bool:
    return bool(await connection.fetchval(_HAS_ORPHANS, worker, [*map(storable, known)], only_started))


async def claim_orphans(
    connection: DatabaseConnection,
    worker: str,
    known: Sequence[str],
    most: int,
    *,
    only_started: bool = False,
) -> list[Orphan]:
    """Take over turns whose worker is dead, except those that another worker is taking over at this moment.
    `known` are the turns that this worker has in memory."""
    rows = await connection.fetch(_ORPHANS, worker, [*map(storable, known)], only_started, most)
    if not rows:
        return []
    tokens = [uuid4().hex for _ in rows]
    tenants, ids, numbers = ([row[name] for row in rows] for name in ("tenant", "id", "response"))
    await connection.execute(_CLAIM, worker, tenants, ids, tokens)
    inputs: dict[int, list[StoredItem]] = {}
    for response, id, data in await connection.fetch(_ORPHAN_ITEMS, numbers):
        inputs.setdefault(response, []).append(item_of(id, data))
    claims = {row["response"]: (token, row["is_started"]) for row, token in zip(rows, tokens, strict=True)}
    found = await connection.fetch(_ORPHAN_RESPONSES, tenants, numbers)
    return [_orphan(row, inputs.get(row["number"], ()), *claims[row["number"]]) for row in found]


def _orphan(row: Any, input: Sequence[StoredItem], token: str, is_started: bool) -> Orphan:
    turn = Opened(
        id=original(row["id"]),
        tenant=original(row["tenant"]),
        created_at=row["created_at"],
        status=original(row["status"]),
        previous_id=original_or_none(row["previous_id"]),
        conversation_id=original_or_none(row["conversation_id"]),
        request=row["request"],
        response=unpack_document(row["response"]),
        input=tuple(input),
        is_background=row["is_background"],
        accent=original(row["accent"]),
    )
    return Orphan(turn=turn, token=token, last_sequence=row["last"], is_started=is_started)


async def has_dead_workers(connection: DatabaseConnection) -> bool:
    query = f"""
    SELECT EXISTS (SELECT FROM penstock.workers WHERE lease_until < clock_timestamp())
    OR EXISTS (SELECT FROM penstock.turns WHERE ended_at IS NULL AND NOT {_IS_ALIVE})
    OR EXISTS (SELECT FROM {_OLD_KEYS})
    """
    return bool(await connection.fetchval(query))


async def settle_orphans(connection: DatabaseConnection, worker: str, now: float, code: str) -> int:
    """Settle the records of dead workers, and forget these workers and old keys."""
    rows = await connection.fetch(_UNFINISHED)
    await ledger.settle_records(connection, rows, now, code, worker)
    await connection.execute(_FORGET)
    await connection.execute(f"DELETE FROM {_OLD_KEYS}")
    return len(rows)


# Keys


async def hold(
    connection: DatabaseConnection, tenant: str, key: str, worker: str, data: bytes
) -> HeldKey | None:
    values = storable(tenant), indexable(key)
    while await connection.fetchval(_HOLD, *values, worker, data) is None:
        query = f"SELECT data, {_IS_ALIVE} FROM penstock.held_keys WHERE tenant = $1 AND key = $2"
        found = await connection.fetchrow(query, *values)
        if found is not None:
            return HeldKey(*found)
    return None


async def release(connection: DatabaseConnection, tenant: str, key: str, worker: str) -> None:
    query = "DELETE FROM penstock.held_keys WHERE tenant = $1 AND key = $2 AND worker = $3"
    await connection.execute(query, storable(tenant), indexable(key), worker)


async def retire(
    connection: DatabaseConnection, tenant: str, key: str, worker: str, data: bytes, seconds: float
) -> None:
    await connection.execute(_RETIRE, storable(tenant), indexable(key), worker, data, seconds)


# Secrets


async def shared_secrets(connection: DatabaseConnection, name: str, candidate: bytes) -> list[bytes]:
    """Return the secrets of this name, which all workers share: first the one in use, which is `candidate` if
    there was none, then those of imported stores."""
    await connection.execute(_ADD_SECRET, name, candidate)
    return [bytes(value) for (value,) in await connection.fetch(_SECRETS, name)]


async def add_secret(connection: DatabaseConnection, name: str, secret: bytes) -> bool:
    """Keep the secret of an imported store; return whether it is the one in use: only if there was none."""
    known = await shared_secrets(connection, name, secret)
    if secret not in known:
        await connection.execute(_ADD_SECRET, f"{name}.{sha256(secret).hexdigest()}", secret)
    return known[0] == secret
