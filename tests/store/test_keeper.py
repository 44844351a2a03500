"""A turn is kept by one step of the pipeline, with no server around it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.protocol.events import Event, LifecycleEvent
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.wire import encode
from penstock.store.contract import LOCAL, Closed, Opened, StoredResponse, Trace
from penstock.store.keeper import NOT_DURABLE, CacheKeeper, StoreKeeper
from penstock.store.memory import MemoryStore
from penstock.store.reasoning_memory import ReasoningCache
from penstock.store.sqlite.store import open_sqlite_store
from penstock.stream.deltas import (
    Delta,
    FinishReason,
    OpaqueReasoning,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from tests.store.builders import read


def machine() -> ResponseStreamStateMachine:
    response = response_for(CreateResponse(model="m"), id="resp_1", created_at=1)
    return ResponseStreamStateMachine(response, clock=lambda: 1.0)


def opened(made: ResponseStreamStateMachine) -> Opened:
    return Opened(id="resp_1", created_at=1, response=encode(made.snapshot))


ENDS: dict[str, tuple[Callable[[ResponseStreamStateMachine], list[Event]], str]] = {
    "finish": (lambda made: made.finish(FinishReason.STOP), "completed"),
    "length": (lambda made: made.finish(FinishReason.LENGTH), "incomplete"),
    "fail": (lambda made: made.fail("server_error", "it broke"), "failed"),
    "cancel": (lambda made: made.cancel(), "cancelled"),
}


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("name", ENDS)
def test_what_is_kept_is_the_snapshot_of_the_machine(tmp_path: Path, name: str, is_large: bool) -> None:
    end, status = ENDS[name]

    async def keep() -> None:
        store = await open_sqlite_store(tmp_path / "kept.sqlite")
        made = machine()
        keeper = StoreKeeper(store, opened(made), verdict=lambda ended: ended.status.encode())
        sent: list[Event] = []
        for events in (made.start(), made.apply(TextDelta("a")), end(made)):
            for batch in [[event] for event in events] if is_large else [events]:
                passed = await keeper.keep(batch, is_large=is_large)
                assert passed == batch
                sent += passed
        kept = await store.get(LOCAL, "resp_1")
        assert kept is not None
        assert json.loads(kept.response) == {**json.loads(encode(made.snapshot)), "status": status}
        assert (kept.status, kept.verdict) == (status, made.snapshot.status.encode())
        logged = [event.data for event in await read(store, "resp_1")]
        assert logged == [encode(event) for event in sent]
        await store.aclose()

    asyncio.run(keep())


def test_traces_from_before_the_beginning_are_kept_in_their_order(tmp_path: Path) -> None:
    """What is asked, and fails, before the first event is part of the story."""

    async def keep() -> list[Trace]:
        store = await open_sqlite_store(tmp_path / "kept.sqlite")
        made = machine()
        keeper = StoreKeeper(store, opened(made))
        traces = [Trace("read", float(number), b"", number) for number in range(200)]
        for trace in traces[:100]:
            keeper.trace(trace)
        await keeper.keep(made.start())
        for trace in traces[100:]:
            keeper.trace(trace)
        await keeper.keep(made.finish(FinishReason.STOP))
        kept = await store.traces(LOCAL, "resp_1")
        await store.aclose()
        assert kept == traces
        return kept

    assert asyncio.run(keep())


class SlowStore(MemoryStore):
    """Takes its time to close a turn."""

    def __init__(self, is_durable: bool = True) -> None:
        super().__init__()
        self.closing, self.may_close = asyncio.Event(), asyncio.Event()
        self._is_durable = is_durable

    async def close(self, id: str, end: Closed, *, patience: float = 0.25) -> bool:
        self.closing.set()
        await self.may_close.wait()
        return await super().close(id, end, patience=patience) and self._is_durable


async def cancelled_keep(
    keeper: StoreKeeper, events: list[Event], until: asyncio.Event, go_on: asyncio.Event
) -> None:
    """Begin to keep events, and be cancelled while the store takes its time."""
    keeping = asyncio.create_task(_keep(keeper, events))
    await until.wait()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    go_on.set()


async def _keep(keeper: StoreKeeper, events: list[Event]) -> None:
    await keeper.keep(events)


def test_a_turn_that_is_stopped_while_it_is_stored_still_ends() -> None:
    """Its terminal event was only waiting for the commit: without it the client would see a broken stream."""
    made = machine()
    events = [*made.start(), *made.apply(TextDelta("a")), *made.finish(FinishReason.STOP)]

    async def stop_it() -> list[Event]:
        store = SlowStore()
        keeper = StoreKeeper(store, opened(made))
        await cancelled_keep(keeper, events, store.closing, store.may_close)
        kept = list(await keeper.keep(events))
        assert [event.data for event in await read(store, "resp_1")] == [encode(event) for event in events]
        return kept

    assert asyncio.run(stop_it()) == events


class SlowToOpen(MemoryStore):
    """Takes its time to open a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.opening, self.may_open = asyncio.Event(), asyncio.Event()

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        self.opening.set()
        await self.may_open.wait()
        return await super().open(turn, patience=patience)


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_turn_that_is_stopped_while_it_is_opened_still_begins(comes_back: bool) -> None:
    """Without `response.created` neither its stream nor its log would be lawful. Whoever is cancelled asks
    for the same events again; if not, they come before whatever is kept next."""
    made = machine()
    events, more = made.start(), made.heartbeat()

    async def stop_it() -> list[bytes]:
        store = SlowToOpen()
        keeper = StoreKeeper(store, opened(made))
        await cancelled_keep(keeper, events, store.opening, store.may_open)
        if comes_back:
            assert await keeper.keep(events) == events
        assert await keeper.keep(more) == more
        await store.close("resp_1", Closed(status="cancelled", response=b"{}"))
        return [event.data for event in await read(store, "resp_1")]

    assert asyncio.run(stop_it()) == [encode(event) for event in [*events, *more]]


def test_a_cancelled_keep_counts_as_one_cancellation() -> None:
    """Or a time-out around it would not be one."""
    made = machine()

    async def time_out() -> None:
        store = SlowToOpen()
        async with asyncio.timeout(0.01):
            await StoreKeeper(store, opened(made)).keep(made.start())

    with pytest.raises(TimeoutError):
        asyncio.run(time_out())


def test_what_may_not_survive_says_so() -> None:
    """Decision 17."""
    made = machine()
    events = [*made.start(), *made.finish(FinishReason.STOP)]

    async def keep() -> LifecycleEvent:
        store = SlowStore(is_durable=False)
        store.may_close.set()
        last = (await StoreKeeper(store, opened(made)).keep(events))[-1]
        assert isinstance(last, LifecycleEvent)
        return last

    told = asyncio.run(keep())
    assert told.response.diagnostics == [NOT_DURABLE]
    assert told.type == "response.completed"


class LateStore(MemoryStore):
    """Has its turns in memory alone, until `is_well`."""

    is_well = False

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        await super().open(turn, patience=patience)
        return False

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        found = await super().get(tenant, id)
        return found and replace(found, is_durable=self.is_well)


def late(events: Sequence[Event]) -> list[bool]:
    responses = [event.response for event in events if isinstance(event, LifecycleEvent)]
    return [response.diagnostics == [NOT_DURABLE] for response in responses]


def test_a_turn_that_begins_late_says_so_until_it_is_durable() -> None:
    made = machine()

    async def keep() -> None:
        store = LateStore()
        keeper = StoreKeeper(store, opened(made))
        sent = list(await keeper.keep(made.start()))
        assert (late(sent), keeper.diagnostics) == ([True, True], [NOT_DURABLE])
        sent += await keeper.keep(made.heartbeat())
        assert late(sent[2:]) == [True]
        store.is_well = True
        sent += await keeper.keep(made.heartbeat())
        assert (late(sent[3:]), keeper.diagnostics) == ([False], [])
        sent += await keeper.keep(made.finish(FinishReason.STOP))
        assert late(sent[4:]) == [False]
        assert [event.data for event in await read(store, "resp_1")] == [encode(event) for event in sent]

    asyncio.run(keep())


def test_a_turn_that_begins_and_ends_at_once_says_of_each_what_is_true() -> None:
    made = machine()
    events = [*made.start(), *made.finish(FinishReason.STOP)]

    async def keep() -> list[bool]:
        return late(await StoreKeeper(LateStore(), opened(made)).keep(events))

    assert asyncio.run(keep()) == [True, True, False], "the end is in the store, and the beginning with it"


def test_of_what_is_not_stored_only_the_reasoning_is_remembered() -> None:
    made = machine()
    deltas: list[Delta] = [
        ReasoningDelta("hm"),
        OpaqueReasoning("sealed"),
        ToolCallDelta("a", id="call_1", name="look", arguments="{}"),
    ]

    async def keep() -> dict[str, Any]:
        cache = ReasoningCache(lambda: 0.0)
        keeper = CacheKeeper(cache, LOCAL)
        events = [*made.start(), *(event for delta in deltas for event in made.apply(delta))]
        assert await keeper.keep(events) == events
        assert not cache.bytes
        await keeper.keep(made.finish(FinishReason.TOOL_CALLS))
        return await cache.recall(LOCAL, ["call_1"])

    assert list(asyncio.run(keep())) == ["call_1"]
