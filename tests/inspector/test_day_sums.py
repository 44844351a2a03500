"""The sums of days that are over are kept, and are always those of the ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.inspector import day_sums
from penstock.inspector.day_sums import DAY, DaySums, LedgerSums, Question
from penstock.store.latencies import TurnLatencies, latencies_by
from penstock.store.ledger import Dimension, TurnFilter, TurnRecord, TurnTotals, sum_of
from penstock.store.memory_ledger import MemoryLedger
from tests.store.ledger_records import NOON

FIRST = NOON - NOON % DAY
"""Midnight."""
BY_DAY = Question(TurnFilter(), ("model", "day"), ("model", "day"))
BY_HOUR = Question(TurnFilter(), ("model", "hour"), ("model", "day"))


class CountedLedger(MemoryLedger):
    """Notes the times that are asked for in detail."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[float, float | None]] = []

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        if by != ("day",):
            self.spans.append(((filter.since - FIRST) / DAY, ((filter.until or 0) - FIRST) / DAY))
        return await super().totals(filter, by)


async def end(ledger: MemoryLedger, number: int, day: float, model: str = "m", tenant: str = "anna") -> None:
    record = TurnRecord(
        id=f"resp_{number}",
        tenant=tenant,
        started_at=FIRST + day * DAY,
        ended_at=FIRST + day * DAY + 1,
        model=model,
        outcome="completed",
        input_tokens=number,
        duration_ms=100 + number,
    )
    await ledger.admit(record)
    ledger.settle_turn(record)


def added_up(sums: LedgerSums) -> tuple[TurnTotals, Counter[tuple[str, str]], list[TurnLatencies]]:
    turns: Counter[tuple[str, str]] = Counter()
    for each in sums.totals:
        model, time = each.group.values()
        turns[model, time] += each.turns
    times = [each for by in ("model", "day") for each in latencies_by(by, sums.latencies)]
    return sum_of(sums.totals), turns, sorted(times, key=lambda each: sorted(each.group.items()))


_begins, _moments = st.sampled_from((0, 0.5, 1)), st.integers(0, 16).map(lambda number: number / 4)
_steps = st.one_of(
    st.tuples(st.just("end"), st.sampled_from((0.25, 1.5, 3.75)), st.sampled_from("mn"), st.just("anna")),
    st.tuples(st.just("end"), _moments, st.sampled_from("mn"), st.sampled_from(("anna", "ben"))),
    st.tuples(st.just("prune"), _moments),
    st.tuples(st.just("read"), _begins, st.just(4), st.sampled_from((None, "anna")), st.booleans()),
    st.tuples(st.just("read"), _begins, _moments, st.none(), st.just(False)),
)


@given(st.lists(_steps, min_size=5, max_size=30), st.sampled_from((10_000, 40, 0)), st.sampled_from((8, 2)))
def test_they_are_always_those_of_the_ledger(steps: list[tuple], most: int, spans: int) -> None:  # type: ignore[type-arg]
    async def scenario() -> None:
        ledger, kept = MemoryLedger(), DaySums(most)
        for number, (kind, *values) in enumerate([*steps, ("read", 0.0, 4.5, None, False)]):
            if kind == "end":
                await end(ledger, number, *values)
            elif kind == "prune":
                await ledger.prune_ledger(older_than=FIRST + values[0] * DAY)
            else:
                since, until, tenant, by_hour = values
                totals_by: tuple[Dimension, ...] = ("model", "hour" if by_hour else "day")
                question = Question(TurnFilter(tenant=tenant), totals_by, ("model", "day"))
                times = FIRST + since * DAY, FIRST + max(until, since) * DAY
                fresh = await DaySums(0).read(ledger, question, *times)
                filter = TurnFilter(tenant=tenant, since=times[0], until=times[1])
                direct = LedgerSums(
                    tuple(await ledger.totals(filter, question.totals_by)),
                    tuple(await ledger.latencies(filter, question.latencies_by)),
                )
                found = await kept.read(ledger, question, *times)
                assert added_up(found) == added_up(direct) == added_up(fresh)

    before = day_sums.MOST_SPANS
    day_sums.MOST_SPANS = spans
    try:
        asyncio.run(scenario())
    finally:
        day_sums.MOST_SPANS = before


def test_only_the_parts_that_have_changed_are_read_again() -> None:
    async def scenario() -> None:
        ledger, kept = CountedLedger(), DaySums()
        for day in range(6):
            await end(ledger, day, day + 0.3)

        async def spans(question: Question = BY_DAY) -> list[tuple[float, float | None]]:
            ledger.spans.clear()
            await kept.read(ledger, question, FIRST + DAY / 2, FIRST + 5.5 * DAY)
            return ledger.spans

        assert await spans() == [(0.5, 5.5)]
        assert await spans() == [(0.5, 1), (5, 5.5)]
        await end(ledger, 7, 2.9)
        assert await spans() == [(0.5, 1), (2, 3), (5, 5.5)]
        assert await spans() == [(0.5, 1), (5, 5.5)]
        assert await spans(BY_HOUR) == [(0.5, 5.5)]

    asyncio.run(scenario())


def test_the_days_that_were_asked_for_last_are_kept() -> None:
    async def scenario() -> None:
        ledger = CountedLedger()
        for day in range(4):
            await end(ledger, day, day)
        one_day = (await DaySums().read(ledger, BY_DAY, FIRST, FIRST + DAY)).numbers
        kept = DaySums(2 * one_day)
        await kept.read(ledger, BY_DAY, FIRST, FIRST + 4 * DAY)
        ledger.spans.clear()
        await kept.read(ledger, BY_DAY, FIRST, FIRST + 4 * DAY)
        assert ledger.spans == [(0, 2)]

    asyncio.run(scenario())
