"""Admitting many turns at once, and what happens to waiting records while the database is away."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import StoreError
from penstock.store.ledger import KeyLimits, TurnFilter
from penstock.store.postgres.ledger_writer import LedgerWriter
from tests.store.builders import NO_DELAYS
from tests.store.ledger_records import ended, started
from tests.store.postgres.databases import kill_backends, on_postgres, pool_of, rows, worker_on


@on_postgres
async def test_admissions_that_wait_at_the_same_time_share_transactions(url: str) -> None:
    limits = KeyLimits(concurrent_turns=1_000)
    async with worker_on(url + "?pool_size=2") as store:
        before = await transactions(url)
        admitted = await asyncio.gather(*(store.admit(started(f"r{n}"), limits) for n in range(500)))
        assert admitted == [None] * 500
        assert len((await store.turns(TurnFilter(), limit=1_000)).turns) == 500
    assert await transactions(url) - before < 100


async def transactions(url: str) -> int:
    [(count,)] = await rows(url, "SELECT pg_current_xact_id()::text::bigint")
    return int(count)


@on_postgres
async def test_an_admission_counts_the_records_that_wait(url: str) -> None:
    limits = KeyLimits(concurrent_turns=1)
    async with worker_on(url) as store:
        for number in range(20):
            assert await store.admit(started(f"r{number}"), limits) is None
            assert await store.admit(started("other"), limits) is not None
            store.settle_turn(ended(started(f"r{number}")))


@on_postgres
async def test_a_caller_that_gives_up_does_not_stop_the_others(url: str) -> None:
    limits = KeyLimits(concurrent_turns=9)
    async with worker_on(url) as store:
        tasks = [asyncio.create_task(store.admit(started(f"r{number}"), limits)) for number in range(6)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for number, each in enumerate(found) if number != 2] == [None] * 5


@on_postgres
async def test_conflicts_and_broken_connections_lose_no_record(url: str) -> None:
    async with worker_on(url) as store:
        for number in range(200):
            store.settle_turn(ended(started(f"r{number}"), tokens=1))
            if number % 40 == 0:
                await kill_backends(url)
            await asyncio.sleep(0.001)

        async def count() -> int:
            try:
                return sum(each.turns for each in await store.totals(TurnFilter(), ()))
            except StoreError:
                return 0

        while await count() != 200:
            await asyncio.sleep(0.05)


@on_postgres
async def test_a_closed_writer_admits_nothing(url: str) -> None:
    async with pool_of(url) as pool:
        writer = LedgerWriter(pool, NO_DELAYS, "worker")
        await writer.aclose()
        with pytest.raises(StoreError) as caught:
            await writer.admit(started("r1"), KeyLimits())
        assert caught.value.code == StoreError.CLOSED
