"""The contract of a store: conversations and their items. Holds for every store."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import StoreError
from penstock.store.contract import Store
from penstock.store.records import LOCAL, StoredConversation
from tests.store.builders import closed, complete_turn, for_every_store, ids, item, item_of, items, opened

TALK = StoredConversation("conv_1", 5, b'{"a":"b"}')


@for_every_store
async def test_a_conversation_is_created_updated_and_deleted(store: Store) -> None:
    await store.create_conversation(LOCAL, TALK)
    assert await store.get_conversation(LOCAL, "conv_1") == TALK
    changed = StoredConversation("conv_1", 5, b"{}")
    assert await store.update_conversation(LOCAL, "conv_1", b"{}") == changed
    assert await store.get_conversation(LOCAL, "conv_1") == changed
    assert (await store.stats()).conversations == 1
    await store.add_items(LOCAL, "conv_1", items("msg_1"))
    assert await store.delete_conversation(LOCAL, "conv_1")
    assert not await store.delete_conversation(LOCAL, "conv_1")
    assert await store.get_conversation(LOCAL, "conv_1") is None
    assert await item_of(store, LOCAL, "msg_1") is None


@for_every_store
async def test_a_conversation_id_cannot_be_used_twice(store: Store) -> None:
    await store.create_conversation(LOCAL, TALK)
    with pytest.raises(StoreError) as raised:
        await store.create_conversation(LOCAL, StoredConversation("conv_1", 6, b"{}"))
    assert raised.value.code == StoreError.DUPLICATE
    assert await store.get_conversation(LOCAL, "conv_1") == TALK


@for_every_store
async def test_items_are_added_listed_and_deleted(store: Store) -> None:
    await store.create_conversation(LOCAL, TALK)
    assert await store.add_items(LOCAL, "conv_1", items("a", "b"))
    assert await store.add_items(LOCAL, "conv_1", items("c", "d"))
    assert ids(await store.conversation_items(LOCAL, "conv_1")) == ["d", "c", "b", "a"]
    page = await store.conversation_items(LOCAL, "conv_1", after="a", limit=2, newest_first=False)
    assert page is not None
    assert (ids(page), page.has_more) == (["b", "c"], True)
    page = await store.conversation_items(LOCAL, "conv_1", after="c", limit=2)
    assert page is not None
    assert (ids(page), page.has_more) == (["b", "a"], False)
    assert await item_of(store, LOCAL, "b") == item("b")
    assert await store.delete_item(LOCAL, "conv_1", "b")
    assert not await store.delete_item(LOCAL, "conv_1", "b")
    assert await item_of(store, LOCAL, "b") is None
    assert ids(await store.conversation_items(LOCAL, "conv_1", newest_first=False)) == ["a", "c", "d"]
    assert (await store.conversation_items(LOCAL, "conv_1", after="b")) is not None


@for_every_store
async def test_a_turn_adds_its_items_when_it_ends(store: Store) -> None:
    await store.create_conversation(LOCAL, TALK)
    await store.add_items(LOCAL, "conv_1", items("first"))
    await store.open(opened("resp_1", "in_1", "in_2", conversation="conv_1"))
    assert ids(await store.conversation_items(LOCAL, "conv_1", newest_first=False)) == ["first"]
    await store.close("resp_1", closed("resp_1", "out_1"), patience=0)
    expected = ["first", "in_1", "in_2", "out_1"]
    assert ids(await store.conversation_items(LOCAL, "conv_1", newest_first=False)) == expected


@for_every_store
async def test_a_conversation_keeps_its_items_when_the_response_is_deleted(store: Store) -> None:
    await store.create_conversation(LOCAL, TALK)
    await complete_turn(store, "resp_1", ["in_1"], ["out_1"], conversation="conv_1")
    await store.delete(LOCAL, "resp_1")
    assert ids(await store.conversation_items(LOCAL, "conv_1")) == ["out_1", "in_1"]
    assert await item_of(store, LOCAL, "in_1") == item("in_1")


@for_every_store
async def test_a_turn_ends_even_if_its_conversation_was_deleted(store: Store) -> None:
    await store.create_conversation(LOCAL, TALK)
    await store.open(opened("resp_1", "in_1", conversation="conv_1"))
    await store.delete_conversation(LOCAL, "conv_1")
    assert await store.close("resp_1", closed("resp_1", "out_1"), patience=30)
    assert await store.conversation_items(LOCAL, "conv_1") is None
    assert await item_of(store, LOCAL, "out_1") == item("out_1")


@for_every_store
async def test_running_turns_of_a_conversation_can_be_waited_for(store: Store) -> None:
    await store.create_conversation(LOCAL, TALK)
    await store.open(opened("resp_1", conversation="conv_1"))
    await store.open(opened("resp_2", conversation="conv_2"))
    await store.open(opened("resp_3", conversation="conv_1", tenant="other"))
    waiting = asyncio.ensure_future(store.wait_for_turns(LOCAL, "conv_1"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    await store.close("resp_1", closed("resp_1", "out_1"), patience=30)
    await asyncio.wait_for(waiting, 30)  # the turns of other conversations and tenants still run
    assert ids(await store.conversation_items(LOCAL, "conv_1")) == ["out_1"]
