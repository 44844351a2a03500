"""Threads in memory: listing them does not count as a use, and follows what the store deletes."""

from __future__ import annotations

import asyncio

from penstock.store.memory import MemoryStore
from penstock.store.records import LOCAL
from tests.store.builders import Clock, complete_turn


def test_a_listed_thread_is_still_the_first_to_be_deleted() -> None:
    async def run() -> None:
        store = MemoryStore(most_responses=3, clock=Clock())
        for id, previous in (("a", None), ("b", "a"), ("c", None)):
            await complete_turn(store, id, previous=previous)
        assert [thread.id for thread in (await store.threads(LOCAL)).threads] == ["a"]
        assert [turn.id for turn in await store.chain_turns(LOCAL, "b")] == ["a", "b"]
        await complete_turn(store, "d", previous="c")
        assert [thread.id for thread in (await store.threads(LOCAL)).threads] == ["c"]
        assert [turn.id for turn in await store.chain_turns(LOCAL, "b")] == ["b"]

    asyncio.run(run())


def test_turns_are_in_the_order_in_which_they_began_although_another_ended_first() -> None:
    async def run() -> None:
        store = MemoryStore(clock=Clock())
        for id, previous in (("a", None), ("b", "a"), ("c", "b")):
            await complete_turn(store, id, previous=previous)
        await store.get(LOCAL, "a")  # it is the last in the order of use
        assert [turn.id for turn in await store.chain_turns(LOCAL, "a")] == ["a", "b", "c"]
        assert await store.continuations(LOCAL, "a") == ["b"]

    asyncio.run(run())
