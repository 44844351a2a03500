"""Pruning: what is deleted because it is old or too much. Holds for every store."""

from __future__ import annotations

from penstock.store.contract import Store
from penstock.store.records import LOCAL, StoredConversation
from tests.store.aging import DAY, prune_repeatedly, store_numbered, stored_ids
from tests.store.builders import (
    Clock,
    closed,
    complete_turn,
    event,
    events,
    for_every_store,
    incompressible_text,
    item_of,
    items,
    opened,
)


@for_every_store
async def test_prune_deletes_responses_that_ended_before_a_time(store: Store, clock: Clock) -> None:
    await store.open(opened("resp_runs"))
    for number in range(5):
        clock.now = 1_000 + number
        await complete_turn(store, f"resp_{number}", [f"msg_{number}"], log=events(0, 2))
    assert await store.prune(older_than=1_003) == 3
    there = [number for number in range(5) if await store.get(LOCAL, f"resp_{number}")]
    assert there == [3, 4]
    assert await store.get(LOCAL, "resp_runs") is not None
    assert await item_of(store, LOCAL, "msg_0") is None
    assert (await store.stats()).events == 4
    assert await store.prune(older_than=1_003) == 0


@for_every_store
async def test_prune_deletes_conversations_that_were_not_changed(store: Store, clock: Clock) -> None:
    for number in range(3):
        await store.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))
    clock.now = 2_000
    await store.update_conversation(LOCAL, "conv_0", b'{"a":"b"}')
    await store.add_items(LOCAL, "conv_1", items("msg_1"))
    assert await store.prune(older_than=1_500) == 0
    there = [number for number in range(3) if await store.get_conversation(LOCAL, f"conv_{number}")]
    assert there == [0, 1]


@for_every_store
async def test_prune_deletes_the_oldest_until_it_fits(store: Store, clock: Clock) -> None:
    await store.open(opened("resp_runs"))
    for number in range(40):
        clock.now += 1
        await store.open(opened(f"resp_{number}"))
        store.log(f"resp_{number}", [event(0, f"{number:04}" + incompressible_text(number))])
        await store.close(f"resp_{number}", closed(f"resp_{number}"), patience=30)
    before = (await store.stats()).bytes
    most = before * 2 // 3
    count = await store.prune(older_than=0, most_bytes=most)
    after = await store.stats()
    assert after.bytes <= most
    assert most - after.bytes < before // 4, "no more is deleted than necessary"
    assert after.responses == 41 - count
    there = [number for number in range(40) if await store.get(LOCAL, f"resp_{number}")]
    assert there == list(range(count, 40))
    assert await store.prune(older_than=0, most_bytes=0) == 40 - count
    assert await store.get(LOCAL, "resp_runs") is not None


@for_every_store
async def test_stats_count_responses_items_events_and_conversations(store: Store) -> None:
    await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await store.add_items(LOCAL, "conv_1", items("msg_1"))
    await complete_turn(store, "resp_1", ["msg_2", "msg_3"], ["msg_4"], log=events(0, 7))
    await store.open(opened("resp_2", "msg_5"))
    store.log("resp_2", events(0, 3))
    stats = await store.stats()
    assert (stats.responses, stats.items, stats.events, stats.conversations) == (2, 5, 10, 1)
    assert stats.bytes > 0


# The time from which ages are measured


@for_every_store
async def test_a_clock_that_is_ahead_for_some_hours_deletes_nothing(store: Store, clock: Clock) -> None:
    for number in range(2):
        await store_numbered(store, number)
        clock.now += 12 * DAY
        await prune_repeatedly(store, times=12 * 4)
    clock.now += 40 * DAY
    await prune_repeatedly(store, times=20)
    await store_numbered(store, 2)  # a row with the time of the wrong clock
    await prune_repeatedly(store)
    clock.now -= 40 * DAY
    await prune_repeatedly(store)
    assert await stored_ids(store) == ["resp_0", "resp_1", "resp_2", "conv_0", "conv_1", "conv_2"]


@for_every_store
async def test_stored_data_ages_although_nothing_is_added(store: Store, clock: Clock) -> None:
    await store_numbered(store, 0)
    for _ in range(29):
        clock.now += DAY
        await prune_repeatedly(store, times=4)
    assert await stored_ids(store) == ["resp_0", "conv_0"]
    clock.now += 2 * DAY
    await prune_repeatedly(store, times=8)
    assert await stored_ids(store) == []


@for_every_store
async def test_the_stores_time_catches_up_with_the_clock(store: Store, clock: Clock) -> None:
    """A gateway was stopped for 100 days, and now runs for three."""
    await store_numbered(store, 0)
    clock.now += 100 * DAY
    await prune_repeatedly(store)
    assert await stored_ids(store) == ["resp_0", "conv_0"]
    await prune_repeatedly(store, times=3 * 24 * 6)
    assert await stored_ids(store) == []
    assert await store.advance_time() == clock.now


@for_every_store
async def test_a_clock_that_is_set_back_is_followed_at_once(store: Store, clock: Clock) -> None:
    await store_numbered(store, 0)
    clock.now -= 400
    assert await store.advance_time() == clock.now
    clock.now += 500
    assert await store.advance_time() == clock.now


@for_every_store
async def test_the_stores_time_is_advanced_once_in_a_while(store: Store, clock: Clock) -> None:
    assert await store.advance_time(every=60) == clock.now
    assert await store.advance_time(every=60) is None


@for_every_store
async def test_turns_that_a_newer_turn_continues_are_not_pruned(store: Store, clock: Clock) -> None:
    """Without them the newer turn could not be continued."""
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
