"""The ledger in tables: how times are split, and what a row contains."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.store.ledger import HOUR, TurnFilter
from penstock.store.ledger_tables import (
    COLUMNS,
    conditions_of,
    conditions_of_sums,
    parts_of,
    record_of,
    row_of,
    search_of,
)
from tests.store.ledger_records import NOON, ended, started

_SECONDS = {"turns": 0, "turn_hours": HOUR, "turn_days": 24 * HOUR}
_times = st.floats(0.0, 3e9, allow_subnormal=False) | st.integers(0, 800_000).map(
    lambda hour: float(hour * HOUR)
)


@given(_times, st.none() | _times, st.booleans())
def test_the_parts_of_a_time_are_the_whole_time(since: float, until: float | None, by_hour: bool) -> None:
    filter = TurnFilter(since=since, until=until)
    parts = parts_of(filter, ("hour",) if by_hour else ())
    end = math.inf if until is None else until
    pieces = sorted((part.since, math.inf if part.until is None else part.until) for _, part in parts)
    pieces = [piece for piece in pieces if piece[0] < piece[1]]
    if since < end:
        assert pieces[0][0] == since
        assert pieces[-1][1] == end
    assert all(before[1] == after[0] for before, after in pairwise(pieces))
    for table, part in parts:
        if seconds := _SECONDS[table]:
            assert part.since % seconds == 0
            assert part.until is None or part.until % seconds == 0
        assert not (by_hour and table == "turn_days")


def test_a_search_needs_the_turns_themselves() -> None:
    filter = TurnFilter(search="x")
    assert parts_of(filter, ()) == [("turns", filter)]


def test_a_record_is_read_as_it_was_written() -> None:
    record = replace(ended(started("resp_1"), tokens=7, cost=0.5), diagnostics=("a", "b"), stream=True)
    row = row_of(record)
    assert [*row] == [*COLUMNS]
    assert record_of([*row.values()]) == record


def test_nonsense_of_an_upstream_can_be_written() -> None:
    strange = replace(
        ended(started("resp_1")),
        code="\ud800",
        output_tokens=2**90,
        overhead_ms=math.nan,
        diagnostics=("\ud800",),
    )
    row = row_of(strange)
    assert (row["code"], row["output_tokens"], row["overhead_ms"]) == ("?", 2**40, 0.0)
    assert row["diagnostics"] == '["?"]'
    assert "resp_1" in search_of(row)


def test_conditions_have_a_mark_for_each_value() -> None:
    filter = TurnFilter(tenant="a", since=1.0, until=NOON, model="m", target="t", outcome="o", search="X?")
    for conditions, values in (conditions_of(filter, "instr"), conditions_of_sums(filter)):
        assert sum(condition.count("?") for condition in conditions) == len(values)
    assert conditions_of(filter, "strpos")[0][-1] == "strpos(search, ?) > 0"
    assert conditions_of(filter, "strpos")[1][-1] == "x?"
