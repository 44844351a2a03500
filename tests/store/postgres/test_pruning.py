"""Pruning in PostgreSQL: logs are dropped with the partitions of their days."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from functools import partial
from typing import TypeVar

from penstock.store.contract import TIME_STEP, Store
from penstock.store.postgres import pruning, workers
from penstock.store.postgres.address import address_of
from penstock.store.postgres.connections import DEADLINE, DatabasePool, Job
from penstock.store.postgres.pruning import add_partition, add_partitions, drop_logs, partitions
from penstock.store.records import LOCAL, Pruned, StoredConversation
from tests.store.builders import Clock, closed, complete_turn, events, opened, read
from tests.store.ledger_records import NOON
from tests.store.postgres.databases import connection_to, on_postgres, pool_of, rows, worker_on

DAY = 86_400.0

T = TypeVar("T")


async def drop_partitions(url: str) -> None:
    async with connection_to(url) as connection:
        for name, _ in await partitions(connection):
            await connection.execute(f"DROP TABLE penstock.{name}")


async def has_log(store: Store, id: str) -> bool:
    stored = await store.get(LOCAL, id)
    assert stored is not None
    return stored.has_log


async def place_of_logs(url: str) -> list[str]:
    found = await rows(url, "SELECT DISTINCT tableoid::regclass::text FROM penstock.segments ORDER BY 1")
    return [name for (name,) in found]


@on_postgres
async def test_each_day_has_a_partition_made_ahead_of_time(url: str) -> None:
    await drop_partitions(url)
    async with pool_of(url) as pool:
        for _ in range(2):
            await add_partitions(pool, NOON)
        days = [day for _, day in await pool.run(partitions)]
    assert days == [date(2026, 11, day) for day in (18, 19, 20, 21)]


@on_postgres
async def test_workers_make_the_partitions_of_a_new_day(url: str) -> None:
    await drop_partitions(url)
    clock = Clock(NOON)
    async with worker_on(url, clock=clock) as store:
        clock.now += 10 * DAY
        await store._peers._renew()
        await complete_turn(store, "resp_1", log=events(0, 2))

        async def is_there() -> bool:
            return ("segments_20261130",) in await rows(url, "SELECT relname::text FROM pg_class")

        while not await is_there():
            await asyncio.sleep(0.01)


@on_postgres
async def test_a_row_without_a_partition_goes_to_the_default_one(url: str) -> None:
    await drop_partitions(url)
    clock = Clock(NOON)
    async with worker_on(url, clock=clock) as store:
        clock.now -= 100 * DAY
        await complete_turn(store, "resp_1", log=events(0, 2))
        assert await place_of_logs(url) == ["penstock.segments_default"]
        assert await read(store, "resp_1") == events(0, 2)
        async with pool_of(url) as pool:
            await pool.transact(partial(add_partition, day=date(2026, 8, 10)))
            assert date(2026, 8, 10) not in [day for _, day in await pool.run(partitions)]


@on_postgres
async def test_logs_of_old_days_are_dropped_and_their_responses_say_so(url: str) -> None:
    await drop_partitions(url)
    clock = Clock(NOON)
    async with worker_on(url, clock=clock) as store:
        await complete_turn(store, "resp_1", ["in_1"], ["out_1"], log=events(0, 3))
        clock.now += DAY
        await complete_turn(store, "resp_2", previous="resp_1", log=events(0, 3))
        clock.now += 3 * DAY
        await complete_turn(store, "resp_3", previous="resp_2", log=events(0, 3))
        assert await store.prune(older_than=clock.now - 2 * DAY) == 0, "a newer turn continues them"
        assert [await has_log(store, f"resp_{number}") for number in (1, 2, 3)] == [False, True, True]
        assert await read(store, "resp_1") == []
        assert await read(store, "resp_2") == events(0, 3)
        assert await store.chain(LOCAL, "resp_3") is not None
        places = await place_of_logs(url)
        assert places == ["penstock.segments_20261119", "penstock.segments_default"]


@on_postgres
async def test_the_log_of_a_running_turn_is_never_dropped(url: str) -> None:
    await drop_partitions(url)
    clock = Clock(NOON)
    async with worker_on(url, clock=clock) as store:
        await store.open(opened("resp_1"), patience=30)
        store.log("resp_1", events(0, 3))
        await store.settle("resp_1")
        clock.now += 20 * DAY
        await store.prune(older_than=clock.now - DAY)
        assert await has_log(store, "resp_1")
        store.log("resp_1", events(3, 5))
        await store.close("resp_1", closed("resp_1"), patience=30)
        assert await read(store, "resp_1") == events(0, 5)


@on_postgres
async def test_logs_that_somebody_reads_are_dropped_another_time(url: str) -> None:
    await drop_partitions(url)
    clock = Clock(NOON)
    async with worker_on(url, clock=clock) as store, connection_to(url) as reader:
        await complete_turn(store, "resp_1", log=events(0, 3))
        await reader.execute("BEGIN; SELECT count(*) FROM penstock.segments")
        clock.now += 9 * DAY
        assert await store.prune(older_than=clock.now - DAY) == 1
        assert await rows(url, "SELECT to_regclass('penstock.segments_20261118') IS NOT NULL") == [(True,)]
        await reader.execute("COMMIT")
        await store.prune(older_than=clock.now - DAY)
        assert await rows(url, "SELECT to_regclass('penstock.segments_20261118') IS NULL") == [(True,)]


@on_postgres
async def test_another_worker_advances_the_time_when_one_is_gone(url: str) -> None:
    clock = Clock(NOON)
    async with worker_on(url, clock=clock) as second:
        async with worker_on(url, clock=clock) as first:
            assert await first.advance_time(every=600) == NOON
        clock.now += 10 * DAY
        assert await second.advance_time(every=600) is None, "the clock of the database counts"
        await rows(url, "UPDATE penstock.held_keys SET until = until - interval '10 minutes'")
        assert await second.advance_time(every=600) == NOON + TIME_STEP


@on_postgres
async def test_a_clock_that_was_ahead_does_not_keep_workers_from_pruning(url: str) -> None:
    async with worker_on(url) as store:
        assert await store.advance_time(every=600) is not None
        for ahead, can_prune in (("1 hour", True), ("30 seconds", False)):
            await rows(url, f"UPDATE penstock.held_keys SET until = until + interval '{ahead}'")
            assert (await store.advance_time(every=600) is not None) is can_prune


@on_postgres
async def test_who_looks_after_dead_workers_does_not_let_time_pass_again(url: str) -> None:
    async with worker_on(url) as store:
        assert await store.advance_time(every=600) is not None
        async with pool_of(url) as pool:
            await pool.transact(partial(workers.settle_orphans, worker="", now=NOON, code="worker_lost"))
        assert await store.advance_time(every=600) is None


@on_postgres
async def test_one_worker_prunes_at_a_time(url: str) -> None:
    clock = Clock(1_000.0)
    async with worker_on(url, clock=clock) as store, connection_to(url) as other:
        await complete_turn(store, "resp_1")
        await other.execute(f"BEGIN; SELECT pg_advisory_xact_lock({pruning._PRUNING_LOCK})")
        assert await store.prune(older_than=2_000.0) == 0
        await other.execute("COMMIT")
        assert await store.prune(older_than=2_000.0) == 1


class InterruptedPool(DatabasePool):
    """Lets another worker prune whenever the size of the store has been measured."""

    def __init__(self, url: str, other: Callable[[], Awaitable[object]]) -> None:
        super().__init__(address_of(url))
        self._other = other

    async def run(self, job: Job[T], *, seconds: float = DEADLINE) -> T:
        found = await super().run(job, seconds=seconds)
        await self._other()
        return found


@on_postgres
async def test_workers_that_prune_at_once_delete_no_more_than_necessary(url: str) -> None:
    clock = Clock()
    async with worker_on(url, clock=clock) as store:
        for number in range(40):
            clock.now += 1
            await complete_turn(store, f"resp_{number}")
        most = (await store.stats()).bytes // 2
        pool = InterruptedPool(url, partial(store.prune, older_than=0, most_bytes=most))
        pruned = await pruning.prune(pool, older_than=0, most_bytes=most)
        await pool.aclose()
        assert pruned == Pruned(), "the other one has done it"
        assert 0.9 * most < (await store.stats()).bytes <= most


@on_postgres
async def test_pruning_does_not_wait_for_what_is_being_changed(url: str) -> None:
    async with worker_on(url, clock=Clock(1_000.0)) as store, connection_to(url) as other:
        for number in range(3):
            await store.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))
            await complete_turn(store, f"resp_{number}")
        await other.execute(
            "BEGIN; UPDATE penstock.conversations SET changed_at = 3000 WHERE id = 'conv_1'; "
            "SELECT FROM penstock.responses WHERE id = 'resp_1' FOR KEY SHARE"
        )
        assert await store.prune(older_than=2_000.0) == 2
        await other.execute("COMMIT")
        assert await store.prune(older_than=2_000.0) == 1
        assert await store.get_conversation(LOCAL, "conv_1") is not None, "it was used meanwhile"
        assert await rows(url, "SELECT id FROM penstock.conversations") == [("conv_1",)]


@on_postgres
async def test_logs_that_an_earlier_version_is_dropping_are_no_failure(url: str) -> None:
    await drop_partitions(url)
    clock = Clock(NOON)
    async with worker_on(url, clock=clock) as store, connection_to(url) as other:
        await complete_turn(store, "resp_1", log=events(0, 3))
        clock.now += 9 * DAY
        await other.execute("BEGIN; DROP TABLE penstock.segments_20261118")
        task = asyncio.create_task(store.prune(older_than=clock.now - DAY))
        while not await rows(url, "SELECT FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)
        await other.execute("COMMIT")
        assert await task == 1
        assert await rows(url, "SELECT to_regclass('penstock.segments_20261119') IS NULL") == [(True,)]


@on_postgres
async def test_what_belongs_to_other_programs_does_not_count_towards_the_limit(url: str) -> None:
    async with worker_on(url, clock=Clock(1_000.0)) as store, connection_to(url) as other:
        await complete_turn(store, "resp_1")
        used = (await store.stats()).bytes
        text = "SELECT string_agg(md5(number::text), '') FROM generate_series(1, 100000) AS number"
        await other.execute(f"CREATE SCHEMA other; CREATE TABLE other.notes AS {text}")
        try:
            assert (await store.stats()).bytes == used
            assert await store.prune(older_than=0, most_bytes=used) == 0
            assert await store.prune(older_than=0, most_bytes=used - 1) == 1
        finally:
            await other.execute("DROP SCHEMA other CASCADE")


@on_postgres
async def test_many_responses_are_deleted_with_everything_of_them(url: str) -> None:
    clock = Clock(1_000.0)
    async with worker_on(url, clock=clock) as store:
        for number in range(2 * pruning.BATCH + 50):
            await store.open(opened(f"resp_{number}", f"in_{number}"), patience=0)
            store.log(f"resp_{number}", events(0, 2))
            await store.remember(LOCAL, f"resp_{number}", f"key_{number}", b"data")
            await store.close(f"resp_{number}", closed(f"resp_{number}", f"out_{number}"), patience=0)
        await store.stats()
        assert await store.prune(older_than=2_000.0) == 2 * pruning.BATCH + 50
        stats = await store.stats()
    assert (stats.responses, stats.items, stats.events, stats.bytes) == (0, 0, 0, 0)
    assert await rows(url, "SELECT count(*) FROM penstock.memories") == [(0,)]


@on_postgres
async def test_dropping_is_a_matter_of_whole_days(url: str) -> None:
    await drop_partitions(url)
    async with pool_of(url) as pool:
        await add_partitions(pool, NOON)
        for older_than, dropped in ((NOON + DAY, 0), (NOON + 1.9 * DAY, 1), (NOON + 2 * DAY, 0)):
            assert await pool.transact(partial(drop_logs, older_than=older_than)) == dropped
