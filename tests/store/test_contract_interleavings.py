"""The contract of a store: concurrent turns behave like plain lists."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.store.contract import Store
from penstock.store.records import LOCAL, LoggedEvent, Trace
from tests.effort import examples
from tests.store.builders import (
    KINDS,
    Clock,
    closed,
    event,
    item_of,
    items,
    open_test_store,
    opened,
    read,
    trace,
)

TENANTS = (LOCAL, "other")
TURNS = range(4)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.sampled_from(TURNS), st.integers(0, 3)),
        st.tuples(st.just("log"), st.sampled_from(TURNS), st.integers(1, 90)),
        st.tuples(st.just("trace"), st.sampled_from(TURNS), st.integers(1, 3)),
        st.tuples(st.just("close"), st.sampled_from(TURNS), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from(TURNS), st.just(0)),
        st.tuples(st.just("get"), st.sampled_from(TURNS), st.just(0)),
        st.tuples(st.just("events"), st.sampled_from(TURNS), st.integers(-1, 60)),
        st.tuples(st.just("follow"), st.sampled_from(TURNS), st.integers(-1, 60)),
        st.tuples(st.just("tick"), st.just(0), st.integers(0, 3)),
        st.tuples(st.just("settle"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Plain:
    """A turn as plain lists."""

    def __init__(self, id: str, tenant: str) -> None:
        self.id = id
        self.tenant = tenant
        self.status = "in_progress"
        self.events: list[LoggedEvent] = []
        self.traces: list[Trace] = []
        self.input: tuple[str, ...] = ()
        self.output: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        return self.status == "in_progress"


class Run:
    """Applies the steps to a store and to plain lists. A slot is reused after its turn was deleted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.slots: dict[int, Plain] = {}
        self.opened = 0
        self.followers: list[tuple[Plain, int, asyncio.Task[list[LoggedEvent]]]] = []

    async def do(self, step: tuple[str, int, int]) -> None:
        name, slot, number = step
        if name == "open":
            await self.open(slot, number)
        elif name == "tick":
            for _ in range(number):
                await asyncio.sleep(0)
        elif name == "settle":
            await self.store.stats()
        elif slot in self.slots:
            await getattr(self, name)(self.slots[slot], number)

    async def open(self, slot: int, number: int) -> None:
        if slot in self.slots:
            return
        self.opened += 1
        turn = self.slots[slot] = Plain(f"resp_{self.opened}", TENANTS[slot % 2])
        turn.input = tuple(f"in_{self.opened}_{place}" for place in range(number))
        await self.store.open(opened(turn.id, *turn.input, tenant=turn.tenant))

    async def log(self, turn: Plain, number: int) -> None:
        fresh = [event(len(turn.events) + place) for place in range(number)]
        self.store.log(turn.id, fresh)
        if turn.is_running:
            turn.events.extend(fresh)

    async def trace(self, turn: Plain, number: int) -> None:
        fresh = [trace(len(turn.traces) + place) for place in range(number)]
        self.store.trace(turn.id, fresh)
        if turn.is_running:
            turn.traces.extend(fresh)

    async def close(self, turn: Plain, number: int) -> None:
        output = tuple(f"out_{turn.id}_{place}" for place in range(number))
        # Half of them do not wait for the disk, so that the writer lags behind.
        is_closed = await self.store.close(turn.id, closed(turn.id, *output), patience=30 * (number % 2))
        if turn.is_running:
            assert is_closed or not number % 2
            turn.status, turn.output = "completed", output
        else:
            assert not is_closed

    async def delete(self, turn: Plain, _: int) -> None:
        assert await self.store.delete(turn.tenant, turn.id) is not turn.is_running
        if not turn.is_running:
            slot = next(slot for slot, other in self.slots.items() if other is turn)
            del self.slots[slot]
            self.followers = [
                follower for follower in self.followers if await self._reads_another(follower, turn)
            ]
            assert await self.store.get(turn.tenant, turn.id) is None
            assert await read(self.store, turn.id, tenant=turn.tenant) == []

    async def _reads_another(
        self, follower: tuple[Plain, int, asyncio.Task[list[LoggedEvent]]], deleted: Plain
    ) -> bool:
        """Check that a reader of a deleted turn got the first part of its events."""
        turn, after, task = follower
        if turn is not deleted:
            return True
        seen = await asyncio.wait_for(task, 30)
        assert seen == [event for event in turn.events if event.sequence > after][: len(seen)]
        return False

    async def get(self, turn: Plain, _: int) -> None:
        found = await self.store.get(turn.tenant, turn.id)
        assert found is not None
        assert (found.id, found.tenant, found.status) == (turn.id, turn.tenant, turn.status)
        assert await self.store.get(TENANTS[turn.tenant == LOCAL], turn.id) is None
        assert await self.store.traces(turn.tenant, turn.id) == turn.traces
        for id in (*turn.input, *turn.output):
            assert await item_of(self.store, turn.tenant, id) is not None

    async def events(self, turn: Plain, after: int) -> None:
        expected = [event for event in turn.events if event.sequence > after]
        reader = self.store.events(turn.tenant, turn.id, after)
        assert [await anext(reader) for _ in expected] == expected
        if not turn.is_running:
            assert await anext(reader, None) is None

    async def follow(self, turn: Plain, after: int) -> None:
        task = asyncio.ensure_future(read(self.store, turn.id, after, turn.tenant))
        self.followers.append((turn, after, task))

    async def finish(self) -> None:
        for turn in self.slots.values():
            if turn.is_running:
                await self.close(turn, 1)
        for turn, after, task in self.followers:
            expected = [event for event in turn.events if event.sequence > after]
            assert await asyncio.wait_for(task, 30) == expected
        for turn in self.slots.values():
            await self.get(turn, 0)
            chain = await self.store.chain(turn.tenant, turn.id)
            assert chain is not None
            assert (chain[0].input, chain[0].output) == (items(*turn.input), items(*turn.output))
        stats = await self.store.stats()
        assert stats.responses == len(self.slots)
        assert stats.events == sum(len(turn.events) for turn in self.slots.values())


@pytest.mark.parametrize("kind", KINDS)
@given(steps)
@settings(max_examples=examples(120), deadline=None)
def test_any_order_of_operations_equals_plain_lists(kind: str, steps: list[tuple[str, int, int]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with open_test_store(kind, Path(folder), Clock()) as store:
                run = Run(store)
                for step in steps:
                    await run.do(step)
                await run.finish()

    asyncio.run(run())
