"""Pruning: deletes what is too old, or exceeds the size limit, from the database.

Logs are in partitions, one for each day, and are dropped with them: deleting them row by row would cost more
than writing them. One worker prunes at a time.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from typing import TypeVar

from penstock.errors import StoreError
from penstock.store.contract import next_store_time
from penstock.store.postgres import queries
from penstock.store.postgres.changes import DELETE_WITH_RESPONSES
from penstock.store.postgres.connections import DatabaseConnection, DatabasePool, Job
from penstock.store.postgres.statements import day_of
from penstock.store.records import Pruned

_log = logging.getLogger("penstock.store")

T = TypeVar("T")

BATCH = 200
"""Rows deleted in one transaction: a turn that ends in between does not wait for all of them."""
_DAYS_AHEAD = 3
"""Partitions that are made ahead of time."""
_PRUNING_LOCK, _PARTITION_LOCK = 0x50454E57, 0x50454E58
_SECONDS = 60.0

# The time from which ages are measured

_NEWEST = """
SELECT max(time) FROM (
    SELECT max(ended_at) AS time FROM penstock.responses UNION ALL
    SELECT max(changed_at) FROM penstock.conversations
) AS times
"""


async def store_time(connection: DatabaseConnection, now: float) -> float:
    """Return the store's own time. A store without one starts with the time of its newest row, or the clock
    if that is earlier."""
    seconds = await connection.fetchval("SELECT store_time FROM penstock.state")
    if seconds is not None:
        return float(seconds)
    newest = await connection.fetchval(_NEWEST)
    return now if newest is None else min(now, float(newest))


async def set_initial_time(connection: DatabaseConnection, now: float) -> None:
    """Set the store's own time, if it has none."""
    query = "UPDATE penstock.state SET store_time = $1 WHERE store_time IS NULL"
    await connection.execute(query, await store_time(connection, now))


# A key of no tenant and no worker: nobody advances the time before it expires. If the clock was set back, it
# would expire too late, and does not count.
_TAKE_TURN = """
INSERT INTO penstock.held_keys AS held (tenant, key, worker, data, until)
VALUES ('', 'retention', '', '', clock_timestamp() + make_interval(secs => $1))
ON CONFLICT (tenant, key) DO UPDATE SET until = excluded.until
WHERE held.until <= clock_timestamp() OR held.until > excluded.until + interval '1 minute'
RETURNING true
"""


async def advance_time(connection: DatabaseConnection, now: float, every: float = 0.0) -> float | None:
    """Advance the store's own time, unless another worker has done so less than `every` seconds ago."""
    await connection.execute("SELECT FROM penstock.state FOR UPDATE")
    if every and not await connection.fetchval(_TAKE_TURN, every):
        return None
    advanced = next_store_time(await store_time(connection, now), now)
    await connection.execute("UPDATE penstock.state SET store_time = $1", advanced)
    return min(now, advanced)


# Partitions


async def add_partitions(pool: DatabasePool, now: float) -> None:
    """Make the partitions of today and of the next days. Without them, rows go to the default partition, so
    a failure only costs speed."""
    today = day_of(now)
    try:
        days = [today + timedelta(number) for number in range(_DAYS_AHEAD + 1)]
        missing = await pool.run(partial(_missing, days=days))
        for day in missing:
            await pool.transact(partial(add_partition, day=day))
    except StoreError as error:
        fields = {"fields": {"event": "store", "code": error.code}}
        _log.warning("a partition for logs cannot be added; rows go to the default partition", extra=fields)


def _name(day: date) -> str:
    return f"segments_{day:%Y%m%d}"


async def _missing(connection: DatabaseConnection, days: list[date]) -> list[date]:
    there = {name for name, _ in await partitions(connection)}
    return [day for day in days if _name(day) not in there]


async def partitions(connection: DatabaseConnection) -> list[tuple[str, date]]:
    """Return the partitions of days, oldest first."""
    query = """
    SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'penstock.segments'::regclass AND relname ~ '^segments_[0-9]{8}$' ORDER BY relname
    """
    names = [str(name) for (name,) in await connection.fetch(query)]
    return [(name, date.fromisoformat(name.removeprefix("segments_"))) for name in names]


async def add_partition(connection: DatabaseConnection, day: date) -> None:
    """Add the partition of a day, unless the default partition has rows of that day already. Attaching a
    table locks the others less than creating it as a partition."""
    await connection.execute("SET LOCAL lock_timeout = '1s'")
    await connection.execute(f"SELECT pg_advisory_xact_lock({_PARTITION_LOCK})")
    if day not in await _missing(connection, [day]):
        return
    query = "SELECT EXISTS (SELECT FROM penstock.segments_default WHERE day = $1)"
    if await connection.fetchval(query, day):
        return
    name = f"penstock.{_name(day)}"
    await connection.execute(
        f"CREATE TABLE {name} (LIKE penstock.segments INCLUDING ALL); "
        f"ALTER TABLE penstock.segments ATTACH PARTITION {name} "
        f"FOR VALUES FROM ('{day}') TO ('{day + timedelta(1)}')"
    )


async def drop_logs(connection: DatabaseConnection, older_than: float) -> int:
    """Drop the logs of days that ended a day before a time, as long as none of their turns is running; return
    the number of dropped partitions. A turn that takes longer than a day loses its log early."""
    oldest = day_of(older_than) - timedelta(1)
    running = await connection.fetchval("SELECT min(day) FROM penstock.running")
    oldest = min(oldest, running) if running is not None else oldest
    old = [(name, day) for name, day in await partitions(connection) if day < oldest]
    await connection.execute("SET LOCAL lock_timeout = '1s'")
    for name, _ in old:
        # A worker of an earlier version may be dropping it at this moment.
        await connection.execute(f"DROP TABLE IF EXISTS penstock.{name}")
    if old:
        since = old[-1][1] + timedelta(1)
        await connection.execute("DELETE FROM penstock.segments_default WHERE day < $1", since)
        await connection.execute("UPDATE penstock.state SET logs_since = greatest(logs_since, $1)", since)
    return len(old)


# Deleting

_HAS_NO_NEXT = """
NOT EXISTS (
    SELECT FROM penstock.responses AS next WHERE next.tenant = old.tenant AND next.previous_id = old.id
)
"""
# A chain is deleted from its end: a turn that a newer turn continues stays, or the newer could not be
# continued. With a number of bytes, no more is deleted than necessary. What another transaction is changing
# stays until the next time: it is in use, and waiting for it could end in a deadlock.
_DELETE_ENDED = f"""
WITH old AS (
    SELECT tenant, id, number, sum(size) OVER (ORDER BY ended_at, number) - size AS freed_before FROM (
        SELECT tenant, id, number, size, ended_at FROM penstock.responses AS old
        WHERE ended_at < $1 AND {_HAS_NO_NEXT} ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) AS oldest
), gone AS (
    DELETE FROM penstock.responses USING old
    WHERE responses.tenant = old.tenant AND responses.id = old.id AND freed_before < $3
    RETURNING responses.number, day, size
){DELETE_WITH_RESPONSES}
SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone
"""
_DELETE_UNUSED = """
WITH old AS (
    SELECT tenant, id, sum(size) OVER (ORDER BY changed_at, number) - size AS freed_before FROM (
        SELECT tenant, id, number, size, changed_at FROM penstock.conversations
        WHERE changed_at < $1 ORDER BY changed_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) AS oldest
), gone AS (
    DELETE FROM penstock.conversations USING old
    WHERE conversations.tenant = old.tenant AND conversations.id = old.id AND freed_before < $3
    RETURNING size
)
SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone
"""
_ALL = 2**62


class _OthersPrune(Exception):  # noqa: N818 - named after what happens
    """Another worker is pruning."""


_LAST_MARK = "SELECT xmin::text FROM penstock.state"
_MARK = "UPDATE penstock.state SET is_only = true RETURNING xmin::text"
"""Changes nothing, but leaves the number of the transaction in the row."""


class _Pruner:
    """Runs the transactions of a worker that prunes, until another worker begins to prune. If both went on in
    turn, each would delete as much as exceeds the size limit."""

    def __init__(self, pool: DatabasePool) -> None:
        self._pool = pool
        self._mark = ""

    async def transact(self, job: Job[T]) -> T:
        """Run a transaction. Raise `_OthersPrune`, and change nothing, if another worker is pruning, or has
        begun to since the last transaction."""

        async def run_alone(connection: DatabaseConnection) -> tuple[T, str]:
            if not await connection.fetchval(f"SELECT pg_try_advisory_xact_lock({_PRUNING_LOCK})"):
                raise _OthersPrune
            if self._mark and await connection.fetchval(_LAST_MARK) != self._mark:
                raise _OthersPrune
            result = await job(connection)
            # This comes last, because others change this row after they have locked the tables.
            return result, str(await connection.fetchval(_MARK))

        result, self._mark = await self._pool.transact(run_alone, seconds=_SECONDS)
        return result


async def _delete(
    connection: DatabaseConnection, query: str, before: float, most: int, bytes: int
) -> tuple[int, int]:
    """Delete the oldest rows before a time, until so many bytes are free; return their number and size."""
    count, size = await connection.fetchrow(query, before, most, bytes)
    return count, size


async def prune(
    pool: DatabasePool,
    *,
    older_than: float,
    most_bytes: int | None,
    progress: Callable[[Pruned], None] | None = None,
) -> Pruned:
    """Delete what is too old, then the oldest until the rest fits; return what was deleted. If another worker
    begins to prune, leave the rest to that one."""
    pruner, pruned = _Pruner(pool), Pruned()

    async def delete(before: float, bytes: int) -> None:
        for query, kind in ((_DELETE_ENDED, "responses"), (_DELETE_UNUSED, "conversations")):
            while bytes > 0:
                job = partial(_delete, query=query, before=before, most=BATCH, bytes=bytes)
                count, size = await pruner.transact(job)
                if not count:
                    break
                bytes -= size
                setattr(pruned, kind, getattr(pruned, kind) + count)
                if progress is not None:
                    progress(pruned)

    with suppress(_OthersPrune):
        await _drop_logs(pruner, older_than)
        await delete(older_than, _ALL)
        if most_bytes is not None:
            await delete(math.inf, await pool.run(used_bytes, seconds=_SECONDS) - most_bytes)
    return pruned


async def _drop_logs(pruner: _Pruner, older_than: float) -> None:
    """Drop old logs, or leave it to the next time: somebody may be reading them."""
    try:
        await pruner.transact(partial(drop_logs, older_than=older_than))
    except StoreError as error:
        if error.code not in (StoreError.BUSY, StoreError.DENIED):
            raise
        fields = {"fields": {"event": "store", "code": error.code}}
        _log.warning("old partitions of logs cannot be dropped", extra=fields)


async def used_bytes(connection: DatabaseConnection) -> int:
    """Return about how many bytes is in use, without the ledger, which has its own retention."""
    return int(await connection.fetchval(queries.USED_BYTES))


async def count_expired(connection: DatabaseConnection, older_than: float) -> Pruned:
    """Count what `prune` would delete because of its age."""
    responses = await connection.fetchval(_EXPIRED, older_than)
    query = "SELECT count(*) FROM penstock.conversations WHERE changed_at < $1"
    return Pruned(responses, await connection.fetchval(query, older_than))


_EXPIRED = """
WITH RECURSIVE needed (number, tenant, previous_id) AS (
    SELECT old.number, old.tenant, old.previous_id FROM penstock.responses AS old
    JOIN penstock.responses AS next ON next.tenant = old.tenant AND next.previous_id = old.id
    WHERE old.ended_at < $1 AND (next.ended_at IS NULL OR next.ended_at >= $1)
    UNION
    SELECT old.number, old.tenant, old.previous_id FROM needed
    JOIN penstock.responses AS old ON old.tenant = needed.tenant AND old.id = needed.previous_id
    WHERE old.ended_at < $1
)
SELECT (SELECT count(*) FROM penstock.responses WHERE ended_at < $1) - (SELECT count(*) FROM needed)
"""
"""Counts the old responses that no newer one continues."""
