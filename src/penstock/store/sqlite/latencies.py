"""The SQL that reads how long turns took, and why they failed. See `store.latencies` for how that is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.store.latencies import TurnLatencies, latencies_of, marks_of
from penstock.store.ledger import FAILED, HOUR, Dimension, TurnFilter
from penstock.store.ledger_tables import conditions_of, conditions_of_sums, group_of, parts_of, where
from penstock.store.sqlite.ledger import GROUPS, indexed

_OF_TURN = f"""
SELECT
    CAST(started_at AS INTEGER) / {HOUR} AS hour, tenant, model, target, outcome, first_output_ms, duration_ms
FROM turns WHERE ended_at IS NOT NULL AND rowid IN (SELECT rowid FROM %s)
"""


def latencies(
    connection: sqlite3.Connection, filter: TurnFilter, by: Sequence[Dimension]
) -> list[TurnLatencies]:
    """Add the texts of whole days and hours to each other, and read the turns of the rest."""
    texts: dict[tuple[Any, ...], list[str]] = {}
    found: Iterable[tuple[list[Any], str]]
    connection.execute("BEGIN")  # All queries see the same state of the file.
    try:
        for table, part in parts_of(filter, by):
            if table == "turns":
                rows = connection.execute(*_turns(part, by))
                found = ((names, marks_of(first, duration)) for *names, first, duration in rows)
            else:
                found = ((names, text) for *names, text in connection.execute(*_sums(table, part, by)))
            for names, text in found:
                # A damaged name may be bytes, which cannot be sorted among texts.
                group = tuple(each if isinstance(each, int) else str(each) for each in names)
                texts.setdefault(group, []).append(text)
    finally:
        connection.execute("COMMIT")
    return [latencies_of(group_of(by, names), texts[names]) for names in sorted(texts)]


def _sums(table: str, filter: TurnFilter, by: Sequence[Dimension]) -> tuple[str, list[object]]:
    """Return the query for the texts of days or hours, and its values."""
    conditions, values = conditions_of_sums(filter)
    groups = [GROUPS[each] for each in by]
    columns = ", ".join([*groups, "group_concat(latencies, '')"])
    ending = f"GROUP BY {', '.join(groups)}" if groups else "HAVING count(*) > 0"
    return f"SELECT {columns} FROM {table} {where(conditions)} {ending}", values


def _turns(filter: TurnFilter, by: Sequence[Dimension]) -> tuple[str, list[object]]:
    """Return the query for the times of turns, and its values."""
    conditions, values = conditions_of(filter, "instr")
    columns = ", ".join([*(GROUPS[each] for each in by), "first_output_ms", "duration_ms"])
    return f"SELECT {columns} FROM ({_OF_TURN % f'{indexed(filter)} {where(conditions)}'})", values


def causes(connection: sqlite3.Connection, filter: TurnFilter) -> list[tuple[str, int]]:
    sources: list[str] = []
    values: list[object] = []
    for table, part in parts_of(filter, ("hour",)):
        if table == "turns":
            conditions, some = conditions_of(part, "instr")
            rows = f"SELECT rowid FROM {indexed(part)} {where(conditions)}"
            ended = f"ended_at IS NOT NULL AND outcome IN {FAILED}"
            sources.append(f"SELECT code, 1 AS turns FROM turns WHERE rowid IN ({rows}) AND {ended}")
        else:
            conditions, some = conditions_of_sums(part)
            sources.append(f"SELECT code, turns FROM turn_causes {where(conditions)}")
        values += some
    query = f"""
    SELECT code, sum(turns) FROM ({" UNION ALL ".join(sources)}) GROUP BY code ORDER BY 2 DESC, 1
    """
    return connection.execute(query, values).fetchall()
