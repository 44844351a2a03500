"""Keeping house: what goes when it is old or too much, and what never goes."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from penstock.store.contract import LOCAL, Closed, Store, StoredConversation
from penstock.store.memory import MemoryStore
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.making import (
    Clock,
    closed,
    event,
    events,
    for_both,
    item,
    item_of,
    items,
    opened,
    read,
    whole,
)

DAY = 86_400


@for_both
async def test_prune_takes_what_ended_before_a_time(store: Store, clock: Clock) -> None:
    await store.open(opened("resp_runs"))
    for number in range(5):
        clock.now = 1_000 + number
        await whole(store, f"resp_{number}", [f"msg_{number}"], log=events(0, 2))
    assert await store.prune(older_than=1_003) == 3
    there = [number for number in range(5) if await store.get(LOCAL, f"resp_{number}")]
    assert there == [3, 4]
    assert await store.get(LOCAL, "resp_runs") is not None
    assert await item_of(store, LOCAL, "msg_0") is None
    assert (await store.stats()).events == 4
    assert await store.prune(older_than=1_003) == 0


@for_both
async def test_prune_takes_conversations_that_nobody_changed(store: Store, clock: Clock) -> None:
    for number in range(3):
        await store.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))
    clock.now = 2_000
    await store.update_conversation(LOCAL, "conv_0", b'{"a":"b"}')
    await store.add_items(LOCAL, "conv_1", items("msg_1"))
    assert await store.prune(older_than=1_500) == 0
    there = [number for number in range(3) if await store.get_conversation(LOCAL, f"conv_{number}")]
    assert there == [0, 1]


@for_both
async def test_prune_takes_the_oldest_until_it_fits(store: Store, clock: Clock) -> None:
    await store.open(opened("resp_runs"))
    for number in range(40):
        clock.now += 1
        await store.open(opened(f"resp_{number}"))
        store.log(f"resp_{number}", [event(0, f"{number:04}" + _noise(number))])
        await store.close(f"resp_{number}", closed(f"resp_{number}"), patience=30)
    before = (await store.stats()).bytes
    most = before * 2 // 3
    count = await store.prune(older_than=0, most_bytes=most)
    after = await store.stats()
    assert after.bytes <= most
    assert most - after.bytes < before // 4, "no more goes than must"
    assert after.responses == 41 - count
    there = [number for number in range(40) if await store.get(LOCAL, f"resp_{number}")]
    assert there == list(range(count, 40))
    assert await store.prune(older_than=0, most_bytes=0) == 40 - count
    assert await store.get(LOCAL, "resp_runs") is not None


def _noise(number: int) -> str:
    """Text that does not get smaller."""
    return "".join(f"{(number * 7919 + place * 104729) % 16777213:06x}" for place in range(2_000))


@for_both
async def test_stats_count_what_there_is(store: Store) -> None:
    await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await store.add_items(LOCAL, "conv_1", items("msg_1"))
    await whole(store, "resp_1", ["msg_2", "msg_3"], ["msg_4"], log=events(0, 7))
    await store.open(opened("resp_2", "msg_5"))
    store.log("resp_2", events(0, 3))
    stats = await store.stats()
    assert (stats.responses, stats.items, stats.events, stats.conversations) == (2, 5, 10, 1)
    assert stats.bytes > 0


# The time from which ages are measured


async def look(store: Store, *, times: int = 1, days: int = 30) -> None:
    """What the gateway does every ten minutes."""
    for _ in range(times):
        await store.prune(older_than=await store.advance_time() - days * DAY)


async def there(store: Store) -> list[str]:
    responses = [f"resp_{number}" for number in range(5) if await store.get(LOCAL, f"resp_{number}")]
    talks = [f"conv_{number}" for number in range(5) if await store.get_conversation(LOCAL, f"conv_{number}")]
    return responses + talks


async def keep(store: Store, number: int) -> None:
    await whole(store, f"resp_{number}")
    await store.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))


@for_both
async def test_a_clock_that_is_ahead_for_some_hours_costs_nothing(store: Store, clock: Clock) -> None:
    for number in range(2):
        await keep(store, number)
        clock.now += 12 * DAY
        await look(store, times=12 * 4)
    clock.now += 40 * DAY
    await look(store, times=20)
    await keep(store, 2)  # a row that the wrong clock wrote
    await look(store)
    clock.now -= 40 * DAY
    await look(store)
    assert await there(store) == ["resp_0", "resp_1", "resp_2", "conv_0", "conv_1", "conv_2"]


@for_both
async def test_what_is_kept_gets_old_though_nothing_is_added(store: Store, clock: Clock) -> None:
    await keep(store, 0)
    for _ in range(29):
        clock.now += DAY
        await look(store, times=4)
    assert await there(store) == ["resp_0", "conv_0"]
    clock.now += 2 * DAY
    await look(store, times=8)
    assert await there(store) == []


@for_both
async def test_the_time_catches_up_with_a_clock_that_is_right(store: Store, clock: Clock) -> None:
    """A gateway that was stopped for 100 days, and now runs for three."""
    await keep(store, 0)
    clock.now += 100 * DAY
    await look(store)
    assert await there(store) == ["resp_0", "conv_0"]
    await look(store, times=3 * 24 * 6)
    assert await there(store) == []
    assert await store.advance_time() == clock.now


@for_both
async def test_a_clock_that_is_set_back_makes_nothing_older(store: Store, clock: Clock) -> None:
    await keep(store, 0)
    clock.now -= 400
    assert await store.advance_time() == clock.now
    clock.now += 500
    assert await store.advance_time() == clock.now


def test_a_restart_with_a_clock_that_is_ahead_does_not_move_the_time(tmp_path: Path) -> None:
    clock = Clock()

    async def run() -> None:
        for number in range(5):
            store = await open_sqlite_store(tmp_path / "store.db", clock=clock)
            await keep(store, number)
            await look(store)
            assert "resp_0" in await there(store)
            await store.aclose()
            clock.now += 40 * DAY

    asyncio.run(run())


def test_a_file_of_the_first_format_begins_with_the_time_of_its_newest_row(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock()

    async def run() -> None:
        store = await open_sqlite_store(path, clock=clock)
        await keep(store, 0)
        await store.aclose()
        with sqlite3.connect(path) as file:
            file.execute("DROP TABLE store_time")
            file.execute("PRAGMA user_version = 1")
        clock.now += 40 * DAY
        store = await open_sqlite_store(path, clock=clock)
        await look(store)
        assert await there(store) == ["resp_0", "conv_0"]
        await store.aclose()

    asyncio.run(run())


def test_the_file_shrinks_when_much_is_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "store.db"
        store = await open_sqlite_store(path)
        for number in range(30):
            await whole(store, f"resp_{number}", log=[event(0, _noise(number))])
        await store.aclose()
        before = path.stat().st_size
        store = await open_sqlite_store(path)
        await store.prune(older_than=0, most_bytes=0)
        await store.aclose()
        assert path.stat().st_size < before / 2

    asyncio.run(run())


# The store in memory keeps its bounds by itself


def test_the_least_recently_used_goes_first_and_what_runs_never() -> None:
    async def run() -> None:
        store = MemoryStore(most_responses=4)
        await store.open(opened("resp_runs", "msg_runs"))
        for number in range(3):
            await whole(store, f"resp_{number}", [f"msg_{number}"])
        assert await store.get(LOCAL, "resp_0") is not None  # used
        await whole(store, "resp_3")
        assert await store.get(LOCAL, "resp_1") is None
        assert await item_of(store, LOCAL, "msg_1") is None
        for number in range(4, 20):
            await whole(store, f"resp_{number}")
        assert (await store.stats()).responses == 4
        assert await store.get(LOCAL, "resp_runs") is not None
        assert await item_of(store, LOCAL, "msg_runs") == item("msg_runs")

    asyncio.run(run())


def test_memory_stays_within_its_bytes() -> None:
    async def run() -> None:
        store = MemoryStore(most_bytes=50_000)
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        for number in range(200):
            await whole(store, f"resp_{number}", [f"msg_{number}"], log=events(0, 20))
            await store.add_items(LOCAL, "conv_1", items(f"talk_{number}"))
            assert (await store.stats()).bytes <= 50_000
        assert await store.get(LOCAL, "resp_199") is not None
        assert await store.get(LOCAL, "resp_0") is None
        await store.prune(older_than=0, most_bytes=0)
        assert (await store.stats()).bytes == 0

    asyncio.run(run())


def test_a_log_that_is_too_large_is_cut_and_that_is_told() -> None:
    async def run() -> None:
        store = MemoryStore(most_bytes=20_000)
        await whole(store, "resp_0", log=events(0, 50))
        await store.open(opened("resp_1"))
        for number in range(1_000):
            store.log("resp_1", [event(number)])
        assert await store.get(LOCAL, "resp_0") is None, "what has ended makes room first"
        await store.close("resp_1", Closed(status="completed", response=b""))
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert 0 < found.dropped < 1_000
        assert await read(store, "resp_1") == events(0, 1_000 - found.dropped)

    asyncio.run(run())


@for_both
async def test_what_a_younger_turn_continues_stays(store: Store, clock: Clock) -> None:
    """Without it the younger one could not be continued any more."""
    for id, previous in (("resp_1", None), ("resp_2", "resp_1"), ("resp_old", None)):
        await store.open(opened(id, previous=previous))
        await store.close(id, closed(id))
    clock.now += 1000
    await store.open(opened("resp_3", previous="resp_2"))
    await store.close("resp_3", closed("resp_3"))
    assert await store.prune(older_than=int(clock.now) - 10) == 1
    chain = await store.chain(LOCAL, "resp_3")
    assert chain is not None
    assert [turn.id for turn in chain] == ["resp_1", "resp_2", "resp_3"]
    clock.now += 1000
    assert await store.prune(older_than=int(clock.now) - 10) == 3
