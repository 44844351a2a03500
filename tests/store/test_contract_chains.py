"""The contract of a store: chains of turns, and pages of their items. Holds for every store."""

from __future__ import annotations

import asyncio

from penstock.store.contract import Store
from penstock.store.records import LOCAL, Page
from tests.store.builders import closed, complete_turn, for_every_store, ids, item, item_of, items, opened


async def three(store: Store) -> None:
    await complete_turn(store, "resp_1", ["in_1"], ["out_1a", "out_1b"])
    await complete_turn(store, "resp_2", ["in_2"], ["out_2"], previous="resp_1")
    await complete_turn(store, "resp_3", ["in_3a", "in_3b"], ["out_3"], previous="resp_2")


@for_every_store
async def test_a_chain_contains_its_turns_in_order_with_their_items(store: Store) -> None:
    await three(store)
    chain = await store.chain(LOCAL, "resp_3")
    assert chain is not None
    assert [(turn.id, turn.status) for turn in chain] == [(f"resp_{n}", "completed") for n in (1, 2, 3)]
    assert [turn.input for turn in chain] == [items("in_1"), items("in_2"), items("in_3a", "in_3b")]
    assert [turn.output for turn in chain] == [items("out_1a", "out_1b"), items("out_2"), items("out_3")]


@for_every_store
async def test_a_chain_branches(store: Store) -> None:
    await three(store)
    await complete_turn(store, "resp_other", ["in_o"], ["out_o"], previous="resp_1")
    chain = await store.chain(LOCAL, "resp_other")
    assert chain is not None
    assert [turn.id for turn in chain] == ["resp_1", "resp_other"]
    again = await store.chain(LOCAL, "resp_3")
    assert again is not None
    assert [turn.id for turn in again] == ["resp_1", "resp_2", "resp_3"]


@for_every_store
async def test_a_chain_with_a_missing_turn_is_none(store: Store) -> None:
    await three(store)
    await store.delete(LOCAL, "resp_1")
    assert await store.chain(LOCAL, "resp_3") is None
    assert ids(await store.input_items(LOCAL, "resp_3", newest_first=False)) == [
        "in_2",
        "out_2",
        "in_3a",
        "in_3b",
    ]
    await store.open(opened("resp_x", previous="resp_never"))
    await store.close("resp_x", closed("resp_x"), patience=30)
    assert await store.chain(LOCAL, "resp_x") is None


@for_every_store
async def test_a_chain_that_continues_itself_is_incomplete(store: Store) -> None:
    await complete_turn(store, "resp_1", ["in_1"], previous="resp_1")
    assert await store.chain(LOCAL, "resp_1") is None
    assert ids(await store.input_items(LOCAL, "resp_1")) == ["in_1"]


@for_every_store
async def test_a_chain_waits_for_running_turns(store: Store) -> None:
    await complete_turn(store, "resp_1", ["in_1"], ["out_1"])
    await store.open(opened("resp_2", "in_2", previous="resp_1"))
    await store.open(opened("resp_3", "in_3", previous="resp_2"))
    await store.stats()
    followers = [asyncio.ensure_future(store.chain(LOCAL, id)) for id in ("resp_3", "resp_2")]
    await store.close("resp_3", closed("resp_3", "out_3"), patience=30)
    await store.stats()
    late = asyncio.ensure_future(
        store.chain(LOCAL, "resp_3")
    )  # it has ended, but the turn before it is running
    assert not any(follower.done() for follower in followers)
    await store.close("resp_2", closed("resp_2", "out_2"), patience=30)
    expected = [(f"resp_{n}", items(f"out_{n}")) for n in (1, 2, 3)]
    for follower, length in zip([*followers, late], (3, 2, 3), strict=True):
        chain = await asyncio.wait_for(follower, 30)
        assert chain is not None
        assert [(turn.id, turn.output) for turn in chain] == expected[:length]


@for_every_store
async def test_items_are_found_by_their_ids(store: Store) -> None:
    await complete_turn(store, "resp_1", ["msg_in"], ["msg_out"])
    await store.open(opened("resp_2", "msg_running"))
    for id in ("msg_in", "msg_out", "msg_running"):
        assert await item_of(store, LOCAL, id) == item(id)


@for_every_store
async def test_an_item_of_two_responses_is_found_until_both_are_deleted(store: Store) -> None:
    await complete_turn(store, "resp_1", ["msg_1"])
    await complete_turn(store, "resp_2", ["msg_1"])
    await store.delete(LOCAL, "resp_2")
    assert await item_of(store, LOCAL, "msg_1") == item("msg_1")
    await store.delete(LOCAL, "resp_1")
    assert await item_of(store, LOCAL, "msg_1") is None


@for_every_store
async def test_input_items_include_those_of_the_chain(store: Store) -> None:
    await three(store)
    whole_list = ["in_1", "out_1a", "out_1b", "in_2", "out_2", "in_3a", "in_3b"]
    assert ids(await store.input_items(LOCAL, "resp_3", newest_first=False)) == whole_list
    assert ids(await store.input_items(LOCAL, "resp_3")) == whole_list[::-1]
    await store.open(opened("resp_4", "in_4", previous="resp_3"))
    running = await store.input_items(LOCAL, "resp_4", newest_first=False)
    assert ids(running) == [*whole_list, "out_3", "in_4"]
    assert running is not None
    assert running.items[-1] == item("in_4")


@for_every_store
async def test_pages_in_both_directions_add_up_to_all_items(store: Store) -> None:
    await three(store)
    for newest_first in (True, False):
        full = ids(await store.input_items(LOCAL, "resp_3", newest_first=newest_first))
        for limit in range(1, 9):
            gathered: list[str] = []
            more, after = True, None
            while more:
                page = await store.input_items(
                    LOCAL, "resp_3", after=after, limit=limit, newest_first=newest_first
                )
                assert page is not None
                assert len(page.items) <= limit
                gathered.extend(ids(page))
                more, after = page.has_more, gathered[-1]
            assert gathered == full


@for_every_store
async def test_a_page_after_an_unknown_item_is_empty(store: Store) -> None:
    await three(store)
    assert await store.input_items(LOCAL, "resp_3", after="in_9") == Page((), False)
    assert await store.input_items(LOCAL, "resp_3", after="in_1") == Page((), False)
    assert await store.input_items(LOCAL, "resp_3", limit=0) == Page((), True)


@for_every_store
async def test_paging_ends_when_an_id_occurs_twice(store: Store) -> None:
    await complete_turn(store, "resp_1", ["a", "b", "a", "c"])
    seen: list[str] = []
    page = await store.input_items(LOCAL, "resp_1", limit=1, newest_first=False)
    while page is not None and page.has_more:
        seen.extend(ids(page))
        assert len(seen) < 10
        page = await store.input_items(LOCAL, "resp_1", after=seen[-1], limit=1, newest_first=False)
    assert ids(page) == ["c"]


@for_every_store
async def test_a_chain_of_two_thousand_turns(store: Store) -> None:
    previous = None
    for number in range(2_000):
        await store.open(opened(f"resp_{number}", f"in_{number}", previous=previous), patience=0)
        await store.close(f"resp_{number}", closed(f"resp_{number}", f"out_{number}"), patience=0)
        previous = f"resp_{number}"
    await store.stats()
    chain = await store.chain(LOCAL, "resp_1999")
    assert chain is not None
    assert [turn.id for turn in chain] == [f"resp_{number}" for number in range(2_000)]
    assert chain[1234].input == items("in_1234")
    page = await store.input_items(LOCAL, "resp_1999", after="in_1990", limit=3)
    assert ids(page) == ["out_1989", "in_1989", "out_1988"]
