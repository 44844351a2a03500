"""Keepers store a turn as a step of the pipeline, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.protocol.events import Event, LifecycleEvent
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.wire import encode
from penstock.store import keeper as keeper_module
from penstock.store.keeper import NOT_DURABLE, CacheKeeper, StoreKeeper
from penstock.store.memory import MemoryStore
from penstock.store.reasoning_memory import ReasoningCache
from penstock.store.records import LOCAL, Closed, LoggedEvent, Opened, StoredResponse, Trace
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
def test_the_stored_response_is_the_snapshot_of_the_state_machine(
    tmp_path: Path, name: str, is_large: bool
) -> None:
    end, status = ENDS[name]

    async def keep() -> None:
        store = await open_sqlite_store(tmp_path / "store.sqlite")
        made = machine()
        keeper = StoreKeeper(store, opened(made), verdict=lambda ended: ended.status.encode())
        sent: list[Event] = []
        for events in (made.start(), made.apply(TextDelta("a")), end(made)):
            for batch in [[event] for event in events] if is_large else [events]:
                passed = await keeper.keep(batch, is_large=is_large)
                assert passed == batch
                sent += passed
        stored = await store.get(LOCAL, "resp_1")
        assert stored is not None
        assert json.loads(stored.response) == {**json.loads(encode(made.snapshot)), "status": status}
        assert (stored.status, stored.verdict) == (status, made.snapshot.status.encode())
        logged = [event.data for event in await read(store, "resp_1")]
        assert logged == [encode(event) for event in sent]
        await store.aclose()

    asyncio.run(keep())


def test_traces_from_before_the_first_event_are_stored_in_order(tmp_path: Path) -> None:
    """Requests that fail before the first event are part of the record."""

    async def keep() -> list[Trace]:
        store = await open_sqlite_store(tmp_path / "store.sqlite")
        made = machine()
        keeper = StoreKeeper(store, opened(made))
        traces = [Trace("read", float(number), b"", number) for number in range(200)]
        for trace in traces[:100]:
            keeper.trace(trace)
        await keeper.keep(made.start())
        for trace in traces[100:]:
            keeper.trace(trace)
        await keeper.keep(made.finish(FinishReason.STOP))
        stored = await store.traces(LOCAL, "resp_1")
        await store.aclose()
        assert stored == traces
        return stored

    assert asyncio.run(keep())


class SlowStore(MemoryStore):
    """Closes turns only when allowed to."""

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
    """Start storing events, and cancel the task while the store is busy."""
    keeping = asyncio.create_task(_keep(keeper, events))
    await until.wait()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    go_on.set()


async def _keep(keeper: StoreKeeper, events: list[Event]) -> None:
    await keeper.keep(events)


def test_a_turn_that_is_cancelled_while_it_is_closed_still_ends() -> None:
    """Its terminal event only waits for the commit: without it the client would see a broken stream."""
    made = machine()
    events = [*made.start(), *made.apply(TextDelta("a")), *made.finish(FinishReason.STOP)]

    async def stop_it() -> list[Event]:
        store = SlowStore()
        keeper = StoreKeeper(store, opened(made))
        await cancelled_keep(keeper, events, store.closing, store.may_close)
        stored = list(await keeper.keep(events))
        assert [event.data for event in await read(store, "resp_1")] == [encode(event) for event in events]
        return stored

    assert asyncio.run(stop_it()) == events


class SlowToOpen(MemoryStore):
    """Opens turns only when allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.opening, self.may_open = asyncio.Event(), asyncio.Event()

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        self.opening.set()
        await self.may_open.wait()
        return await super().open(turn, patience=patience)


@pytest.mark.parametrize("calls_again", [True, False])
def test_a_turn_that_is_cancelled_while_it_is_opened_still_begins(calls_again: bool) -> None:
    """Without `response.created` neither its stream nor its log would be lawful. A cancelled caller calls
    again with the same events; if it does not, they are stored before the next ones."""
    made = machine()
    events, more = made.start(), made.heartbeat()

    async def stop_it() -> list[bytes]:
        store = SlowToOpen()
        keeper = StoreKeeper(store, opened(made))
        await cancelled_keep(keeper, events, store.opening, store.may_open)
        if calls_again:
            assert await keeper.keep(events) == events
        assert await keeper.keep(more) == more
        await store.close("resp_1", Closed(status="cancelled", response=b"{}"))
        return [event.data for event in await read(store, "resp_1")]

    assert asyncio.run(stop_it()) == [encode(event) for event in [*events, *more]]


def test_a_cancelled_keep_counts_as_one_cancellation() -> None:
    """Otherwise a timeout around it would not raise TimeoutError."""
    made = machine()

    async def time_out() -> None:
        store = SlowToOpen()
        async with asyncio.timeout(0.01):
            await StoreKeeper(store, opened(made)).keep(made.start())

    with pytest.raises(TimeoutError):
        asyncio.run(time_out())


def test_a_response_that_may_not_survive_has_a_diagnostic() -> None:
    """Decision 17."""
    made = machine()
    events = [*made.start(), *made.finish(FinishReason.STOP)]

    async def keep() -> LifecycleEvent:
        store = SlowStore(is_durable=False)
        store.may_close.set()
        last = (await StoreKeeper(store, opened(made)).keep(events))[-1]
        assert isinstance(last, LifecycleEvent)
        return last

    event = asyncio.run(keep())
    assert event.response.diagnostics == [NOT_DURABLE]
    assert event.type == "response.completed"


class LateStore(MemoryStore):
    """Reports its turns as not durable until `is_durable` is set."""

    is_durable = False

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:
        await super().open(turn, patience=patience)
        return False

    async def get(self, tenant: str, id: str) -> StoredResponse | None:
        found = await super().get(tenant, id)
        return found and replace(found, is_durable=self.is_durable)


def late(events: Sequence[Event]) -> list[bool]:
    responses = [event.response for event in events if isinstance(event, LifecycleEvent)]
    return [response.diagnostics == [NOT_DURABLE] for response in responses]


def test_a_turn_that_is_opened_late_reports_it_until_it_is_durable() -> None:
    made = machine()

    async def keep() -> None:
        store = LateStore()
        keeper = StoreKeeper(store, opened(made))
        sent = list(await keeper.keep(made.start()))
        assert (late(sent), keeper.diagnostics) == ([True, True], [NOT_DURABLE])
        sent += await keeper.keep(made.heartbeat())
        assert late(sent[2:]) == [True]
        store.is_durable = True
        sent += await keeper.keep(made.heartbeat())
        assert (late(sent[3:]), keeper.diagnostics) == ([False], [])
        sent += await keeper.keep(made.finish(FinishReason.STOP))
        assert late(sent[4:]) == [False]
        assert [event.data for event in await read(store, "resp_1")] == [encode(event) for event in sent]

    asyncio.run(keep())


def test_a_turn_that_begins_late_but_ends_durably_reports_both() -> None:
    made = machine()
    events = [*made.start(), *made.finish(FinishReason.STOP)]

    async def keep() -> list[bool]:
        return late(await StoreKeeper(LateStore(), opened(made)).keep(events))

    assert asyncio.run(keep()) == [True, True, False], "the end is durable, and with it the start"


def test_only_the_reasoning_of_an_unstored_turn_is_remembered() -> None:
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


def test_with_a_cache_reasoning_is_not_remembered_in_the_store() -> None:
    """A turn that is logged only for its idempotency key."""
    made = machine()
    calls: list[Delta] = [ReasoningDelta("hm"), ToolCallDelta("a", id="call_1", name="look", arguments="{}")]

    async def keep() -> tuple[dict[str, Any], dict[str, bytes], list[int]]:
        cache, store, running = ReasoningCache(lambda: 0.0), MemoryStore(), list[int]()

        def opened_now() -> None:
            running.append(len(store._running))

        keeper = StoreKeeper(store, opened(made), cache=cache, on_open=opened_now)
        for events in (made.start(), *map(made.apply, calls), made.finish(FinishReason.TOOL_CALLS)):
            await keeper.keep(events)
        return await cache.recall(LOCAL, ["call_1"]), await store.recall(LOCAL, ["call_1"]), running

    cached, stored, running = asyncio.run(keep())
    assert (list(cached), stored, running) == (["call_1"], {}, [1]), "it is readable when it is reported"


class FullStore(MemoryStore):
    """Refuses to open turns."""

    async def open(self, turn: Opened, *, patience: float = 0.1) -> bool:  # noqa: ARG002
        raise StoreError(StoreError.FULL, "the disk is full")


def test_a_background_turn_that_cannot_be_opened_raises_and_is_not_stored() -> None:
    made = machine()

    async def keep() -> None:
        store = FullStore()
        keeper = StoreKeeper(store, replace(opened(made), is_background=True))
        with pytest.raises(StoreError):
            await keeper.keep(made.start())
        assert await store.get(LOCAL, "resp_1") is None

    asyncio.run(keep())


def test_a_turn_that_is_much_faster_than_the_disk_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "_BACKLOG", 1_000)
    made = machine()
    settled: list[str] = []

    class Counting(MemoryStore):
        async def settle(self, id: str, *, patience: float = 5.0) -> None:  # noqa: ARG002
            settled.append(id)

    async def keep() -> None:
        keeper = StoreKeeper(Counting(), opened(made))
        await keeper.keep(made.start())
        for _ in range(20):
            await keeper.keep(made.apply(TextDelta("x" * 400)))

    asyncio.run(keep())
    assert 5 <= len(settled) <= 10, "about once per kilobyte, not for every delta"


def test_the_json_of_what_was_kept_is_not_encoded_again(tmp_path: Path) -> None:
    """The log, the record and the client share it."""

    async def keep() -> None:
        store = await open_sqlite_store(tmp_path / "store.sqlite")
        made = machine()
        keeper = StoreKeeper(store, opened(made))
        begin, end = made.start(), made.finish(FinishReason.STOP)
        for events in (begin, end):
            await keeper.keep(events)
            for event in events:
                assert keeper.json_of(event) is keeper.json_of(event)
                assert keeper.json_of(event) == encode(event)
        [*_, last] = await read(store, "resp_1")
        assert last.data is keeper.json_of(end[-1]) or last.data == encode(end[-1])
        stored = await store.get(LOCAL, "resp_1")
        assert stored is not None
        assert stored.response == encode(made.snapshot)
        other = machine().start()[0]
        assert keeper.json_of(other) == encode(other)
        await store.aclose()

    asyncio.run(keep())


class Recorder(MemoryStore):
    """Remembers what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[LoggedEvent] = []
        self.soon: list[bool] = []

    def log(self, id: str, events: Sequence[LoggedEvent], *, soon: bool = False) -> None:
        self.logged += events
        self.soon.append(soon)
        super().log(id, events, soon=soon)


def test_json_that_is_known_is_stored_as_it_is() -> None:
    async def keep() -> None:
        store, made = Recorder(), machine()
        keeper = StoreKeeper(store, opened(made))
        await keeper.keep(made.start())
        events = made.apply(TextDelta("a"))
        assert keeper.can_log(events)
        known: list[bytes | None] = [encode(event) for event in events]
        keeper.log(events, [None, *known[1:]])
        assert [each.data for each in store.logged[2:]] == known
        assert store.logged[3].data is known[1]

    asyncio.run(keep())


def test_the_end_of_an_item_is_written_soon() -> None:
    async def keep() -> None:
        store, made = Recorder(), machine()
        keeper = StoreKeeper(store, opened(made))
        await keeper.keep(made.start())
        await keeper.keep(made.apply(TextDelta("a")))
        await keeper.keep(made.apply(ToolCallDelta("k", id="call_1", name="f", arguments="{}", whole=True)))
        assert store.soon == [False, False, True]  # the call ends the message before it

    asyncio.run(keep())
