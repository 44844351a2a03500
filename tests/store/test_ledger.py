"""Times, cursors and names of the ledger."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.store.ledger import (
    Dimension,
    Period,
    TurnTotals,
    cursor_of,
    period_at,
    position_of,
    sum_of,
    time_name,
    tokens_of,
)
from tests.store.ledger_records import NOON, ended, started

PERIODS: list[tuple[Period, str, str, str]] = [
    ("day", "2026-11-18T12:00", "2026-11-18", "2026-11-19"),
    ("day", "2026-12-31T23:59", "2026-12-31", "2027-01-01"),
    ("month", "2026-11-18T12:00", "2026-11-01", "2026-12-01"),
    ("month", "2026-12-31T23:59", "2026-12-01", "2027-01-01"),
    ("month", "2028-02-29T00:00", "2028-02-01", "2028-03-01"),
]


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("period", "moment", "begin", "end"), PERIODS)
def test_a_period_is_a_day_or_month_of_utc(period: Period, moment: str, begin: str, end: str) -> None:
    assert period_at(period, seconds(moment)) == (seconds(begin), seconds(end))
    assert period_at(period, seconds(begin)) == (seconds(begin), seconds(end))


def test_a_cursor_is_the_exact_position_of_a_record() -> None:
    record = started("resp_1_2", NOON + 0.1)
    assert position_of(cursor_of(record)) == (NOON + 0.1, "resp_1_2")


def test_times_are_named_as_in_iso_8601() -> None:
    names: dict[Dimension, str] = {"hour": "2026-11-18T12:00Z", "day": "2026-11-18", "month": "2026-11"}
    assert {name: time_name(name, int(NOON // 3600)) for name in names} == names


def test_a_reservation_counts_until_the_turn_ends() -> None:
    assert tokens_of(started("resp_1", tokens=100)) == 100
    assert tokens_of(ended(started("resp_1", tokens=100), tokens=7)) == 7


def test_totals_are_added_to_each_other_without_their_groups() -> None:
    names = [name for name in TurnTotals.__struct_fields__ if name != "group"]
    one, other = (
        TurnTotals(group={"key": key}, **dict.fromkeys(names, number)) for key, number in (("a", 1), ("b", 2))
    )
    assert sum_of([one, other]) == TurnTotals(group={}, **dict.fromkeys(names, 3))
    assert sum_of([]) == TurnTotals(group={}, **dict.fromkeys(names, 0))
