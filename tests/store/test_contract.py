"""The contract of a store: a turn from its start to its end. Holds for every store."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.contract import TIME_STEP, Store, next_store_time
from penstock.store.records import LOCAL, LoggedEvent
from tests.store.builders import (
    Clock,
    closed,
    complete_turn,
    event,
    events,
    for_every_store,
    item_of,
    items,
    opened,
    read,
    recalled,
    trace,
)


@for_every_store
async def test_a_turn_can_be_retrieved_as_soon_as_it_is_opened(store: Store) -> None:
    turn = opened("resp_1", "msg_1", previous="resp_0", conversation="conv_1", status="queued")
    await store.open(turn)
    found = await store.get(LOCAL, "resp_1")
    assert found is not None
    assert (found.id, found.tenant, found.created_at, found.status) == ("resp_1", LOCAL, 7, "queued")
    assert (found.previous_id, found.conversation_id) == ("resp_0", "conv_1")
    assert (found.request, found.response, found.verdict) == (turn.request, turn.response, b"")
    assert found.dropped == 0


@for_every_store
async def test_an_opened_turn_is_durable(store: Store) -> None:
    for id, is_background in (("resp_1", False), ("resp_2", True)):
        assert await store.open(replace(opened(id, "in_1"), is_background=is_background), patience=30)
        found = await store.get(LOCAL, id)
        assert found is not None
        assert (found.is_durable, found.is_background) == (True, is_background)
        store.log(id, events(0, 3))
        assert await store.close(id, closed(id, "out_1"), patience=30)
        assert await read(store, id) == events(0, 3)
        chain = await store.chain(LOCAL, id)
        assert chain is not None
        assert (chain[0].input, chain[0].output) == (items("in_1"), items("out_1"))


@for_every_store
async def test_a_closed_turn_is_returned_with_its_end(store: Store) -> None:
    assert await complete_turn(store, "resp_1")
    found = await store.get(LOCAL, "resp_1")
    assert found is not None
    assert (found.status, found.response) == ("completed", closed("resp_1").response)
    assert (found.verdict, found.request) == (b'{"ok":true}', opened("resp_1").request)


@for_every_store
async def test_the_accent_of_a_turn_is_stored_from_the_start(store: Store) -> None:
    for id, accent in (("resp_1", "copilot"), ("resp_2", "")):
        await store.open(replace(opened(id), accent=accent))
        for _ in range(2):
            found = await store.get(LOCAL, id)
            assert found is not None
            assert found.accent == accent
            await store.close(id, closed(id), patience=30)


@for_every_store
async def test_a_turn_is_closed_once(store: Store) -> None:
    await store.open(opened("resp_1"))
    assert await store.close("resp_1", closed("resp_1"), patience=30)
    assert not await store.close("resp_1", closed("resp_1", status="failed"), patience=30)
    found = await store.get(LOCAL, "resp_1")
    assert found is not None
    assert found.status == "completed"


@for_every_store
async def test_unknown_ids_return_none_false_or_nothing(store: Store) -> None:
    store.log("resp_no", events(0, 3))
    store.trace("resp_no", [trace(1)])
    assert not await store.close("resp_no", closed("resp_no"))
    assert await store.get(LOCAL, "resp_no") is None
    assert not await store.delete(LOCAL, "resp_no")
    assert await store.input_items(LOCAL, "resp_no") is None
    assert await read(store, "resp_no") == []
    assert await store.traces(LOCAL, "resp_no") == []
    assert await store.chain(LOCAL, "resp_no") is None
    assert await item_of(store, LOCAL, "msg_no") is None
    assert await store.get_conversation(LOCAL, "conv_no") is None
    assert await store.update_conversation(LOCAL, "conv_no", b"{}") is None
    assert not await store.delete_conversation(LOCAL, "conv_no")
    assert not await store.add_items(LOCAL, "conv_no", items("msg_1"))
    assert await store.conversation_items(LOCAL, "conv_no") is None
    assert not await store.delete_item(LOCAL, "conv_no", "msg_1")
    await store.remember(LOCAL, "resp_no", "rs_1", b"secret")
    assert await recalled(store, LOCAL, "rs_1") is None
    assert (await store.stats()).responses == 0


@for_every_store
async def test_a_running_id_cannot_be_opened_again(store: Store) -> None:
    await store.open(opened("resp_1"))
    with pytest.raises(StoreError) as raised:
        await store.open(opened("resp_1", tenant="other"))
    assert raised.value.code == StoreError.DUPLICATE


@for_every_store
async def test_the_log_is_read_after_any_sequence_number(store: Store) -> None:
    await store.open(opened("resp_1"))
    for begin in range(0, 100, 7):
        store.log("resp_1", events(begin, begin + 7))
        await asyncio.sleep(0)
    await store.close("resp_1", closed("resp_1"), patience=30)
    for after in range(-1, 110):
        assert await read(store, "resp_1", after) == events(after + 1, 105)


@for_every_store
async def test_a_large_log_is_read_in_order(store: Store) -> None:
    await store.open(opened("resp_1"))
    large = [event(number, "y" * 700) for number in range(1_000)]
    store.log("resp_1", large)
    await store.close("resp_1", closed("resp_1"), patience=30)
    assert await read(store, "resp_1") == large
    assert await read(store, "resp_1", 990) == large[991:]


@for_every_store
async def test_events_after_the_end_are_ignored(store: Store) -> None:
    await complete_turn(store, "resp_1", log=events(0, 2))
    store.log("resp_1", events(2, 4))
    store.trace("resp_1", [trace(1)])
    assert await read(store, "resp_1") == events(0, 2)
    assert await store.traces(LOCAL, "resp_1") == []


@for_every_store
async def test_traces_are_read_in_order_during_a_turn_and_after_it(store: Store) -> None:
    await store.open(opened("resp_1"))
    for size in range(10):
        store.trace("resp_1", [trace(size), trace(size)])
        if size % 3 == 0:
            await store.stats()  # writes what is in memory
        assert [one.size for one in await store.traces(LOCAL, "resp_1")] == sorted([*range(size + 1)] * 2)
    await store.close("resp_1", closed("resp_1"), patience=30)
    assert await store.traces(LOCAL, "resp_1") == [trace(size) for size in range(10) for _ in range(2)]


@for_every_store
async def test_a_slow_reader_does_not_delay_other_readers(store: Store) -> None:
    await store.open(opened("resp_1"))
    store.log("resp_1", events(0, 10))
    fast = [asyncio.ensure_future(read(store, "resp_1", after)) for after in (-1, 4, 30)]
    slow = store.events(LOCAL, "resp_1")
    received = [await anext(slow)]
    for begin in range(10, 300, 10):
        store.log("resp_1", events(begin, begin + 10))
        await asyncio.sleep(0)
        if begin % 50 == 0:
            await store.stats()  # writes most of it to the file
            received.append(await anext(slow))
    await store.close("resp_1", closed("resp_1"), patience=30)
    assert await asyncio.gather(*fast) == [events(0, 300), events(5, 300), events(31, 300)]
    received.extend([event async for event in slow])
    assert received == events(0, 300)


@for_every_store
async def test_a_reader_gets_events_while_the_turn_runs(store: Store) -> None:
    await store.open(opened("resp_1"))
    reader = store.events(LOCAL, "resp_1")
    first = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    assert not first.done()
    store.log("resp_1", events(0, 1))
    assert await first == event(0)
    rest = asyncio.ensure_future(anext(reader, None))
    await asyncio.sleep(0)
    await store.close("resp_1", closed("resp_1"), patience=30)
    assert await rest is None


@for_every_store
async def test_a_cancelled_reader_does_not_affect_other_readers(store: Store) -> None:
    await store.open(opened("resp_1"))
    cancelled, remaining = (asyncio.ensure_future(read(store, "resp_1")) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait({cancelled})
    store.log("resp_1", events(0, 3))
    await store.close("resp_1", closed("resp_1"), patience=30)
    assert await remaining == events(0, 3)


@for_every_store
async def test_readers_end_when_the_store_is_closed(store: Store) -> None:
    await store.open(opened("resp_1"))
    reader = asyncio.ensure_future(read(store, "resp_1"))
    follower = asyncio.ensure_future(store.chain(LOCAL, "resp_1"))
    store.log("resp_1", events(0, 2))
    await asyncio.sleep(0)
    await store.aclose()
    assert await reader == events(0, 2)
    assert await follower is None


@for_every_store
async def test_gaps_in_the_sequence_numbers_are_preserved(store: Store) -> None:
    holed = [event(number) for number in (0, 3, 4, 9)]
    await complete_turn(store, "resp_1", log=holed)
    assert await read(store, "resp_1", 1) == holed[1:]
    assert await read(store, "resp_1", 5) == holed[3:]


@for_every_store
async def test_deleting_a_response_deletes_everything_that_belongs_to_it(store: Store) -> None:
    await store.open(opened("resp_1", "msg_1"))
    store.log("resp_1", events(0, 5))
    store.trace("resp_1", [trace(1)])
    await store.remember(LOCAL, "resp_1", "rs_1", b"secret")
    assert not await store.delete(LOCAL, "resp_1"), "a running response is not deleted"
    await store.close("resp_1", closed("resp_1", "msg_2"), patience=30)
    assert await recalled(store, LOCAL, "rs_1") == b"secret"
    assert await store.delete(LOCAL, "resp_1")
    assert not await store.delete(LOCAL, "resp_1")
    assert await store.get(LOCAL, "resp_1") is None
    assert await read(store, "resp_1") == []
    assert await store.traces(LOCAL, "resp_1") == []
    assert await item_of(store, LOCAL, "msg_1") is None
    assert await item_of(store, LOCAL, "msg_2") is None
    assert await recalled(store, LOCAL, "rs_1") is None
    stats = await store.stats()
    assert (stats.responses, stats.items, stats.events) == (0, 0, 0)


@for_every_store
async def test_reasoning_is_remembered_during_a_turn_and_after_it(store: Store) -> None:
    await store.open(opened("resp_1"))
    await store.remember(LOCAL, "resp_1", "rs_1", b"one")
    assert await recalled(store, LOCAL, "rs_1") == b"one"
    await store.close("resp_1", closed("resp_1"), patience=30)
    await store.remember(LOCAL, "resp_1", "call_1", b"two")
    await store.remember(LOCAL, "resp_1", "rs_1", b"three")
    assert await recalled(store, LOCAL, "call_1") == b"two"
    assert await recalled(store, LOCAL, "rs_1") == b"three"


@for_every_store
async def test_what_a_turn_is_opened_with_is_remembered_at_once_until_it_is_deleted(store: Store) -> None:
    for number, is_background in enumerate((False, True)):
        turn = replace(opened(f"resp_{number}"), is_background=is_background, memory={"key": b"%d" % number})
        await store.open(turn, patience=30)
        assert await recalled(store, LOCAL, "key") == b"%d" % number, "the newest turn counts"
        await store.close(turn.id, closed(turn.id), patience=30)
        assert await recalled(store, LOCAL, "key") == b"%d" % number
        assert await recalled(store, "other", "key") is None
    assert await store.delete(LOCAL, "resp_1")
    assert await recalled(store, LOCAL, "key") is None


@for_every_store
async def test_any_bytes_are_stored_unchanged(store: Store, clock: Clock) -> None:
    strange = bytes(range(256)) * 3
    await store.open(opened("resp_1"))
    store.log("resp_1", [LoggedEvent(0, clock(), strange), LoggedEvent(1, 0.25, b"")])
    await store.close("resp_1", closed("resp_1"), patience=30)
    assert await read(store, "resp_1") == [LoggedEvent(0, clock(), strange), LoggedEvent(1, 0.25, b"")]


@pytest.mark.parametrize(
    ("store_time", "now", "expected"),
    [
        (1_000.0, 1_600.0, 1_600.0),
        (1_000.0, 1_000.0 + TIME_STEP, 1_000.0 + TIME_STEP),
        (1_000.0, 1_000.0 + 40 * TIME_STEP, 1_000.0 + TIME_STEP),
        (1_000.0, 400.0, 1_000.0),
    ],
    ids=["normal", "one step", "a clock that is ahead", "a clock that was set back"],
)
def test_the_stores_time_follows_the_clock_in_steps(store_time: float, now: float, expected: float) -> None:
    assert next_store_time(store_time, now) == expected
