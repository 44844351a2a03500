"""The contract of a store: the ledger and the limits that are counted from it. Holds for every store."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from penstock.store.contract import Store
from penstock.store.ledger import (
    DIMENSIONS,
    HOUR,
    WINDOW,
    Budget,
    Dimension,
    Exceeded,
    KeyLimits,
    TurnFilter,
    TurnRecord,
    TurnTotals,
)
from tests.store.builders import KINDS, Clock, for_every_store, open_test_store
from tests.store.ledger_records import NOON, ended, started, value_of

DAY = 24 * HOUR
EVERYTHING = TurnFilter()


async def ids(store: Store, filter: TurnFilter = EVERYTHING, limit: int = 50) -> list[str]:
    """Return the ids of all turns, read page by page."""
    found: list[str] = []
    page = await store.turns(filter, limit=limit)
    while True:
        found += [turn.id for turn in page.turns]
        if not page.next:
            return found
        page = await store.turns(filter, after=page.next, limit=limit)


# Records


@for_every_store
async def test_a_turn_is_in_the_ledger_while_it_runs_and_after_its_end(store: Store) -> None:
    record = started("resp_1", tokens=100)
    assert await store.admit(record) is None
    assert (await store.turns(EVERYTHING)).turns == (record,)
    settled = replace(
        ended(record, tokens=30, cost=0.25),
        is_stored=True,
        user_agent="client/1 é",
        stream=True,
        overhead_ms=1.5,
        usage_estimated=True,
        diagnostics=("usage.estimated", "tool.renamed"),
    )
    store.settle_turn(settled)
    assert (await store.turns(EVERYTHING)).turns == (settled,)


@for_every_store
async def test_a_settled_record_never_changes(store: Store) -> None:
    settled = ended(started("resp_1"), tokens=30)
    store.settle_turn(settled)
    await store.totals(EVERYTHING, ())  # it is written
    store.settle_turn(replace(settled, outcome="failed", output_tokens=99))
    assert (await store.turns(EVERYTHING)).turns == (settled,)
    assert [totals.turns for totals in await store.totals(EVERYTHING, ())] == [1]


@for_every_store
async def test_pages_are_stable_while_turns_are_added(store: Store) -> None:
    for number in range(5):
        store.settle_turn(ended(started(f"resp_{number}", NOON + number // 2)))
    first = await store.turns(EVERYTHING, limit=2)
    assert [turn.id for turn in first.turns] == ["resp_4", "resp_3"]
    await store.admit(started("resp_9", NOON + 9))
    second = await store.turns(EVERYTHING, after=first.next, limit=2)
    assert [turn.id for turn in second.turns] == ["resp_2", "resp_1"]
    last = await store.turns(EVERYTHING, after=second.next, limit=2)
    assert ([turn.id for turn in last.turns], last.next) == (["resp_0"], "")
    assert await ids(store, limit=1) == ["resp_9", "resp_4", "resp_3", "resp_2", "resp_1", "resp_0"]


@for_every_store
async def test_an_unknown_cursor_is_an_error(store: Store) -> None:
    for cursor in ("nonsense", "x_resp_1", "1.5", "1.5_", "nan_resp_1", "inf_resp_1"):
        with pytest.raises(ValueError, match="cursor"):
            await store.turns(EVERYTHING, after=cursor)


FILTERS: dict[str, tuple[TurnFilter, list[str]]] = {
    "tenant": (TurnFilter(tenant="alice"), ["c", "a"]),
    "nobody": (TurnFilter(tenant=""), []),
    "since": (TurnFilter(since=NOON + 1), ["c", "b"]),
    "until": (TurnFilter(until=NOON + 2), ["b", "a"]),
    "model": (TurnFilter(model="large"), ["b"]),
    "target": (TurnFilter(target="there"), ["c"]),
    "running": (TurnFilter(outcome="running"), ["c"]),
    "outcome": (TurnFilter(outcome="failed"), ["b"]),
    "a part of a request id": (TurnFilter(search="Q_A"), ["a"]),
    "a part of a key's name": (TurnFilter(search="ALI"), ["c", "a"]),
    "a part of an error code": (TurnFilter(search="upstream_"), ["b"]),
    "a part of a user agent": (TurnFilter(search="codex"), ["b"]),
    "a wildcard": (TurnFilter(search="%"), []),
    "another wildcard": (TurnFilter(search="e_"), []),
    "a null character": (TurnFilter(search="\0"), []),
    "a long text": (TurnFilter(search="a" * 60_000), []),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("kind", KINDS)
def test_turns_are_filtered(kind: str, name: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with open_test_store(kind, tmp_path, Clock()) as store:
            store.settle_turn(ended(started("a")))
            store.settle_turn(
                replace(
                    ended(started("b", NOON + 1, tenant="bob")),
                    model="large",
                    outcome="failed",
                    code="upstream_error",
                    user_agent="Codex/1.0",
                )
            )
            await store.admit(replace(started("c", NOON + 2), target="there"))
            filter, expected = FILTERS[name]
            assert await ids(store, filter) == expected

    asyncio.run(run())


# Totals


_times = st.floats(NOON - 40 * DAY, NOON + 3 * HOUR) | st.sampled_from(
    [NOON, NOON + HOUR, math.nextafter(NOON + HOUR, 0.0), NOON - 12 * HOUR]
)
_counts = st.integers(0, 10**6)
_records = st.builds(
    TurnRecord,
    id=st.uuids().map(str),
    tenant=st.sampled_from(["alice", "bob"]),
    started_at=_times,
    ended_at=st.none() | st.just(NOON + DAY),
    model=st.sampled_from(["large", "small", ""]),
    target=st.sampled_from(["here", ""]),
    outcome=st.sampled_from(["completed", "failed", "refused", "cancelled"]),
    cost=st.none() | st.integers(0, 1000).map(lambda number: number / 8),
    usage_estimated=st.booleans(),
    input_tokens=_counts,
    cached_tokens=_counts,
    output_tokens=_counts,
    reasoning_tokens=_counts,
    duration_ms=_counts,
)
_filters = st.builds(
    TurnFilter,
    tenant=st.sampled_from([None, "alice"]),
    since=st.just(0.0) | _times,
    until=st.none() | _times,
    model=st.sampled_from(["", "large"]),
    outcome=st.sampled_from(["", "failed"]),
    search=st.sampled_from(["", "LARGE"]),
)


def _selects(filter: TurnFilter, record: TurnRecord) -> bool:
    return (
        record.ended_at is not None
        and filter.tenant in (None, record.tenant)
        and filter.since <= record.started_at < (math.inf if filter.until is None else filter.until)
        and filter.model in ("", record.model)
        and filter.outcome in ("", record.outcome)
        and (not filter.search or record.model == "large")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_totals_are_the_sums_of_the_records(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    @given(
        st.lists(_records, max_size=12),
        st.lists(
            st.tuples(_filters, st.lists(st.sampled_from(DIMENSIONS), unique=True)), min_size=1, max_size=4
        ),
        st.none() | _times,
    )
    def check(
        records: list[TurnRecord],
        queries: list[tuple[TurnFilter, list[Dimension]]],
        prune_at: float | None,
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
            begin = prune_at // HOUR * HOUR
            old = {each.id for each in records if each.ended_at is not None and each.started_at < begin}
            assert await store.prune_ledger(older_than=prune_at) == len(old)
            records = [each for each in records if each.id not in old]
        for filter, by in queries:
            groups: dict[tuple[str, ...], list[TurnRecord]] = {}
            for record in filter_records(records, filter):
                groups.setdefault(tuple(value_of(record, each) for each in by), []).append(record)
            found = await store.totals(filter, by)
            assert [list(totals.group) for totals in found] == [by] * len(found)
            assert [tuple(totals.group.values()) for totals in found] == sorted(groups)
            for totals in found:
                assert_sums(totals, groups[tuple(totals.group.values())])


def filter_records(records: list[TurnRecord], filter: TurnFilter) -> list[TurnRecord]:
    return [record for record in records if _selects(filter, record)]


def assert_sums(totals: TurnTotals, records: list[TurnRecord]) -> None:
    values = asdict(totals)
    assert values["turns"] == len(records)
    assert values["failed"] == sum(record.outcome in ("failed", "refused") for record in records)
    assert values["unpriced"] == sum(record.cost is None for record in records)
    assert values["estimated"] == sum(record.usage_estimated for record in records)
    assert values["cost"] == sum(record.cost or 0.0 for record in records)
    for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "duration_ms"):
        assert values[name] == sum(getattr(record, name) for record in records)


def test_every_dimension_is_listed() -> None:
    assert get_args(Dimension) == DIMENSIONS


# Limits


@for_every_store
async def test_requests_per_minute_are_counted_in_a_window_that_slides(store: Store) -> None:
    limits = KeyLimits(requests_per_minute=2)
    assert await store.admit(started("a", NOON), limits) is None
    store.settle_turn(ended(started("a", NOON)))
    assert await store.admit(started("b", NOON + 30), limits) is None
    exceeded = await store.admit(started("c", NOON + 40), limits)
    assert exceeded == Exceeded(limit="requests_per_minute", allowed=2, used=2, retry_after=20.0)
    assert await ids(store) == ["b", "a"]  # nothing was opened
    assert await store.admit(started("d", NOON + 40, tenant="bob"), limits) is None
    assert await store.admit(started("e", NOON + WINDOW), limits) is None
    exceeded = await store.admit(started("f", NOON + WINDOW), limits)
    assert exceeded is not None
    assert exceeded.retry_after == 30.0


@for_every_store
async def test_tokens_per_minute_count_reservations_until_the_turn_ends(store: Store) -> None:
    limits = KeyLimits(tokens_per_minute=1000)
    assert await store.admit(started("a", NOON, tokens=600), limits) is None
    exceeded = await store.admit(started("b", NOON + 1, tokens=500), limits)
    assert exceeded == Exceeded(limit="tokens_per_minute", allowed=1000, used=600, retry_after=59.0)
    store.settle_turn(ended(started("a", NOON, tokens=600), tokens=100))
    assert await store.admit(started("b", NOON + 2, tokens=500), limits) is None
    exceeded = await store.admit(started("c", NOON + 3, tokens=600), limits)
    assert exceeded is not None
    assert (exceeded.used, exceeded.retry_after) == (600, 59.0)  # both must leave the window
    exceeded = await store.admit(started("d", NOON + 3, tokens=450), limits)
    assert exceeded is not None
    assert exceeded.retry_after == 57.0  # it is enough that the first leaves


@for_every_store
async def test_a_turn_larger_than_the_limit_waits_for_the_whole_window(store: Store) -> None:
    exceeded = await store.admit(started("a", tokens=1001), KeyLimits(tokens_per_minute=1000))
    assert exceeded is not None
    assert (exceeded.used, exceeded.retry_after) == (0, WINDOW)


@for_every_store
async def test_concurrent_turns_are_those_that_have_not_ended(store: Store) -> None:
    limits = KeyLimits(concurrent_turns=1)
    assert await store.admit(started("a"), limits) is None
    exceeded = await store.admit(started("b", NOON + 900), limits)
    assert exceeded is not None
    assert (exceeded.limit, exceeded.allowed, exceeded.used) == ("concurrent_turns", 1, 1)
    store.settle_turn(ended(started("a")))
    assert await store.admit(started("b", NOON + 900), limits) is None


@for_every_store
async def test_a_budget_counts_a_day_of_utc(store: Store) -> None:
    limits = KeyLimits(budgets=(Budget(1000, "tokens", "day"),))
    store.settle_turn(ended(started("before", NOON - 12 * HOUR - 1), tokens=900))
    assert await store.admit(started("a", tokens=900), limits) is None
    exceeded = await store.admit(started("b", NOON + 1, tokens=101), limits)
    assert exceeded == Exceeded(
        limit="budget",
        allowed=1000,
        used=900,
        retry_after=12 * HOUR - 1,
        budget=limits.budgets[0],
    )
    store.settle_turn(ended(started("a"), tokens=1000))
    assert await store.admit(started("b", NOON + 1), limits) is not None  # nothing is left
    assert await store.admit(started("c", NOON + 12 * HOUR, tokens=1000), limits) is None


@for_every_store
async def test_a_budget_in_dollars_counts_a_month(store: Store) -> None:
    limits = KeyLimits(budgets=(Budget(2.0, "cost", "month"),))
    for day in (-18, -17, 0):  # 31 October, 1 and 18 November
        store.settle_turn(ended(started(f"day{day}", NOON + day * DAY), cost=0.75))
    store.settle_turn(ended(started("unpriced"), tokens=10, cost=None))
    assert await store.admit(started("a", NOON, cost=0.5), limits) is None
    exceeded = await store.admit(started("b", NOON, cost=0.25), limits)
    assert exceeded is not None
    assert (exceeded.used, exceeded.retry_after) == (2.0, 12.5 * DAY)
    await store.prune_ledger(older_than=NOON + HOUR)
    assert await store.admit(started("c", NOON, cost=0.25), limits) is not None  # pruning frees nothing


@for_every_store
async def test_of_several_exceeded_limits_the_longest_wait_is_returned(store: Store) -> None:
    limits = KeyLimits(
        requests_per_minute=0,
        concurrent_turns=0,
        budgets=(Budget(0, "tokens", "day"), Budget(0, "cost", "month")),
    )
    exceeded = await store.admit(started("a"), limits)
    assert exceeded is not None
    assert exceeded.budget == Budget(0, "cost", "month")


@for_every_store
async def test_concurrent_turns_cannot_spend_the_same_budget(store: Store) -> None:
    limits = KeyLimits(budgets=(Budget(1000, "tokens", "day"),))
    admitted = await asyncio.gather(
        *(store.admit(started(f"resp_{number}", tokens=100), limits) for number in range(200))
    )
    assert admitted.count(None) == 10
    assert len(await ids(store)) == 10


@for_every_store
async def test_records_without_limits_count_for_a_tenant_that_gets_limits(store: Store) -> None:
    await store.admit(started("a", tokens=100))
    store.settle_turn(ended(started("b"), tokens=100))
    exceeded = await store.admit(started("c"), KeyLimits(requests_per_minute=2))
    assert exceeded is not None
    assert exceeded.used == 2


@for_every_store
async def test_pruning_keeps_turns_that_run(store: Store) -> None:
    await store.admit(started("running"))
    store.settle_turn(ended(started("ended")))
    store.settle_turn(ended(started("later", NOON + HOUR)))
    assert await store.prune_ledger(older_than=NOON + HOUR + 1) == 1
    assert await ids(store) == ["later", "running"]


@for_every_store
async def test_the_day_that_is_partly_pruned_keeps_the_sums_of_its_other_hours(store: Store) -> None:
    await check_sums_after_pruning(store, kept_from=1)


@for_every_store
async def test_pruning_at_midnight_keeps_the_sums_of_the_day_that_begins(store: Store) -> None:
    await check_sums_after_pruning(store, kept_from=12)


async def check_sums_after_pruning(store: Store, kept_from: int) -> None:
    """Write turns of three days, prune to an hour counted from noon, and compare the sums of each day."""
    hours = range(-24, 40)
    outcomes = ("completed", "failed")
    for hour in hours:
        turn = started(f"resp_{hour}", NOON + hour * HOUR)
        store.settle_turn(replace(ended(turn, tokens=10), outcome=outcomes[hour % 2]))
    assert await store.prune_ledger(older_than=NOON + kept_from * HOUR) == kept_from - hours[0]
    left = Counter((18 + (12 + hour) // 24, outcomes[hour % 2]) for hour in hours if hour >= kept_from)
    totals = await store.totals(EVERYTHING, ("day", "outcome"))
    assert {(each.group["day"], each.group["outcome"]): each.turns for each in totals} == {
        (f"2026-11-{day}", outcome): count for (day, outcome), count in left.items()
    }
    since = TurnFilter(since=NOON + kept_from * HOUR)
    assert [each.turns for each in await store.totals(since, ())] == [hours[-1] + 1 - kept_from]
