"""The in-memory store: its limits, and what it deletes first."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.memory import MemoryStore
from penstock.store.records import LOCAL, Closed, StoredConversation
from tests.store.builders import (
    closed,
    complete_turn,
    event,
    events,
    item,
    item_of,
    items,
    opened,
    read,
)

# Limits


def test_the_least_recently_used_is_deleted_first_and_running_turns_never() -> None:
    async def run() -> None:
        store = MemoryStore(most_responses=4)
        await store.open(opened("resp_runs", "msg_runs"))
        for number in range(3):
            await complete_turn(store, f"resp_{number}", [f"msg_{number}"])
        assert await store.get(LOCAL, "resp_0") is not None  # now recently used
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


def test_conversations_are_deleted_only_after_all_ended_turns() -> None:
    async def run() -> None:
        store = MemoryStore(most_bytes=1_500)
        await store.create_conversation(LOCAL, StoredConversation("conv_old", 1, bytes(500)))
        await store.create_conversation(LOCAL, StoredConversation("conv_new", 1, bytes(500)))
        await complete_turn(store, "resp_1")
        assert await store.get_conversation(LOCAL, "conv_old") is not None  # now recently used
        await store.update_conversation(LOCAL, "conv_new", bytes(900))
        assert await store.get(LOCAL, "resp_1") is None
        assert await store.get_conversation(LOCAL, "conv_new") is not None
        await store.update_conversation(LOCAL, "conv_old", bytes(1_200))
        assert await store.get_conversation(LOCAL, "conv_new") is None
        assert (await store.stats()).bytes <= 1_500

    asyncio.run(run())


def test_an_ended_turn_keeps_its_id() -> None:
    async def run() -> None:
        store = MemoryStore()
        await complete_turn(store, "resp_1")
        with pytest.raises(StoreError) as raised:
            await store.open(opened("resp_1"))
        assert raised.value.code == StoreError.DUPLICATE
        assert "resp_1" in raised.value.message
        assert await store.open(opened("resp_1", tenant="other"))

    asyncio.run(run())


def test_the_newest_item_with_an_id_is_found_until_its_owner_is_deleted() -> None:
    async def run() -> None:
        store = MemoryStore()
        for number in range(3):
            turn = replace(opened(f"resp_{number}"), input=(item("msg_1", str(number)),))
            await store.open(turn)
            await store.close(turn.id, closed(turn.id))
        for deleted, expected in ((1, "2"), (2, "0")):
            await store.delete(LOCAL, f"resp_{deleted}")
            assert await item_of(store, LOCAL, "msg_1") == item("msg_1", expected)

    asyncio.run(run())


def test_deleting_a_response_forgets_only_its_own_reasoning() -> None:
    async def run() -> None:
        store = MemoryStore()
        for id in ("resp_1", "resp_2"):
            await complete_turn(store, id)
            await store.remember(LOCAL, id, "call_1", id.encode())
        await store.delete(LOCAL, "resp_1")
        assert await store.recall(LOCAL, ["call_1"]) == {"call_1": b"resp_2"}, "a newer turn replaced it"
        await store.delete(LOCAL, "resp_2")
        assert await store.recall(LOCAL, ["call_1"]) == {}

    asyncio.run(run())


def test_one_log_cannot_use_all_memory() -> None:
    async def run() -> None:
        store = MemoryStore(most_bytes=100 * 1024 * 1024)
        await store.open(opened("resp_1"))
        megabyte = "x" * 1024 * 1024
        for number in range(20):
            store.log("resp_1", [event(number, megabyte)])
        found = await store.get(LOCAL, "resp_1")
        assert found is not None
        assert found.dropped == 5, "the log of one turn ends at 16 MB"

    asyncio.run(run())
