"""The ledger in tables, for every backend that speaks SQL: a row per turn, sums per hour and per day.

Values are marked by `?` in the conditions, and follow in the same order.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.store.ledger import (
    FAILED,
    HOUR,
    SEARCHED,
    UNFINISHED,
    Dimension,
    TurnFilter,
    TurnPage,
    TurnRecord,
    TurnTotals,
    hour_of,
    lower_ascii,
    time_name,
)

_log = logging.getLogger("penstock.store")

COLUMNS = TurnRecord.__struct_fields__
SUMS = TurnTotals.__struct_fields__[1:]
"""The columns that are added up: all of `TurnTotals` but its group."""
DAY_HOURS = 24
LONGEST_MONTH = 31
_LARGEST = 2**40
"""A larger number is written as this one: sums of such numbers still fit a column."""

# Rows


def row_of(record: TurnRecord) -> dict[str, Any]:
    """Return the columns of a row, in a form that a database always accepts: records must not be lost because
    an upstream reports nonsense."""
    return {name: _column(getattr(record, name)) for name in COLUMNS}


def _column(value: object) -> object:
    match value:
        case str():
            return value if value.isascii() else value.encode(errors="replace").decode()
        case bool():
            return value
        case int():
            return min(max(value, -_LARGEST), _LARGEST)
        case float():
            return value if math.isfinite(value) else 0.0
        case tuple():
            return msgspec.json.encode([_column(each) for each in value]).decode()
    return value


def search_of(row: dict[str, Any]) -> str:
    """Return the text in which `TurnFilter.search` is looked for."""
    return lower_ascii("\n".join(row[name] for name in SEARCHED))


def sums_of(row: dict[str, Any]) -> tuple[object, ...]:
    """Return what a turn that has ended adds to the sums of its hour and its day, in the order of `SUMS`."""
    cost = row["cost"]
    tokens = [row[name] for name in SUMS if name.endswith("_tokens")]
    is_failed = int(row["outcome"] in FAILED)
    return (
        1,
        is_failed,
        *tokens,
        cost or 0.0,
        int(cost is None),
        int(row["usage_estimated"]),
        row["duration_ms"],
    )


def record_of(row: Sequence[Any]) -> TurnRecord:
    """Return a record from a row of `COLUMNS`."""
    values = dict(zip(COLUMNS, row, strict=True))
    values["diagnostics"] = msgspec.json.decode(values["diagnostics"])
    return msgspec.convert(values, TurnRecord, strict=False)


def readable_records(rows: Iterable[Sequence[Any]]) -> list[TurnRecord]:
    """Return the records from rows of `COLUMNS`. A row that cannot be read is left out: one damaged row must
    not hide all others."""
    records: list[TurnRecord] = []
    for row in rows:
        try:
            records.append(record_of(row))
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            _report_unreadable()
    return records


@cache
def _report_unreadable() -> None:
    """Log it once: the row is read again and again."""
    _log.error("a row of the ledger cannot be read: such rows are left out")


def page_of(rows: Sequence[Sequence[Any]], limit: int) -> TurnPage:
    """Return a page from rows of `COLUMNS`, of which there is one more if the page is not the last."""
    cursor = ""
    if len(rows) > limit:
        positions = [(row[_STARTED_AT], row[_ID]) for row in rows[:limit]]
        known = [each for each in positions if isinstance(each[0], float) and isinstance(each[1], str)]
        cursor = f"{known[-1][0]!r}_{known[-1][1]}" if known else ""
    return TurnPage(tuple(readable_records(rows[:limit])), cursor)


_STARTED_AT, _ID = COLUMNS.index("started_at"), COLUMNS.index("id")


def interrupted(record: TurnRecord, now: float, code: str) -> TurnRecord:
    """Settle the record of a turn whose process died. Nothing is known of its usage."""
    return replace(
        record,
        ended_at=now,
        outcome="failed",
        closer="gateway",
        code=code,
        usage_estimated=True,
        duration_ms=max(round((now - record.started_at) * 1000), 0),
    )


def day_begin(hour: int) -> int:
    """Return the first hour of the day that contains an hour."""
    return hour // DAY_HOURS * DAY_HOURS


# Filters


def where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def conditions_of(filter: TurnFilter, position: str) -> tuple[list[str], list[object]]:
    """Return the conditions for rows of `turns`, and their values. `position` is the function that returns
    where a text contains another: LIKE has wildcards, and limits the length of what it looks for."""
    conditions, values = _common_conditions(filter)
    if filter.since > 0:
        conditions.append("started_at >= ?")
        values.append(filter.since)
    if filter.until is not None:
        conditions.append("started_at < ?")
        values.append(filter.until)
    if filter.id:
        conditions.append("id = ?")
        values.append(filter.id)
    if filter.search:
        conditions.append(f"{position}(search, ?) > 0")
        values.append(lower_ascii(filter.search))
    if filter.outcome == UNFINISHED:
        conditions.append("ended_at IS NULL")
    return conditions, values


def conditions_of_sums(filter: TurnFilter) -> tuple[list[str], list[object]]:
    """Return the conditions for rows of the sums, and their values."""
    conditions, values = _common_conditions(filter)
    conditions.append("hour >= ? AND hour < ?")
    values += [hour_of(filter.since), _FOREVER if filter.until is None else hour_of(filter.until)]
    return conditions, values


_FOREVER = 2**62


def _common_conditions(filter: TurnFilter) -> tuple[list[str], list[object]]:
    wanted = {"model": filter.model, "target": filter.target, "outcome": filter.outcome}
    found = [(f"{name} = ?", value) for name, value in wanted.items() if value]
    if filter.tenant is not None:
        found.insert(0, ("tenant = ?", filter.tenant))
    return [condition for condition, _ in found], [value for _, value in found]


# Totals


def parts_of(filter: TurnFilter, by: Sequence[Dimension]) -> list[tuple[str, TurnFilter]]:
    """Split the time of a filter into days and hours, for which there are sums, and what is before and after
    them; return each with its table. With a search or an id, there are only turns."""
    if filter.search or filter.id:
        return [("turns", filter)]
    tables = [("turn_hours", HOUR), ("turns", 0)]
    if "hour" not in by:
        tables.insert(0, ("turn_days", DAY_HOURS * HOUR))
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


def totals_of(by: Sequence[Dimension], row: Sequence[Any]) -> TurnTotals:
    """Return totals from a row: a value for each dimension, and `SUMS`."""
    return TurnTotals(group_of(by, row), *row[len(by) :])


def group_of(by: Sequence[Dimension], row: Sequence[Any]) -> dict[str, str]:
    """Return the dimensions from a row that begins with a value for each."""
    return {name: _group_name(name, value) for name, value in zip(by, row, strict=False)}


def _group_name(dimension: Dimension, value: Any) -> str:
    if dimension == "hour":
        return time_name(dimension, value)
    return time_name(dimension, value * DAY_HOURS) if dimension == "day" else str(value)
