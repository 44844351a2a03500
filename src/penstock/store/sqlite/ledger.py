"""The ledger in the file: the SQL for its rows and sums.

A row is written when a turn starts, or only when it ends if that is soon, and never changes after the turn
has ended. In the same transaction it is added to sums, because neither a budget nor a report may read every
row of a month: `turn_hours` and `turn_days` have a row for each combination of what `totals` can be grouped
by, `tenant_days` has what budgets count. The index by start contains everything that turns are filtered by,
so that a page of rare turns is found without reading the others' rows.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.store.ledger import (
    FAILED,
    HOUR,
    INTERRUPTED,
    SEARCHED,
    UNFINISHED,
    Budget,
    Dimension,
    Exceeded,
    KeyLimits,
    TurnFilter,
    TurnPage,
    TurnRecord,
    TurnTotals,
    cursor_of,
    hour_of,
    lower_ascii,
    position_of,
    time_name,
)
from penstock.store.limits import check_limits
from penstock.store.sqlite import workers

COLUMNS = TurnRecord.__struct_fields__
_LARGEST = 2**40
"""A larger number is written as this one: sums of such numbers still fit a column."""
_DAY_HOURS = 24
_LONGEST_MONTH = 31

_NAMES = ", ".join(COLUMNS)
_MARKS = ", ".join("?" * (len(COLUMNS) + 2))
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in (*COLUMNS, "search", "worker") if name != "id")
_WRITE = f"""
INSERT INTO turns ({_NAMES}, search, worker) VALUES ({_MARKS})
ON CONFLICT (id) DO UPDATE SET {_CHANGES} WHERE turns.ended_at IS NULL
"""
_SUMS = (
    "turns",
    "failed",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost",
    "unpriced",
    "estimated",
    "duration_ms",
)
_ADDITIONS = ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
_ADD_TO_SUM = f"""
INSERT INTO %s (hour, tenant, model, target, outcome, {", ".join(_SUMS)})
VALUES ({", ".join("?" * (len(_SUMS) + 5))})
ON CONFLICT (hour, tenant, model, target, outcome) DO UPDATE SET {_ADDITIONS}
"""
_ADD_UP_DAY = f"""
INSERT INTO turn_days (hour, tenant, model, target, outcome, {", ".join(_SUMS)})
SELECT :day, tenant, model, target, outcome, {", ".join(f"sum({name})" for name in _SUMS)} FROM turn_hours
WHERE hour >= :day AND hour < :end GROUP BY tenant, model, target, outcome
"""
_ADD_TO_DAY = """
INSERT INTO tenant_days (tenant, day, tokens, cost) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant, day) DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost
"""

# Writing


def write_records(connection: sqlite3.Connection, records: Iterable[TurnRecord], worker: str = "") -> None:
    """Write records of a worker in their present state. A row of a turn that has ended stays as it is."""
    for record in records:
        values = _values(record)
        row = dict(zip(COLUMNS, values, strict=True))
        search = lower_ascii("\n".join(row[name] for name in SEARCHED))
        if connection.execute(_WRITE, (*values, search, worker)).rowcount and record.ended_at is not None:
            _add_to_sums(connection, row)


def admit(
    connection: sqlite3.Connection, record: TurnRecord, limits: KeyLimits, worker: str = ""
) -> Exceeded | None:
    exceeded = check_limits(record, limits, _Counts(connection, record.tenant))
    if exceeded is None:
        write_records(connection, [record], worker)
    return exceeded


def _values(record: TurnRecord) -> list[Any]:
    """Return the columns of a row, in a form that the file always accepts: records must not be lost because
    an upstream reports nonsense."""
    return [_column(getattr(record, name)) for name in COLUMNS]


def _column(value: object) -> object:
    match value:
        case str():
            return value if value.isascii() else value.encode(errors="replace").decode()
        case int():
            return min(max(int(value), -_LARGEST), _LARGEST)
        case float():
            return value if math.isfinite(value) else 0.0
        case tuple():
            return msgspec.json.encode(value).decode()
    return value


def _add_to_sums(connection: sqlite3.Connection, row: dict[str, Any]) -> None:
    hour, tenant, cost = hour_of(row["started_at"]), row["tenant"], row["cost"]
    key = (tenant, row["model"], row["target"], row["outcome"])
    tokens = [row[name] for name in _SUMS if name.endswith("_tokens")]
    is_failed, is_unpriced = row["outcome"] in FAILED, cost is None
    sums = (1, is_failed, *tokens, cost or 0.0, is_unpriced, row["usage_estimated"], row["duration_ms"])
    connection.execute(_ADD_TO_SUM % "turn_hours", (hour, *key, *sums))
    connection.execute(_ADD_TO_SUM % "turn_days", (_day_begin(hour), *key, *sums))
    used = row["input_tokens"] + row["output_tokens"]
    connection.execute(_ADD_TO_DAY, (tenant, hour // _DAY_HOURS, used, cost or 0.0))


def _day_begin(hour: int) -> int:
    """Return the first hour of the day that contains an hour."""
    return hour // _DAY_HOURS * _DAY_HOURS


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
    records = [
        replace(
            record,
            ended_at=now,
            outcome="failed",
            closer="gateway",
            code=code,
            usage_estimated=True,
            duration_ms=max(round((now - record.started_at) * 1000), 0),
        )
        for record in map(_record_of, rows)
    ]
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
    connection.execute("DELETE FROM tenant_days WHERE day < ?", (hour // _DAY_HOURS - _LONGEST_MONTH,))
    old = "SELECT rowid FROM turns WHERE started_at < ? AND ended_at IS NOT NULL ORDER BY started_at LIMIT ?"
    return connection.execute(f"DELETE FROM turns WHERE rowid IN ({old})", (hour * HOUR, most)).rowcount


def _delete_sums(connection: sqlite3.Connection, hour: int) -> None:
    """Delete the sums before an hour. The day that it is in is added up again from what is left of it."""
    if connection.execute("DELETE FROM turn_hours WHERE hour < ?", (hour,)).rowcount:
        day = _day_begin(hour)
        connection.execute("DELETE FROM turn_days WHERE hour <= ?", (day,))
        connection.execute(_ADD_UP_DAY, {"day": day, "end": day + _DAY_HOURS})


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
        days = (hour_of(begin) // _DAY_HOURS, hour_of(end) // _DAY_HOURS)
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
    conditions, values = _conditions(filter)
    if after:
        conditions.append("(started_at, id) < (?, ?)")
        values.extend(position_of(after))
    limit = max(limit, 1)
    order = "ORDER BY started_at DESC, id DESC"
    rows = f"SELECT rowid FROM {_indexed(filter)} {_where(conditions)} {order} LIMIT ?"
    query = f"SELECT {_NAMES} FROM turns WHERE rowid IN ({rows}) {order}"
    found = [_record_of(row) for row in connection.execute(query, (*values, limit + 1))]
    page = tuple(found[:limit])
    return TurnPage(page, cursor_of(page[-1]) if len(found) > limit else "")


def _indexed(filter: TurnFilter) -> str:
    """Return the table with the index to use: one that contains everything that the filter looks at."""
    if filter.outcome == UNFINISHED:
        return "turns INDEXED BY turns_unfinished"
    if filter.tenant is not None and not (filter.model or filter.target or filter.outcome or filter.search):
        return "turns INDEXED BY turns_by_tenant"
    return "turns INDEXED BY turns_by_start"


def _record_of(row: Sequence[Any]) -> TurnRecord:
    values = dict(zip(COLUMNS, row, strict=True))
    values["diagnostics"] = msgspec.json.decode(values["diagnostics"])
    return msgspec.convert(values, TurnRecord, strict=False)


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _conditions(filter: TurnFilter) -> tuple[list[str], list[object]]:
    """Return the conditions for rows of `turns`, and their values."""
    conditions, values = _common_conditions(filter)
    if filter.since > 0:
        conditions.append("started_at >= ?")
        values.append(filter.since)
    if filter.until is not None:
        conditions.append("started_at < ?")
        values.append(filter.until)
    if filter.search:
        conditions.append(
            "instr(search, ?)"
        )  # LIKE has wildcards, and limits the length of what it looks for
        values.append(lower_ascii(filter.search))
    if filter.outcome == UNFINISHED:
        conditions.append("ended_at IS NULL")
    return conditions, values


def _common_conditions(filter: TurnFilter) -> tuple[list[str], list[object]]:
    """Return the conditions that rows of `turns` and `turn_hours` can be tested for."""
    wanted = {"model": filter.model, "target": filter.target, "outcome": filter.outcome}
    found = [(f"{name} = ?", value) for name, value in wanted.items() if value]
    if filter.tenant is not None:
        found.insert(0, ("tenant = ?", filter.tenant))
    return [condition for condition, _ in found], [value for _, value in found]


_OF_HOUR = f"hour, tenant, model, target, outcome, {', '.join(_SUMS)}"
_OF_TURN = f"""
CAST(started_at AS INTEGER) / {HOUR} AS hour, tenant, model, target, outcome,
    1 AS turns, outcome IN {FAILED} AS failed, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
    ifnull(cost, 0.0) AS cost, cost IS NULL AS unpriced, usage_estimated AS estimated, duration_ms
"""
_GROUPS: dict[Dimension, str] = {
    "key": "tenant",
    "model": "model",
    "target": "target",
    "outcome": "outcome",
    "hour": "hour",
    "day": f"hour / {_DAY_HOURS}",
    "month": f"strftime('%Y-%m', hour * {HOUR}, 'unixepoch')",
}


def totals(connection: sqlite3.Connection, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
    """Add up the sums of whole days and hours, and the turns of the rest; with a search, only turns."""
    sources: list[str] = []
    values: list[object] = []
    for table, part in _parts(filter, by):
        if table == "turns":
            conditions, some = _conditions(part)
            rows = f"SELECT rowid FROM {_indexed(part)} {_where(conditions)}"
            sources.append(f"SELECT {_OF_TURN} FROM turns WHERE rowid IN ({rows}) AND ended_at IS NOT NULL")
        else:
            conditions, some = _common_conditions(part)
            conditions.append("hour >= ? AND hour < ?")
            some += [hour_of(part.since), _FOREVER if part.until is None else hour_of(part.until)]
            sources.append(f"SELECT {_OF_HOUR} FROM {table} {_where(conditions)}")
        values += some
    groups = [_GROUPS[each] for each in by]
    sums = ", ".join(f"sum({name})" for name in _SUMS)
    ending = f"GROUP BY {', '.join(groups)} ORDER BY {', '.join(groups)}" if groups else "HAVING count(*) > 0"
    query = f"SELECT {', '.join([*groups, sums])} FROM ({' UNION ALL '.join(sources)}) {ending}"
    return [_totals_of(by, row) for row in connection.execute(query, values)]


_FOREVER = 2**62


def _parts(filter: TurnFilter, by: Sequence[Dimension]) -> list[tuple[str, TurnFilter]]:
    """Split the time of a filter into days and hours, for which there are sums, and what is before and after
    them; return each with its table."""
    if filter.search:
        return [("turns", filter)]
    tables = [("turn_hours", HOUR), ("turns", 0)]
    if "hour" not in by:
        tables.insert(0, ("turn_days", _DAY_HOURS * HOUR))
    parts: list[tuple[str, TurnFilter]] = []
    rest = [filter]
    for table, seconds in tables:
        left: list[TurnFilter] = []
        for each in rest:
            inner, outer = _split(each, seconds) if seconds else (each, [])
            parts += [(table, inner)] if inner is not None else []
            left += outer
        rest = left
    return parts


def _split(filter: TurnFilter, seconds: int) -> tuple[TurnFilter | None, list[TurnFilter]]:
    """Return the multiples of a time that are in a filter, and what is before and after them."""
    first = math.ceil(max(filter.since, 0.0) / seconds) * seconds
    last = None if filter.until is None else int(filter.until // seconds) * seconds
    if last is not None and first >= last:
        return None, [filter]
    outer = [replace(filter, until=first)] if filter.since < first else []
    if last is not None and filter.until is not None and last < filter.until:
        outer.append(replace(filter, since=last))
    return replace(filter, since=first, until=last), outer


def _totals_of(by: Sequence[Dimension], row: Sequence[Any]) -> TurnTotals:
    named: dict[str, str] = {name: _group_name(name, value) for name, value in zip(by, row, strict=False)}
    sums = dict(zip(_SUMS, row[len(by) :], strict=True))
    return TurnTotals(group=named, **sums)


def _group_name(dimension: Dimension, value: Any) -> str:
    if dimension == "hour":
        return time_name(dimension, value)
    return time_name(dimension, value * _DAY_HOURS) if dimension == "day" else str(value)


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
