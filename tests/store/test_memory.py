"""The in-memory store: its limits, and what it deletes first."""

from __future__ import annotations

import asyncio

from penstock.store.contract import LOCAL, Closed, StoredConversation
from penstock.store.memory import MemoryStore
from tests.store.builders import (
    complete_turn,
    event,
    events,
    item,
    item_of,
    items,
    opened,
    read,
)

# The store in memory keeps its bounds by itself


def test_the_least_recently_used_is_deleted_first_and_running_turns_never() -> None:
    async def run() -> None:
        store = MemoryStore(most_responses=4)
        await store.open(opened("resp_runs", "msg_runs"))
        for number in range(3):
            await complete_turn(store, f"resp_{number}", [f"msg_{number}"])
        assert await store.get(LOCAL, "resp_0") is not None  # used
        await complete_turn(store, "resp_3")
        assert await store.get(LOCAL, "resp_1") is None
        assert await item_of(store, LOCAL, "msg_1") is None
        for number in range(4, 20):
            await complete_turn(store, f"resp_{number}")
        assert (await store.stats()).responses == 4
        assert await store.get(LOCAL, "resp_runs") is not None
        assert await item_of(store, LOCAL, "msg_runs") == item("msg_runs")

    asyncio.run(run())


def test_memory_stays_within_its_limit() -> None:
    async def run() -> None:
        store = MemoryStore(most_bytes=50_000)
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
        for number in range(200):
            await complete_turn(store, f"resp_{number}", [f"msg_{number}"], log=events(0, 20))
            await store.add_items(LOCAL, "conv_1", items(f"talk_{number}"))
            assert (await store.stats()).bytes <= 50_000
        assert await store.get(LOCAL, "resp_199") is not None
        assert await store.get(LOCAL, "resp_0") is None
        await store.prune(older_than=0, most_bytes=0)
        assert (await store.stats()).bytes == 0

    asyncio.run(run())


def test_dropped_events_of_a_too_large_log_are_counted() -> None:
    async def run() -> None:
        store = MemoryStore(most_bytes=20_000)
        await complete_turn(store, "resp_0", log=events(0, 50))
        await store.open(opened("resp_1"))
        for number in range(1_000):
            store.log("resp_1", [event(number)])
        assert await store.get(LOCAL, "resp_0") is None, "ended turns are deleted first"
        await store.close("resp_1", Closed(status="completed", response=b""))
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert 0 < found.dropped < 1_000
        assert await read(store, "resp_1") == events(0, 1_000 - found.dropped)

    asyncio.run(run())
