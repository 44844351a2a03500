"""The contract of a store: conversations and chains as threads. Holds for every store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from penstock.store.contract import Store
from penstock.store.records import LOCAL, StoredConversation, StoredItem
from penstock.store.threads import OPENING_BYTES, StoredThread, ThreadTurn
from tests.store.builders import (
    KINDS,
    Clock,
    closed,
    complete_turn,
    for_every_store,
    item,
    items,
    open_test_store,
    opened,
)
from tests.store.ledger_records import ended, started

OTHER = "other"


async def turn_at(
    store: Store, id: str, time: int, previous: str | None = None, *, tenant: str = LOCAL
) -> None:
    await store.open(replace(opened(id, f"in_{id}", tenant=tenant, previous=previous), created_at=time))
    await store.close(id, closed(id, f"out_{id}"), patience=30)


async def listed(store: Store, limit: int = 50, tenant: str = LOCAL) -> list[StoredThread]:
    """Return all threads, read page by page."""
    found: list[StoredThread] = []
    after, is_first = "", True
    while after or is_first:
        page = await store.threads(tenant, after=after, limit=limit)
        assert len(page.threads) <= limit
        found += page.threads
        after, is_first = page.next, False
    return found


# Chains


@for_every_store
async def test_continuations_are_the_turns_that_name_a_response(store: Store) -> None:
    await complete_turn(store, "resp_1")
    await complete_turn(store, "resp_2", previous="resp_1")
    await complete_turn(store, "resp_3", previous="resp_2")
    await store.open(opened("resp_4", previous="resp_1"))
    assert await store.continuations(LOCAL, "resp_1") == ["resp_2", "resp_4"]
    assert await store.continuations(LOCAL, "resp_3") == []
    assert await store.continuations(LOCAL, "resp_never") == []
    await store.delete(LOCAL, "resp_2")
    assert await store.continuations(LOCAL, "resp_1") == ["resp_4"]


@for_every_store
async def test_a_chain_is_read_with_all_its_branches_from_any_of_its_turns(store: Store) -> None:
    for id, previous in (("a", None), ("b", "a"), ("other", None), ("c", "b"), ("d", "a"), ("e", "d")):
        await turn_at(store, id, 7, previous)
    store.settle_turn(ended(started("d", tenant=LOCAL)))
    for id in ("a", "c", "e"):
        turns = await store.chain_turns(LOCAL, id)
        assert [(turn.id, turn.previous_id) for turn in turns] == [
            ("a", None),
            ("b", "a"),
            ("c", "b"),
            ("d", "a"),
            ("e", "d"),
        ]
    assert turns[3] == ThreadTurn(
        id="d",
        previous_id="a",
        created_at=7,
        status="completed",
        model="demo",
        input=(item("in_d").data,),
        output=(item("out_d").data,),
    )
    assert [turn.id for turn in await store.chain_turns(LOCAL, "a", limit=2)] == ["d", "e"]
    assert [turn.id for turn in await store.chain_turns(LOCAL, "other")] == ["other"]
    assert await store.chain_turns(LOCAL, "never") == []


@for_every_store
async def test_a_chain_whose_first_turns_were_deleted_begins_later(store: Store) -> None:
    for id, previous in (("a", None), ("b", "a"), ("c", "b"), ("d", "c")):
        await turn_at(store, id, 7, previous)
    await store.delete(LOCAL, "b")
    assert [turn.id for turn in await store.chain_turns(LOCAL, "d")] == ["c", "d"]
    assert [(thread.id, thread.turns, thread.last_id) for thread in await listed(store)] == [("c", 2, "d")]


@for_every_store
async def test_a_turn_that_continues_itself_is_no_thread(store: Store) -> None:
    await turn_at(store, "a", 7, "a")
    assert await listed(store) == []
    assert [turn.id for turn in await store.chain_turns(LOCAL, "a")] == ["a"]


@for_every_store
async def test_a_turn_that_runs_belongs_to_its_thread(store: Store) -> None:
    await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await turn_at(store, "a", 7)
    await store.open(replace(opened("b", "in_b", previous="a"), created_at=8))
    await store.open(opened("c", "in_c", conversation="conv_1"))
    assert [(turn.id, turn.status) for turn in await store.chain_turns(LOCAL, "a")] == [
        ("a", "completed"),
        ("b", "in_progress"),
    ]
    [turn] = await store.conversation_turns(LOCAL, "conv_1")
    assert (turn.id, turn.status, turn.input, turn.output) == ("c", "in_progress", (item("in_c").data,), ())
    assert {(each.id, each.last_id) for each in await listed(store)} == {("a", "b"), ("conv_1", "c")}


# Conversations


@for_every_store
async def test_a_conversation_is_a_thread_of_its_turns(store: Store, clock: Clock) -> None:
    await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await store.add_items(LOCAL, "conv_1", items("msg_1"))
    for number in range(3):
        clock.now += 10
        await complete_turn(store, f"resp_{number}", [f"in_{number}"], conversation="conv_1")
    store.settle_turn(ended(started("resp_2", tenant=LOCAL)))
    [thread] = await listed(store)
    assert thread == StoredThread(
        kind="conversation",
        id="conv_1",
        changed_at=1_030.0,
        turns=3,
        last_id="resp_2",
        model="demo",
        opening=tuple(item(id).data for id in ("msg_1", "in_0", "in_1", "in_2")),
    )
    turns = await store.conversation_turns(LOCAL, "conv_1")
    assert [(turn.id, turn.model) for turn in turns] == [("resp_0", ""), ("resp_1", ""), ("resp_2", "demo")]
    assert [turn.id for turn in await store.conversation_turns(LOCAL, "conv_1", limit=2)] == [
        "resp_1",
        "resp_2",
    ]
    assert await store.conversation_turns(LOCAL, "conv_2") == []


# Pages


@for_every_store
async def test_threads_are_listed_by_their_newest_change(store: Store, clock: Clock) -> None:
    clock.now = 25.5
    await store.create_conversation(LOCAL, StoredConversation("conv_1", 1, b"{}"))
    await turn_at(store, "alone", 99)
    await turn_at(store, "a", 10)
    await turn_at(store, "b", 20)
    await turn_at(store, "b2", 21, "b")
    await turn_at(store, "a2", 30, "a")
    await turn_at(store, "b3", 25, "b")
    assert [
        (each.kind, each.id, each.changed_at, each.turns, each.last_id) for each in await listed(store)
    ] == [
        ("chain", "a", 30, 2, "a2"),
        ("conversation", "conv_1", 25.5, 0, ""),
        ("chain", "b", 25, 3, "b3"),
    ]
    for limit in (1, 2, 3):
        assert await listed(store, limit) == await listed(store)


@for_every_store
async def test_a_thread_that_changes_is_not_repeated_on_a_later_page(store: Store) -> None:
    for number in range(4):
        await turn_at(store, f"a{number}", number)
        await turn_at(store, f"b{number}", 10 + number, f"a{number}")
    first = await store.threads(LOCAL, limit=2)
    await turn_at(store, "late", 90, "a0")
    second = await store.threads(LOCAL, after=first.next, limit=2)
    assert [[thread.id for thread in page.threads] for page in (first, second)] == [["a3", "a2"], ["a1"]]


@for_every_store
async def test_a_thread_opens_with_its_first_items_as_far_as_they_are_small(store: Store) -> None:
    large = StoredItem("large", b'"' + b"x" * OPENING_BYTES + b'"')
    first = (large, *items("m1", "m2", "m3", "m4", "m5"))
    await store.open(replace(opened("a"), input=first), patience=30)
    await store.close("a", closed("a"), patience=30)
    await turn_at(store, "b", 9, "a")
    [thread] = await listed(store)
    assert thread.opening == tuple(item(id).data for id in ("m1", "m2", "m3", "m4"))


@for_every_store
async def test_an_unknown_cursor_of_threads_is_an_error(store: Store) -> None:
    for cursor in ("nonsense", "x_resp_1", "1.5_", "nan_resp_1"):
        with pytest.raises(ValueError, match="cursor"):
            await store.threads(LOCAL, after=cursor)


@for_every_store
async def test_threads_of_tenants_are_apart(store: Store) -> None:
    await turn_at(store, "a", 7)
    await turn_at(store, "b", 8, "a")
    await turn_at(store, "c", 9, "a", tenant=OTHER)
    await turn_at(store, "d", 9, "c", tenant=OTHER)
    await store.create_conversation(OTHER, StoredConversation("conv_1", 1, b"{}"))
    await complete_turn(store, "e", conversation="conv_1")
    store.settle_turn(ended(started("d", tenant="third")))
    assert [(each.id, each.turns) for each in await listed(store)] == [("a", 2)]
    assert {(each.id, each.turns, each.model) for each in await listed(store, tenant=OTHER)} == {
        ("c", 2, ""),
        ("conv_1", 0, ""),
    }
    assert await store.continuations(LOCAL, "a") == ["b"]
    assert await store.continuations(OTHER, "a") == ["c"]
    assert [turn.id for turn in await store.chain_turns(OTHER, "c")] == ["c", "d"]


class _Turn(Struct):
    """A turn of a random history: `previous` is a number of an earlier turn, or of one that never was."""

    previous: int | None
    time: int
    talk: int | None
    is_deleted: bool


_histories = st.lists(
    st.builds(
        _Turn,
        previous=st.none() | st.integers(0, 12),
        time=st.integers(1, 5),
        talk=st.none() | st.integers(0, 2),
        is_deleted=st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_any_length_list_every_thread_once(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @given(_histories, st.integers(1, 4))
    def check(history: list[_Turn], limit: int) -> None:
        asyncio.run(_check_history(kind, tmp_path_factory.mktemp("store"), history, limit))

    check()


async def _check_history(kind: str, folder: Path, history: list[_Turn], limit: int) -> None:
    clock = Clock(1.0)
    async with open_test_store(kind, folder, clock) as store:
        for number in range(3):
            clock.now = 1.5 + number
            await store.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))
        clock.now = 2.5
        for number, each in enumerate(history):
            # A turn continues another, or belongs to a conversation, or neither.
            previous = None if each.previous is None else f"resp_{each.previous}"
            talk = None if each.talk is None or previous else f"conv_{each.talk}"
            turn = opened(f"resp_{number}", previous=previous, conversation=talk)
            await store.open(replace(turn, created_at=each.time))
            await store.close(turn.id, closed(turn.id), patience=30)
        for number, each in enumerate(history):
            if each.is_deleted:
                await store.delete(LOCAL, f"resp_{number}")
        found = await listed(store, limit)
        assert [
            (each.changed_at, each.last_id or each.id) for each in found if each.kind == "chain"
        ] == sorted(((each.changed_at, each.last_id) for each in found if each.kind == "chain"), reverse=True)
        assert [each.changed_at for each in found] == sorted(
            (each.changed_at for each in found), reverse=True
        )
        assert {each.id: each.turns for each in found if each.kind == "chain"} == _chains(history)
        assert {each.id: each.turns for each in found if each.kind == "conversation"} == _talks(history)
        assert len(found) == len({each.id for each in found})


def _chains(history: list[_Turn]) -> dict[str, int]:
    first: dict[int, int] = {}
    for number, each in enumerate(history):
        if not each.is_deleted:
            first[number] = number if each.previous is None else first.get(each.previous, number)
    sizes: dict[str, int] = defaultdict(int)
    for root in first.values():
        sizes[f"resp_{root}"] += 1
    return {id: size for id, size in sizes.items() if size > 1}


def _talks(history: list[_Turn]) -> dict[str, int]:
    stored = [each.talk for each in history if not each.is_deleted and each.previous is None]
    return {f"conv_{number}": stored.count(number) for number in range(3)}
