"""Pruning the file: the store's own time, and the size of the file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path

from penstock.store.contract import TIME_STEP
from penstock.store.sqlite.shared import hold_file, open_shared_sqlite_store
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.aging import DAY, prune_repeatedly, store_numbered, stored_ids
from tests.store.builders import (
    Clock,
    complete_turn,
    event,
    incompressible_text,
)

# The time from which ages are measured


def test_restarts_with_a_clock_that_is_ahead_do_not_advance_the_time(tmp_path: Path) -> None:
    clock = Clock()

    async def run() -> None:
        for number in range(5):
            store = await open_sqlite_store(tmp_path / "store.db", clock=clock)
            await store_numbered(store, number)
            await prune_repeatedly(store)
            assert "resp_0" in await stored_ids(store)
            await store.aclose()
            clock.now += 40 * DAY

    asyncio.run(run())


def test_a_file_of_the_first_format_starts_with_the_time_of_its_newest_row(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock()

    async def run() -> None:
        store = await open_sqlite_store(path, clock=clock)
        await store_numbered(store, 0)
        await store.aclose()
        with sqlite3.connect(path) as file:
            file.execute("DROP TABLE store_time")
            for index in ("responses_continuing", "responses_by_conversation", "conversations_by_tenant"):
                file.execute(f"DROP INDEX {index}")
            file.execute("ALTER TABLE responses DROP COLUMN accent")
            for table in (
                "recent",
                "turns",
                "turn_hours",
                "turn_days",
                "turn_causes",
                "tenant_days",
                "workers",
                "running",
                "held_keys",
            ):
                file.execute(f"DROP TABLE {table}")
            file.execute("PRAGMA user_version = 1")
        clock.now += 40 * DAY
        store = await open_sqlite_store(path, clock=clock)
        await prune_repeatedly(store)
        assert await stored_ids(store) == ["resp_0", "conv_0"]
        await store.aclose()

    asyncio.run(run())


def test_the_time_catches_up_no_faster_with_more_workers(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock(1_000.0)
    lock = hold_file(path, clock=clock)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            workers = []
            for _ in range(3):
                workers.append(await open_shared_sqlite_store(path, clock=clock))
                stack.push_async_callback(workers[-1].aclose)
            clock.now += 40 * DAY
            times = []
            for number in range(1, 13):  # each of them looks in turn, all of them together every ten minutes
                clock.now += 200
                times.append(await workers[number % 3].advance_time(every=600))
            steps = [(now - 1_000) / TIME_STEP for now in times if now is not None]
            assert steps == [1, 2, 3, 4]

    asyncio.run(run())
    lock.release()


def test_another_worker_advances_the_time_when_one_is_gone(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock()
    lock = hold_file(path, clock=clock)

    async def run() -> None:
        first = await open_shared_sqlite_store(path, clock=clock)
        second = await open_shared_sqlite_store(path, clock=clock)
        assert await first.advance_time(every=600) is not None
        await first.aclose()
        clock.now += 599
        assert await second.advance_time(every=600) is None
        clock.now += 1
        assert await second.advance_time(every=600) == clock.now
        await second.aclose()

    asyncio.run(run())
    lock.release()


def test_a_clock_that_was_ahead_does_not_keep_workers_from_pruning(tmp_path: Path) -> None:
    clock = Clock(100 * DAY)

    async def run() -> None:
        store = await open_sqlite_store(tmp_path / "store.db", clock=clock)
        assert await store.advance_time(every=600) is not None
        clock.now -= 40 * DAY
        assert await store.advance_time(every=600) == clock.now
        clock.now -= 30  # as a time server may do at any time
        assert await store.advance_time(every=600) is None
        await store.aclose()

    asyncio.run(run())


def test_the_file_shrinks_when_much_is_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "store.db"
        store = await open_sqlite_store(path)
        for number in range(30):
            await complete_turn(store, f"resp_{number}", log=[event(0, incompressible_text(number))])
        await store.aclose()
        before = path.stat().st_size
        store = await open_sqlite_store(path)
        await store.prune(older_than=0, most_bytes=0)
        await store.aclose()
        assert path.stat().st_size < before / 2

    asyncio.run(run())
