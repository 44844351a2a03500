"""The contract of a store: how long turns took, and why they failed. Holds for every store."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.store.contract import Store
from penstock.store.latencies import TurnLatencies, latencies_of, marks_of, shortens
from penstock.store.ledger import DIMENSIONS, FAILED, HOUR, Dimension, TurnFilter, TurnRecord
from tests.store.builders import KINDS, Clock, for_every_store, open_test_store
from tests.store.ledger_records import NOON, ended, started, value_of

DAY = 24 * HOUR
EVERYTHING = TurnFilter()


def timed(id: str, at: float, first: int, duration: int, *, tenant: str = "alice") -> TurnRecord:
    return replace(ended(started(id, at, tenant=tenant)), first_output_ms=first, duration_ms=duration)


@for_every_store
async def test_percentiles_are_those_of_the_turns_that_have_ended(store: Store) -> None:
    for number in range(100):
        first = 10 * number if number < 50 else -1
        store.settle_turn(timed(f"resp_{number}", NOON + number, first, 100 * number))
    await store.admit(started("running"))
    [found] = await store.latencies(EVERYTHING, ())
    assert (found.group, found.first_output.count, found.duration.count) == ({}, 50, 100)
    assert found.first_output.percentile(50) == pytest.approx(240, rel=0.05)
    assert found.duration.percentile(99) == pytest.approx(9_800, rel=0.05)
    assert await store.latencies(TurnFilter(tenant="bob"), ()) == []
    assert await store.latencies(TurnFilter(tenant="bob"), ("model",)) == []


@for_every_store
async def test_sums_that_were_shortened_count_the_same(store: Store) -> None:
    records = [timed(f"resp_{number}", NOON, number % 7, number % 1000) for number in range(700)]
    assert sum(shortens(record.id) for record in records) > 2
    for record in records:
        store.settle_turn(record)
    for by in ((), ("hour",)):
        [found] = await store.latencies(EVERYTHING, by)
        assert found == expected(records, EVERYTHING, by)[0]


@for_every_store
async def test_causes_are_counted_by_code(store: Store) -> None:
    outcomes = [("failed", "upstream_error"), ("refused", "rate_limit"), ("refused", "rate_limit")]
    for number, (outcome, code) in enumerate([*outcomes, ("failed", ""), ("completed", "x")]):
        record = ended(started(f"resp_{number}", NOON + number * HOUR, tenant=f"t{number % 2}"))
        store.settle_turn(replace(record, outcome=outcome, code=code))
    await store.admit(started("running"))
    assert await store.causes(EVERYTHING) == [("rate_limit", 2), ("", 1), ("upstream_error", 1)]
    assert await store.causes(TurnFilter(tenant="t1")) == [("", 1), ("rate_limit", 1)]
    assert await store.causes(TurnFilter(outcome="failed")) == [("", 1), ("upstream_error", 1)]
    assert await store.causes(TurnFilter(since=NOON + HOUR + 1, until=NOON + 3 * HOUR)) == [("rate_limit", 1)]
    assert await store.causes(TurnFilter(outcome="completed")) == []
    assert await store.prune_ledger(older_than=NOON + 2 * HOUR) == 2
    assert await store.causes(EVERYTHING) == [("", 1), ("rate_limit", 1)]


_moments = st.floats(NOON - 40 * DAY, NOON + 3 * HOUR) | st.sampled_from(
    [NOON, NOON + HOUR, math.nextafter(NOON + HOUR, 0.0), NOON - 12 * HOUR]
)
_records = st.builds(
    TurnRecord,
    id=st.uuids().map(str),
    tenant=st.sampled_from(["alice", "bob"]),
    started_at=_moments,
    ended_at=st.none() | st.just(NOON + DAY),
    model=st.sampled_from(["large", "small", ""]),
    target=st.sampled_from(["here", ""]),
    outcome=st.sampled_from(["completed", "failed", "refused"]),
    code=st.sampled_from(["", "timeout", "overloaded"]),
    first_output_ms=st.integers(-1, 3_000),
    duration_ms=st.integers(0, 2**41),
)
_filters = st.builds(
    TurnFilter,
    tenant=st.sampled_from([None, "alice"]),
    since=st.just(0.0) | _moments,
    until=st.none() | _moments,
    model=st.sampled_from(["", "large"]),
    outcome=st.sampled_from(["", "failed"]),
    search=st.sampled_from(["", "LARGE"]),
)
_queries = st.lists(
    st.tuples(_filters, st.lists(st.sampled_from(DIMENSIONS), unique=True)), min_size=1, max_size=4
)


@pytest.mark.parametrize("kind", KINDS)
def test_times_and_causes_are_those_of_the_records(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @given(st.lists(_records, max_size=12), _queries, st.none() | _moments)
    def check(
        records: list[TurnRecord], queries: list[tuple[TurnFilter, list[Dimension]]], prune_at: float | None
    ) -> None:
        asyncio.run(_compare(kind, tmp_path_factory.mktemp("store"), records, queries, prune_at))

    check()


async def _compare(
    kind: str,
    folder: Path,
    records: list[TurnRecord],
    queries: list[tuple[TurnFilter, list[Dimension]]],
    prune_at: float | None,
) -> None:
    async with open_test_store(kind, folder, Clock()) as store:
        for record in records:
            await store.admit(replace(record, ended_at=None))
            if record.ended_at is not None:
                store.settle_turn(record)
        if prune_at is not None:
            await store.prune_ledger(older_than=prune_at)
            records = [each for each in records if each.started_at >= prune_at // HOUR * HOUR]
        for filter, by in queries:
            assert await store.latencies(filter, by) == expected(records, filter, by)
            failed = [each.code for each in selected(records, filter) if each.outcome in FAILED]
            assert dict(await store.causes(filter)) == Counter(failed)
            groups = [each.group for each in await store.totals(filter, by)]
            assert [each.group for each in await store.latencies(filter, by)] == groups


def selected(records: list[TurnRecord], filter: TurnFilter) -> list[TurnRecord]:
    return [
        record
        for record in records
        if record.ended_at is not None
        and filter.tenant in (None, record.tenant)
        and filter.since <= record.started_at < (math.inf if filter.until is None else filter.until)
        and filter.model in ("", record.model)
        and filter.outcome in ("", record.outcome)
        and (not filter.search or record.model == "large")
    ]


def expected(
    records: list[TurnRecord], filter: TurnFilter, by: tuple[Dimension, ...] | list[Dimension]
) -> list[TurnLatencies]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for record in selected(records, filter):
        marks = marks_of(record.first_output_ms, record.duration_ms)
        groups.setdefault(tuple(value_of(record, each) for each in by), []).append(marks)
    return [latencies_of(dict(zip(by, names, strict=True)), groups[names]) for names in sorted(groups)]
