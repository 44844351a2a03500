"""The ledger in the file: the SQL for its rows and sums.

A row is written when a turn starts, or only when it ends if that is soon, and never changes after the turn
has ended. In the same transaction it is added to sums, because neither a budget nor a report may read every
row of a month: `turn_hours` and `turn_days` have a row for each combination of what `totals` can be grouped
by, `tenant_days` has what budgets count. The index by start contains everything that turns are filtered by,
so that a page of rare turns is found without reading the others' rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.store.latencies import compact, marks_of, shortens
from penstock.store.ledger import (
    DIMENSIONS,
    FAILED,
    HOUR,
    INTERRUPTED,
    TIMES,
    UNFINISHED,
    Budget,
    Dimension,
    Exceeded,
    KeyLimits,
    TurnFilter,
    TurnPage,
    TurnRecord,
    TurnTotals,
    hour_of,
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
from penstock.store.sqlite import workers

_NAMES = ", ".join(COLUMNS)
_MARKS = ", ".join("?" * (len(COLUMNS) + 2))
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in (*COLUMNS, "search", "worker") if name != "id")
_WRITE = f"""
INSERT INTO turns ({_NAMES}, search, worker) VALUES ({_MARKS})
ON CONFLICT (id) DO UPDATE SET {_CHANGES} WHERE turns.ended_at IS NULL
"""
_ADDITIONS = ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)
_ADD_TO_SUM = f"""
INSERT INTO %s (hour, tenant, model, target, outcome, {", ".join(SUMS)}, latencies)
VALUES ({", ".join("?" * (len(SUMS) + 6))})
ON CONFLICT (hour, tenant, model, target, outcome)
DO UPDATE SET {_ADDITIONS}, latencies = latencies || excluded.latencies
"""
_ADD_UP_DAY = f"""
INSERT INTO turn_days (hour, tenant, model, target, outcome, {", ".join(SUMS)}, latencies)
SELECT
    :day, tenant, model, target, outcome, {", ".join(f"sum({name})" for name in SUMS)},
    group_concat(latencies, '')
FROM turn_hours WHERE hour >= :day AND hour < :end GROUP BY tenant, model, target, outcome
"""
_OF_SUM = "WHERE hour = ? AND tenant = ? AND model = ? AND target = ? AND outcome = ?"
_ADD_CAUSE = """
INSERT INTO turn_causes (hour, tenant, model, target, outcome, code, turns) VALUES (?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (hour, tenant, model, target, outcome, code) DO UPDATE SET turns = turns + 1
"""
_ADD_TO_DAY = """
INSERT INTO tenant_days (tenant, day, tokens, cost) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, day) DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost
"""

# Writing


def write_records(connection: sqlite3.Connection, records: Iterable[TurnRecord], worker: str = "") -> None:
    """Write records of a worker in their present state. A row of a turn that has ended stays as it is."""
    for record in records:
        row = row_of(record)
        done = connection.execute(_WRITE, (*row.values(), search_of(row), worker))
        if done.rowcount and record.ended_at is not None:
            _add_to_sums(connection, row)


def admit(
    connection: sqlite3.Connection, record: TurnRecord, limits: KeyLimits, worker: str = ""
) -> Exceeded | None:
    exceeded = check_limits(record, limits, _Counts(connection, record.tenant))
    if exceeded is None:
        write_records(connection, [record], worker)
    return exceeded


def _add_to_sums(connection: sqlite3.Connection, row: dict[str, Any]) -> None:
    hour, tenant = hour_of(row["started_at"]), row["tenant"]
    key = (tenant, row["model"], row["target"], row["outcome"])
    sums, marks = sums_of(row), marks_of(row["first_output_ms"], row["duration_ms"])
    for table, begin in (("turn_hours", hour), ("turn_days", day_begin(hour))):
        connection.execute(_ADD_TO_SUM % table, (begin, *key, *sums, marks))
        if shortens(row["id"]):
            _shorten(connection, table, (begin, *key))
    if row["outcome"] in FAILED:
        connection.execute(_ADD_CAUSE, (hour, *key, row["code"]))
    used = row["input_tokens"] + row["output_tokens"]
    connection.execute(_ADD_TO_DAY, (tenant, hour // DAY_HOURS, used, row["cost"] or 0.0))


def _shorten(connection: sqlite3.Connection, table: str, key: tuple[object, ...]) -> None:
    """Make the text with the times of a sum shorter."""
    [(text,)] = connection.execute(f"SELECT latencies FROM {table} {_OF_SUM}", key).fetchall()
    connection.execute(f"UPDATE {table} SET latencies = ? {_OF_SUM}", (compact(text), *key))


def settle_interrupted(
    connection: sqlite3.Connection, now: float, *, code: str = INTERRUPTED, living: Sequence[str] = ()
) -> int:
    """Settle the turns whose worker died while they ran; return their number. Nothing is known of their
    usage. `living` are the workers that still run turns."""
    marks = ", ".join("?" * len(living))
    query = f"""
    SELECT {_NAMES} FROM turns
    WHERE ended_at IS NULL AND worker NOT IN ({marks}) AND id NOT IN (SELECT id FROM running)
    """
    rows = connection.execute(query, living).fetchall()
    records = [interrupted(record, now, code) for record in readable_records(rows)]
    write_records(connection, records)
    return len(records)


def has_orphans(connection: sqlite3.Connection) -> bool:
    """Return whether a worker died that has opened records."""
    known = ["", *workers.living(connection)]  # without a name: this process opened it
    marks = ", ".join("?" * len(known))
    query = f"""
    SELECT 1 FROM turns
    WHERE ended_at IS NULL AND worker NOT IN ({marks}) AND id NOT IN (SELECT id FROM running)
    """
    return connection.execute(query, known).fetchone() is not None


def delete_turns(connection: sqlite3.Connection, older_than: float, most: int) -> int:
    """Delete turns of hours that were over at a time, and the sums of these hours."""
    hour = hour_of(older_than)
    _delete_sums(connection, hour)
    connection.execute("DELETE FROM tenant_days WHERE day < ?", (hour // DAY_HOURS - LONGEST_MONTH,))
    old = "SELECT rowid FROM turns WHERE started_at < ? AND ended_at IS NOT NULL ORDER BY started_at LIMIT ?"
    return connection.execute(f"DELETE FROM turns WHERE rowid IN ({old})", (hour * HOUR, most)).rowcount


def _delete_sums(connection: sqlite3.Connection, hour: int) -> None:
    """Delete the sums before an hour. The day that it is in is added up again from what is left of it."""
    connection.execute("DELETE FROM turn_causes WHERE hour < ?", (hour,))
    if connection.execute("DELETE FROM turn_hours WHERE hour < ?", (hour,)).rowcount:
        day = day_begin(hour)
        connection.execute("DELETE FROM turn_days WHERE hour <= ?", (day,))
        connection.execute(_ADD_UP_DAY, {"day": day, "end": day + DAY_HOURS})


# Counting


_TOKENS = "CASE WHEN ended_at IS NULL THEN reserved_tokens ELSE input_tokens + output_tokens END"


class _Counts:
    """See `store.limits.LedgerCounts`."""

    def __init__(self, connection: sqlite3.Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def running(self) -> int:
        query = "SELECT count(*) FROM turns WHERE tenant = ? AND ended_at IS NULL"
        return int(self._connection.execute(query, (self._tenant,)).fetchone()[0])

    def recent(self, since: float) -> tuple[int, int]:
        query = f"SELECT count(*), ifnull(sum({_TOKENS}), 0) FROM turns WHERE tenant = ? AND started_at > ?"
        count, tokens = self._connection.execute(query, (self._tenant, since)).fetchone()
        return count, tokens

    def recent_turns(self, since: float) -> Iterable[tuple[float, int]]:
        query = (
            f"SELECT started_at, {_TOKENS} FROM turns WHERE tenant = ? AND started_at > ? ORDER BY started_at"
        )
        return self._connection.execute(query, (self._tenant, since))

    def spent(self, budget: Budget, begin: float, end: float) -> float:
        column = "tokens" if budget.unit == "tokens" else "cost"
        settled = (
            f"SELECT ifnull(sum({column}), 0) FROM tenant_days WHERE tenant = ? AND day >= ? AND day < ?"
        )
        days = (hour_of(begin) // DAY_HOURS, hour_of(end) // DAY_HOURS)
        reserved = f"""
        SELECT ifnull(sum(reserved_{column}), 0) FROM turns
        WHERE tenant = ? AND ended_at IS NULL AND started_at >= ? AND started_at < ?
        """
        return sum(
            float(self._connection.execute(query, (self._tenant, *period)).fetchone()[0])
            for query, period in ((settled, days), (reserved, (begin, end)))
        )


# Reading


def turns(connection: sqlite3.Connection, filter: TurnFilter, after: str, limit: int) -> TurnPage:
    conditions, values = conditions_of(filter, "instr")
    if after:
        conditions.append("(started_at, id) < (?, ?)")
        values.extend(position_of(after))
    limit = max(limit, 1)
    order = "ORDER BY started_at DESC, id DESC"
    rows = f"SELECT rowid FROM {indexed(filter)} {where(conditions)} {order} LIMIT ?"
    query = f"SELECT {_NAMES} FROM turns WHERE rowid IN ({rows}) {order}"
    return page_of(connection.execute(query, (*values, limit + 1)).fetchall(), limit)


def indexed(filter: TurnFilter) -> str:
    """Return the table with the index to use: one that contains everything that the filter looks at."""
    if filter.id:
        return "turns"  # by its primary key
    if filter.outcome == UNFINISHED:
        return "turns INDEXED BY turns_unfinished"
    if filter.tenant is not None and not (filter.model or filter.target or filter.outcome or filter.search):
        return "turns INDEXED BY turns_by_tenant"
    return "turns INDEXED BY turns_by_start"


_ADDED_UP = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
_OF_TURN = f"""
CAST(started_at AS INTEGER) / {HOUR} AS hour, tenant, model, target, outcome,
    1 AS turns, outcome IN {FAILED} AS failed, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
    ifnull(cost, 0.0) AS cost, cost IS NULL AS unpriced, usage_estimated AS estimated, duration_ms
"""
GROUPS: dict[Dimension, str] = {
    "key": "tenant",
    "model": "model",
    "target": "target",
    "outcome": "outcome",
    "hour": "hour",
    "day": f"hour / {DAY_HOURS}",
    "month": f"strftime('%Y-%m', hour * {HOUR}, 'unixepoch')",
}


def columns_of(by: Sequence[Dimension]) -> list[str]:
    """Return the columns of the sums by which rows can be added up, in the order of the rows."""
    return ["hour", *(GROUPS[each] for each in DIMENSIONS if each in by and each not in TIMES)]


def totals(connection: sqlite3.Connection, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
    """Add up the sums of whole days and hours, and the turns of the rest; with a search, only turns.

    The rows of a table are in the order of their hours. So each table is added up by hour first: then much
    less has to be sorted, and nothing is copied before it is added up.
    """
    columns = columns_of(by)
    names = ", ".join(columns)
    sources: list[str] = []
    values: list[object] = []
    for table, part in parts_of(filter, by):
        if table == "turns":
            conditions, some = conditions_of(part, "instr")
            rows = f"SELECT rowid FROM {indexed(part)} {where(conditions)}"
            ended = f"SELECT {_OF_TURN} FROM turns WHERE rowid IN ({rows}) AND ended_at IS NOT NULL"
            sources.append(f"SELECT {names}, {', '.join(SUMS)} FROM ({ended})")
        else:
            conditions, some = conditions_of_sums(part)
            sources.append(f"SELECT {names}, {_ADDED_UP} FROM {table} {where(conditions)} GROUP BY {names}")
        values += some
    groups = [GROUPS[each] for each in by]
    ending = f"GROUP BY {', '.join(groups)} ORDER BY {', '.join(groups)}" if groups else "HAVING count(*) > 0"
    query = f"SELECT {', '.join([*groups, _ADDED_UP])} FROM ({' UNION ALL '.join(sources)}) {ending}"
    return [totals_of(by, row) for row in connection.execute(query, values)]


def approximate_bytes(connection: sqlite3.Connection) -> int:
    """Return about how much of the file the ledger takes, without reading it."""
    oldest, newest = (
        connection.execute(f"SELECT {function}(rowid) FROM turns").fetchone()[0]
        for function in ("min", "max")
    )
    return 0 if oldest is None else (int(newest) - int(oldest) + 1) * _ROW_BYTES


_ROW_BYTES = 700
"""Bytes that a turn takes in the file, with its indexes: 400 to 900, measured."""


def last_used(connection: sqlite3.Connection) -> dict[str, float]:
    return dict(connection.execute("SELECT tenant, max(started_at) FROM turns GROUP BY tenant").fetchall())
