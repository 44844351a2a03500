"""The SQL that reads how long turns took, and why they failed. See `store.latencies` for how that is kept."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.store.latencies import BOUNDS, DURATIONS, TurnLatencies, latencies_of
from penstock.store.ledger import FAILED, HOUR, Dimension, TurnFilter
from penstock.store.ledger_tables import conditions_of, conditions_of_sums, group_of, parts_of, where
from penstock.store.postgres.connections import DatabaseConnection
from penstock.store.postgres.ledger import GROUPS, numbered, originals, sources_of, storable_values
from penstock.store.postgres.text import original

_DIMENSIONS = "hour, tenant, model, target, outcome"


def _mark(column: str, first: int) -> str:
    """Return the mark of a number of milliseconds; `first` is the number of its kind's first mark."""
    bounds = ", ".join(map(str, BOUNDS))
    number = f"({first - 1} + width_bucket(greatest({column}, 0), ARRAY[{bounds}]::bigint[]))"
    return f"chr(65 + {number} / 26) || chr(97 + {number} % 26)"


_OF_TURN = f"""
floor(started_at / {HOUR})::bigint AS hour, tenant, model, target, outcome,
    CASE WHEN first_output_ms < 0 THEN '' ELSE {_mark("first_output_ms", 0)} END
    || {_mark("duration_ms", DURATIONS)} AS latencies
"""


async def latencies(
    connection: DatabaseConnection, filter: TurnFilter, by: Sequence[Dimension]
) -> list[TurnLatencies]:
    """Add the texts of whole days and hours, and of the turns of the rest, to each other."""
    sources, values = sources_of(filter, by, _OF_TURN, f"{_DIMENSIONS}, latencies")
    groups = ", ".join(GROUPS[each] for each in by)
    ending = f"GROUP BY {groups} ORDER BY {groups}" if groups else "HAVING count(*) > 0"
    columns = ", ".join([*(GROUPS[each] for each in by), "string_agg(latencies, '')"])
    query = f"SELECT {columns} FROM ({sources}) AS counted {ending}"
    rows = await connection.fetch(numbered(query), *storable_values(values))
    return [latencies_of(group_of(by, originals(row)), [row[-1]]) for row in rows]


async def causes(connection: DatabaseConnection, filter: TurnFilter) -> list[tuple[str, int]]:
    sources: list[str] = []
    values: list[object] = []
    for table, part in parts_of(filter, ("hour",)):
        if table == "turns":
            conditions, some = conditions_of(part, "strpos")
            conditions += ["ended_at IS NOT NULL", f"outcome IN {FAILED}"]
            sources.append(f"SELECT code, 1::bigint AS turns FROM penstock.turns {where(conditions)}")
        else:
            conditions, some = conditions_of_sums(part)
            sources.append(f"SELECT code, turns FROM penstock.turn_causes {where(conditions)}")
        values += some
    query = f"""
    SELECT code, sum(turns)::bigint FROM ({" UNION ALL ".join(sources)}) AS counted
    GROUP BY code ORDER BY 2 DESC, 1
    """
    rows = await connection.fetch(numbered(query), *storable_values(values))
    return [(original(code), turns) for code, turns in rows]
