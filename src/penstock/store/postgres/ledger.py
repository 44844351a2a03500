"""The SQL of the ledger. See `store.ledger_tables` for its rows and sums.

Limits are checked under a lock on the tenant, which ends with the transaction: what is admitted counts for
every worker before the next one looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.store.latencies import compact, marks_of, shortens
from penstock.store.ledger import (
    FAILED,
    HOUR,
    WINDOW,
    Budget,
    Dimension,
    Exceeded,
    KeyLimits,
    TurnFilter,
    TurnPage,
    TurnRecord,
    TurnTotals,
    hour_of,
    period_at,
    position_of,
)
from penstock.store.ledger_tables import (
    COLUMNS,
    DAY_HOURS,
    LONGEST_MONTH,
    SUMS,
    conditions_of,
    conditions_of_sums,
    day_begin,
    interrupted,
    page_of,
    parts_of,
    readable_records,
    row_of,
    search_of,
    sums_of,
    totals_of,
    where,
)
from penstock.store.limits import check_limits
from penstock.store.postgres.changes import columns_of, count_of
from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.text import indexable, original, storable

_LOCKS = 0x50454E54
"""The advisory locks of tenants."""
_LONGEST_NAME = 140
"""Characters. The key of a sum consists of four names, and must fit an index."""
_LONGEST_CODE = 60
_KEYS = ("tenant", "model", "target", "outcome")

_REALS = ("started_at", "ended_at", "cost", "reserved_cost", "overhead_ms")
_FLAGS = ("is_stored", "stream", "terminal_sent", "usage_estimated")
_TEXTS = (
    *("id", "tenant", "user_agent", "request_id", "model", "target", "upstream_model", "upstream_id"),
    *("accent", "outcome", "closer", "code", "last_event", "diagnostics", "search", "worker"),
)


def _type(column: str) -> str:
    named = {_REALS: "double precision", _FLAGS: "bool", _TEXTS: "text"}
    return next((type for columns, type in named.items() if column in columns), "bigint")


def _arrays(types: Iterable[str], first: int = 1) -> str:
    """Return the parameters of `unnest` for columns of these types."""
    return ", ".join(f"${place}::{type}[]" for place, type in enumerate(types, first))


NAMES = ", ".join(COLUMNS)
_ALL = (*COLUMNS, "search", "worker")
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in _ALL if name not in ("id", "tenant"))
_WRITE = f"""
INSERT INTO penstock.turns ({", ".join(_ALL)}) SELECT * FROM unnest({_arrays(map(_type, _ALL))})
ON CONFLICT (tenant, id) DO UPDATE SET {_CHANGES} WHERE turns.ended_at IS NULL
RETURNING tenant, id
"""
_SUM_TYPES = ["double precision" if name == "cost" else "bigint" for name in SUMS]
_KEY_TYPES = ["bigint", "text", "text", "text", "text"]
_KEY = ", ".join(("hour", *_KEYS))
_ADD_TO_SUM = f"""
INSERT INTO penstock.%s AS sums ({_KEY}, {", ".join(SUMS)}, latencies)
SELECT * FROM unnest({_arrays((*_KEY_TYPES, *_SUM_TYPES, "text"))})
ON CONFLICT ({_KEY}) DO UPDATE SET {", ".join(f"{name} = sums.{name} + excluded.{name}" for name in SUMS)},
    latencies = sums.latencies || excluded.latencies
"""
_ADD_TO_CAUSE = f"""
INSERT INTO penstock.turn_causes AS sums ({_KEY}, code, turns)
SELECT * FROM unnest({_arrays((*_KEY_TYPES, "text", "bigint"))})
ON CONFLICT ({_KEY}, code) DO UPDATE SET turns = sums.turns + excluded.turns
"""
_LATENCIES = f"""
SELECT {_KEY}, latencies FROM penstock.%s JOIN unnest({_arrays(_KEY_TYPES)}) AS given ({_KEY}) USING ({_KEY})
"""
_REPLACE_LATENCIES = f"""
UPDATE penstock.%s AS sums SET latencies = given.latencies
FROM unnest({_arrays((*_KEY_TYPES, "text"))}) AS given ({_KEY}, latencies)
WHERE (sums.hour, sums.tenant, sums.model, sums.target, sums.outcome)
    = (given.hour, given.tenant, given.model, given.target, given.outcome)
"""
_ADD_TO_DAY = """
INSERT INTO penstock.tenant_days AS sums (tenant, day, tokens, cost)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::double precision[])
ON CONFLICT (tenant, day) DO UPDATE
SET tokens = sums.tokens + excluded.tokens, cost = sums.cost + excluded.cost
"""
_ADD_UP_DAY = f"""
INSERT INTO penstock.turn_days ({_KEY}, {", ".join(SUMS)}, latencies)
SELECT
    $1, tenant, model, target, outcome, {", ".join(f"sum({name})" for name in SUMS)},
    string_agg(latencies, '')
FROM penstock.turn_hours WHERE hour >= $1 AND hour < $2 GROUP BY tenant, model, target, outcome
"""

# Writing


async def write_records(connection: DatabaseConnection, records: Iterable[TurnRecord], worker: str) -> None:
    """Write records of a worker in their present state. A row of a turn that has ended stays as it is."""
    rows = {(row["tenant"], row["id"]): row for row in map(_row_of, records)}
    if not rows:
        return
    values = [(*rows[key].values(), search_of(rows[key]), worker) for key in sorted(rows)]
    written = await connection.fetch(_WRITE, *columns_of(values, len(_ALL)))
    ended = [rows[tuple(key)] for key in written if rows[tuple(key)]["ended_at"] is not None]
    if ended:
        await _add_to_sums(connection, ended)


def _row_of(record: TurnRecord) -> dict[str, Any]:
    row = row_of(record)
    for name in _TEXTS:
        if name in row:
            row[name] = name_of(row[name]) if name in _KEYS else storable(row[name])
    return row


def name_of(text: str) -> str:
    """Return one of the names that the key of a sum consists of, as it is stored."""
    return indexable(text, _LONGEST_NAME)


async def _add_to_sums(connection: DatabaseConnection, rows: Iterable[dict[str, Any]]) -> None:
    hours: dict[tuple[Any, ...], list[Any]] = {}
    days: dict[tuple[Any, ...], list[Any]] = {}
    tenants: dict[tuple[Any, ...], list[Any]] = {}
    causes: dict[tuple[Any, ...], list[Any]] = {}
    long: list[tuple[Any, ...]] = []
    for row in rows:
        hour, key = hour_of(row["started_at"]), [row[name] for name in _KEYS]
        sums = (*sums_of(row), marks_of(row["first_output_ms"], row["duration_ms"]))
        _add(hours, (hour, *key), sums)
        _add(days, (day_begin(hour), *key), sums)
        if row["outcome"] in FAILED:
            _add(causes, (hour, *key, indexable(original(row["code"]), _LONGEST_CODE)), (1,))
        if shortens(row["id"]):
            long.append((hour, *key))
        used = row["input_tokens"] + row["output_tokens"]
        _add(tenants, (row["tenant"], hour // DAY_HOURS), (used, row["cost"] or 0.0))
    # Every worker adds to rows in the same order, so that none waits for another in a circle.
    for query, sums_by_key in (
        (_ADD_TO_SUM % "turn_hours", hours),
        (_ADD_TO_SUM % "turn_days", days),
        (_ADD_TO_CAUSE, causes),
        (_ADD_TO_DAY, tenants),
    ):
        values = [(*key, *sums_by_key[key]) for key in sorted(sums_by_key)]
        if values:
            await connection.execute(query, *columns_of(values, 0))
    if long:
        await _shorten(connection, "turn_hours", {*long})
        await _shorten(connection, "turn_days", {(day_begin(hour), *key) for hour, *key in long})


async def _shorten(connection: DatabaseConnection, table: str, keys: set[tuple[Any, ...]]) -> None:
    """Make the texts with the times of sums shorter, which this transaction has just added to."""
    rows = await connection.fetch(_LATENCIES % table, *columns_of([*keys], len(_KEY_TYPES)))
    values = [(*key, compact(text)) for *key, text in rows]
    await connection.execute(_REPLACE_LATENCIES % table, *columns_of(values, len(_KEY_TYPES) + 1))


def _add(totals: dict[tuple[Any, ...], list[Any]], key: tuple[Any, ...], sums: Sequence[Any]) -> None:
    before = totals.get(key)
    totals[key] = [*sums] if before is None else [a + b for a, b in zip(before, sums, strict=True)]


async def settle_records(
    connection: DatabaseConnection, rows: Sequence[Any], now: float, code: str, worker: str
) -> None:
    """Settle records, which are rows of `NAMES`, as those of turns whose worker died."""
    records = [interrupted(record, now, code) for record in readable_records(map(originals, rows))]
    await write_records(connection, records, worker)


def originals(row: Iterable[Any]) -> list[Any]:
    return [original(value) if isinstance(value, str) else value for value in row]


async def delete_turns(connection: DatabaseConnection, older_than: float, most: int) -> int:
    """Delete turns of hours that were over at a time, and the sums of these hours."""
    hour = hour_of(older_than)
    await connection.execute("DELETE FROM penstock.turn_causes WHERE hour < $1", hour)
    done = await connection.execute("DELETE FROM penstock.turn_hours WHERE hour < $1", hour)
    if count_of(done):  # the day that the hour is in is added up again from what is left of it
        day = day_begin(hour)
        await connection.execute("DELETE FROM penstock.turn_days WHERE hour <= $1", day)
        await connection.execute(_ADD_UP_DAY, day, day + DAY_HOURS)
    oldest_day = hour // DAY_HOURS - LONGEST_MONTH
    await connection.execute("DELETE FROM penstock.tenant_days WHERE day < $1", oldest_day)
    query = """
    DELETE FROM penstock.turns USING (
        SELECT tenant, id FROM penstock.turns
        WHERE started_at < $1 AND ended_at IS NOT NULL ORDER BY started_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ) AS old WHERE turns.tenant = old.tenant AND turns.id = old.id
    """
    return count_of(await connection.execute(query, float(hour * HOUR), most))


# Counting

_TOKENS = "CASE WHEN ended_at IS NULL THEN reserved_tokens ELSE input_tokens + output_tokens END"
_RECENT = "FROM penstock.turns WHERE tenant = $1 AND started_at > $2"
_COUNTS = f"""
SELECT
    (SELECT count(*) FROM penstock.turns WHERE tenant = $1 AND ended_at IS NULL),
    (SELECT count(*) {_RECENT}),
    (SELECT coalesce(sum({_TOKENS}), 0)::bigint {_RECENT})
"""
_RECENT_TURNS = f"SELECT started_at, {_TOKENS} {_RECENT} ORDER BY started_at"
_SPENT = """
SELECT coalesce(sum(tokens), 0)::double precision, coalesce(sum(cost), 0) FROM (
    SELECT tokens, cost FROM penstock.tenant_days WHERE tenant = $1 AND day >= $2 AND day < $3
    UNION ALL
    SELECT reserved_tokens, reserved_cost FROM penstock.turns
    WHERE tenant = $1 AND ended_at IS NULL AND started_at >= $4 AND started_at < $5
) AS counted
"""


async def lock_tenants(connection: DatabaseConnection, tenants: Iterable[str]) -> None:
    """Let no other worker admit turns of these tenants until the transaction ends."""
    query = f"SELECT pg_advisory_xact_lock({_LOCKS}, hashtext(tenant)) FROM unnest($1::text[]) AS tenant"
    await connection.fetch(query, sorted(map(storable, tenants)))


async def admit(
    connection: DatabaseConnection, record: TurnRecord, limits: KeyLimits, worker: str
) -> Exceeded | None:
    """Check the limits of a tenant that is locked, and write the record unless one is exceeded."""
    exceeded = check_limits(record, limits, await _count(connection, record, limits))
    if exceeded is None:
        await write_records(connection, [record], worker)
    return exceeded


class _Counts:
    """See `store.limits.LedgerCounts`. Everything that may be asked for has been read before."""

    def __init__(self, running: int, recent: tuple[int, int]) -> None:
        self._running, self._recent = running, recent
        self.turns: list[tuple[float, int]] = []
        self.budgets: dict[Budget, float] = {}

    def running(self) -> int:
        return self._running

    def recent(self, since: float) -> tuple[int, int]:  # noqa: ARG002 - that of the record
        return self._recent

    def recent_turns(self, since: float) -> Iterable[tuple[float, int]]:  # noqa: ARG002
        return self.turns

    def spent(self, budget: Budget, begin: float, end: float) -> float:  # noqa: ARG002
        return self.budgets[budget]


async def _count(connection: DatabaseConnection, record: TurnRecord, limits: KeyLimits) -> _Counts:
    tenant, since = name_of(record.tenant), record.started_at - WINDOW
    running, requests, tokens = await connection.fetchrow(_COUNTS, tenant, since)
    counts = _Counts(running, (requests, tokens))
    is_full = limits.requests_per_minute is not None and requests >= limits.requests_per_minute
    most = limits.tokens_per_minute
    if is_full or (most is not None and (tokens >= most or tokens + record.reserved_tokens > most)):
        rows = await connection.fetch(_RECENT_TURNS, tenant, since)
        counts.turns = [(started_at, used) for started_at, used in rows]
    for budget in limits.budgets:
        begin, end = period_at(budget.period, record.started_at)
        days = hour_of(begin) // DAY_HOURS, hour_of(end) // DAY_HOURS
        used, cost = await connection.fetchrow(_SPENT, tenant, *days, begin, end)
        counts.budgets[budget] = used if budget.unit == "tokens" else cost
    return counts


# Reading


def numbered(query: str) -> str:
    """Number the values of a query, which are marked by `?`."""
    first, *rest = query.split("?")
    return first + "".join(f"${place}{each}" for place, each in enumerate(rest, 1))


def storable_values(values: Iterable[object]) -> list[object]:
    return [storable(value) if isinstance(value, str) else value for value in values]


async def turns(connection: DatabaseConnection, filter: TurnFilter, after: str, limit: int) -> TurnPage:
    conditions, values = conditions_of(filter, "strpos")
    if after:
        conditions.append("(started_at, id) < (?, ?)")
        values.extend(position_of(after))
    limit = max(limit, 1)
    query = f"""
    SELECT {NAMES} FROM penstock.turns {where(conditions)}
    ORDER BY started_at DESC, id DESC LIMIT {limit + 1}
    """
    rows = await connection.fetch(numbered(query), *storable_values(values))
    return page_of([originals(row) for row in rows], limit)


_OF_HOUR = f"{_KEY}, {', '.join(SUMS)}"
_OF_TURN = f"""
floor(started_at / {HOUR})::bigint AS hour, tenant, model, target, outcome, 1::bigint AS turns,
    (outcome IN {FAILED})::integer::bigint AS failed, input_tokens, cached_tokens, output_tokens,
    reasoning_tokens, coalesce(cost, 0.0) AS cost, (cost IS NULL)::integer::bigint AS unpriced,
    usage_estimated::integer::bigint AS estimated, duration_ms
"""
GROUPS: dict[Dimension, str] = {
    "key": "tenant",
    "model": "model",
    "target": "target",
    "outcome": "outcome",
    "hour": "hour",
    "day": f"hour / {DAY_HOURS}",
    "month": f"to_char(to_timestamp(hour * {HOUR}) AT TIME ZONE 'UTC', 'YYYY-MM')",
}


def sources_of(
    filter: TurnFilter, by: Sequence[Dimension], of_turn: str, of_sums: str
) -> tuple[str, list[object]]:
    """Return the query for the columns of turns that have ended, and of the sums that stand for them, and its
    values."""
    sources: list[str] = []
    values: list[object] = []
    for table, part in parts_of(filter, by):
        if table == "turns":
            conditions, some = conditions_of(part, "strpos")
            conditions.append("ended_at IS NOT NULL")
            sources.append(f"SELECT {of_turn} FROM penstock.turns {where(conditions)}")
        else:
            conditions, some = conditions_of_sums(part)
            sources.append(f"SELECT {of_sums} FROM penstock.{table} {where(conditions)}")
        values += some
    return " UNION ALL ".join(sources), values


async def totals(
    connection: DatabaseConnection, filter: TurnFilter, by: Sequence[Dimension]
) -> list[TurnTotals]:
    """Add up the sums of whole days and hours, and the turns of the rest; with a search, only turns."""
    sources, values = sources_of(filter, by, _OF_TURN, _OF_HOUR)
    groups = [GROUPS[each] for each in by]
    sums = ", ".join(f"sum({name})" + ("" if name == "cost" else "::bigint") for name in SUMS)
    names = ", ".join(groups)
    ending = f"GROUP BY {names} ORDER BY {names}" if groups else "HAVING count(*) > 0"
    query = f"SELECT {', '.join([*groups, sums])} FROM ({sources}) AS counted {ending}"
    rows = await connection.fetch(numbered(query), *storable_values(values))
    return [totals_of(by, originals(row)) for row in rows]


async def last_used(connection: DatabaseConnection) -> dict[str, float]:
    query = "SELECT tenant, max(started_at) FROM penstock.turns GROUP BY tenant"
    return {original(tenant): used for tenant, used in await connection.fetch(query)}
