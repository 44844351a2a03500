"""Reasoning that a client left out of its history is put back, and nothing else is touched (ask C1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from penstock.protocol.content import InputText, ReasoningText
from penstock.protocol.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    ReasoningItem,
)
from penstock.protocol.wire import encode
from penstock.store.contract import LOCAL, Closed, Opened, StoredItem
from penstock.store.memory import MemoryStore
from penstock.store.reasoning_memory import ReasoningCache, context_of, reasoning_by_call, restore_reasoning

ASKED = Message(role="user", content="where is it?")
TOLD = context_of([ASKED])
SAID = Message(id="msg_1", role="assistant", content="I look.")
RESULT = FunctionCallOutput(call_id="call_1", output="there")


def thought(id: str = "rs_1", seal: str = "sealed") -> ReasoningItem:
    return ReasoningItem(
        id=id,
        content=[ReasoningText(text=f"thinking {id}")],
        encrypted_content=f"{seal}-{id}" if seal else UNSET,
    )


def call(id: str = "call_1", arguments: str = '{"a":1,"b":2}', name: str = "look") -> FunctionCall:
    return FunctionCall(id=f"fc_{id}", call_id=id, name=name, arguments=arguments)


class Kept:
    """An answer to `ASKED` in a store, and in a cache."""

    def __init__(self, *output: Item, now: float = 0.0, **bounds: Any) -> None:
        self.now, self.output = now, output
        self.cache = ReasoningCache(lambda: self.now, **bounds)
        self.cache.remember(LOCAL, output, TOLD)

    async def store(self) -> MemoryStore:
        store = MemoryStore()
        await store.open(Opened(id="resp_1", created_at=1))
        for key, data in reasoning_by_call(self.output, TOLD).items():
            await store.remember(LOCAL, "resp_1", key, data)
        items = tuple(StoredItem(str(item.id), encode(item)) for item in self.output)
        await store.close("resp_1", Closed(status="completed", response=b"{}", output=items))
        return store

    def restored(self, *items: Item, tenant: str = LOCAL) -> list[Item]:
        """From either, which must not differ."""

        async def both() -> tuple[list[Item], list[Item]]:
            stored = await restore_reasoning([await self.store()], tenant, items)
            return await restore_reasoning([self.cache, MemoryStore()], tenant, items), stored

        cached, stored = asyncio.run(both())
        assert cached == stored
        return cached


def test_calls_come_back_behind_their_reasoning() -> None:
    kept = Kept(thought(), SAID, call())
    assert kept.restored(ASKED, call(), RESULT) == [ASKED, thought(), call(), RESULT]


def test_each_call_has_the_reasoning_that_came_before_it() -> None:
    """Interleaved thinking: the signature of a block counts where the block stood (ask C2)."""
    first, second, third = thought("rs_1"), thought("rs_2"), thought("rs_3")
    kept = Kept(first, second, call("call_1"), call("call_2"), third, call("call_3"))
    history: list[Item] = [ASKED, call("call_1"), call("call_2"), call("call_3"), RESULT]
    expected = [ASKED, first, second, call("call_1"), call("call_2"), third, call("call_3"), RESULT]
    assert kept.restored(*history) == expected


def test_reasoning_that_came_by_its_id_alone_is_whole_again() -> None:
    bare = ReasoningItem(id="rs_1")
    assert Kept(thought(), call()).restored(ASKED, bare, call()) == [ASKED, thought(), call()]
    # Also where no call follows.
    assert Kept(thought(), SAID).restored(ASKED, bare, SAID, ASKED) == [ASKED, thought(), SAID, ASKED]


def test_what_the_client_says_of_it_itself_stays() -> None:
    said = ReasoningItem(id="rs_1", content=[ReasoningText(text="in other words")])
    (found,) = Kept(thought(), SAID).restored(said)
    assert found == replace(said, encrypted_content="sealed-rs_1")


def test_reasoning_without_an_id_is_known_by_its_words() -> None:
    """Clients that strip ids also strip what is sealed."""
    plain = ReasoningItem(content=[ReasoningText(text="thinking rs_1")])
    sealed = replace(plain, encrypted_content="sealed-rs_1")
    assert Kept(thought(), call()).restored(ASKED, plain, call()) == [ASKED, sealed, call()]


def test_it_stands_where_it_stood() -> None:
    """Some upstreams insist: thinking comes before the text that follows it."""
    first, second = thought("rs_1"), thought("rs_2")
    kept = Kept(first, SAID, second, call())
    assert kept.restored(ASKED, SAID, call()) == [ASKED, first, SAID, second, call()]
    # Without the text, or with more of it, there is only the order.
    assert kept.restored(ASKED, call()) == [ASKED, first, second, call()]
    assert kept.restored(ASKED, SAID, SAID, call()) == [ASKED, first, second, SAID, SAID, call()]


def test_a_call_of_another_conversation_is_another_call() -> None:
    """Some upstreams count anew in every conversation, and agents look at the same things in each."""
    other = Message(role="user", content="something else")
    assert Kept(thought(), call()).restored(other, call()) == [other, call()]
    # An id that comes twice in one history is the call that it says it is.
    history: list[Item] = [other, call(), RESULT, ASKED, call()]
    expected = [other, call(), RESULT, ASKED, thought(), call()]
    assert Kept(thought(), call()).restored(*history) == expected


def test_the_same_question_written_otherwise_is_the_same() -> None:
    asked = Message(id="msg_9", role="user", content=[InputText(text="where is it?")])
    assert Kept(thought(), call()).restored(asked, call()) == [asked, thought(), call()]


def test_reasoning_is_never_there_twice() -> None:
    note = Message(role="developer", content="be quick")
    history: list[Item] = [ASKED, thought(), note, call()]
    assert Kept(thought(), call()).restored(*history) == history


def test_an_id_may_be_that_of_anything() -> None:
    odd = call("rs_1")
    assert Kept(thought(), call()).restored(ASKED, odd) == [ASKED, odd]


UNTOUCHED: dict[str, list[Item]] = {
    "sealed": [ASKED, thought("rs_9"), call(), RESULT],
    "in other words": [ASKED, ReasoningItem(content=[ReasoningText(text="my own")]), call(), RESULT],
    "another call of the same id": [ASKED, call(arguments='{"a":3}'), RESULT],
    "another tool": [ASKED, call(name="listen"), RESULT],
    "another type of call": [ASKED, CustomToolCall(call_id="call_1", name="look", input="{}")],
    "no call": [ASKED, SAID, ASKED],
    "an output alone": [ASKED, RESULT],
    "nothing": [],
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_is_not_that_call_or_has_its_reasoning_is_left_as_it_is(name: str) -> None:
    assert Kept(thought(), call()).restored(*UNTOUCHED[name]) == UNTOUCHED[name]


def test_arguments_that_were_written_anew_are_the_same_arguments() -> None:
    """The AI SDK parses them, and writes them in its own way."""
    written = call(arguments='{ "b": 2, "a": 1 }')
    assert Kept(thought(), call()).restored(ASKED, written) == [ASKED, thought(), written]


def test_another_tenant_has_none_of_it() -> None:
    history: list[Item] = [ASKED, ReasoningItem(id="rs_1"), call()]
    assert Kept(thought(), call()).restored(*history, tenant="other") == history


def test_it_is_forgotten_after_an_hour() -> None:
    kept = Kept(thought(), call())
    kept.now = 3599.0
    assert asyncio.run(restore_reasoning([kept.cache], LOCAL, [ASKED, call()])) == [ASKED, thought(), call()]
    kept.now = 3600.0
    assert asyncio.run(restore_reasoning([kept.cache], LOCAL, [ASKED, call()])) == [ASKED, call()]
    assert kept.cache.bytes == 0


def test_it_is_bounded_and_the_oldest_goes_first() -> None:
    kept = Kept(most_bytes=4000)
    for number in range(100):
        kept.cache.remember(LOCAL, [thought(f"rs_{number}"), call(f"call_{number}")], TOLD)
        assert kept.cache.bytes <= 4000
    first, last = call("call_0"), call("call_99")
    history: list[Item] = [ASKED, first, RESULT, ASKED, last]
    found = asyncio.run(restore_reasoning([kept.cache], LOCAL, history))
    assert found == [*history[:4], thought("rs_99"), last]


ITEMS = st.sampled_from(
    [
        ASKED,
        SAID,
        RESULT,
        thought(),
        thought("rs_2", ""),
        ReasoningItem(id="rs_1"),
        ReasoningItem(),
        call(),
        call("call_2"),
    ]
)


@given(st.lists(ITEMS, max_size=8), st.lists(ITEMS, max_size=8))
def test_only_reasoning_is_ever_added_or_replaced(output: list[Item], history: list[Item]) -> None:
    named = [item if item.id else replace(item, id=f"x_{place}") for place, item in enumerate(output)]
    found = Kept(*named).restored(*history)
    assert _others(found) == _others(history)
    assert Kept(*named).restored(*found) == found, "once is as good as twice"


def _others(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if not isinstance(item, ReasoningItem)]
