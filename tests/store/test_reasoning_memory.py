"""The reasoning memory restores omitted reasoning, and changes nothing else (ask C1)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from penstock.protocol.content import InputText, ReasoningText, SummaryText
from penstock.protocol.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    ReasoningItem,
)
from penstock.protocol.wire import decode, encode
from penstock.store import reasoning_memory
from penstock.store.memory import MemoryStore
from penstock.store.reasoning_memory import ReasoningCache, context_of, reasoning_by_call, restore_reasoning
from penstock.store.records import LOCAL, Closed, Opened, StoredItem

T = TypeVar("T")

ASKED = Message(role="user", content="where is it?")
CONTEXT = context_of([ASKED])
TEXT = Message(id="msg_1", role="assistant", content="I look.")
RESULT = FunctionCallOutput(call_id="call_1", output="there")


def reasoning(id: str = "rs_1", seal: str = "sealed") -> ReasoningItem:
    return ReasoningItem(
        id=id,
        content=[ReasoningText(text=f"thinking {id}")],
        encrypted_content=f"{seal}-{id}" if seal else UNSET,
    )


def call(id: str = "call_1", arguments: str = '{"a":1,"b":2}', name: str = "look") -> FunctionCall:
    return FunctionCall(id=f"fc_{id}", call_id=id, name=name, arguments=arguments)


class Answer:
    """An answer to `ASKED`, in a store and in a cache."""

    def __init__(self, *output: Item, now: float = 0.0, **bounds: Any) -> None:
        self.now, self.output = now, output
        self.cache = ReasoningCache(lambda: self.now, **bounds)
        self.cache.remember(LOCAL, output, CONTEXT)

    async def store(self) -> MemoryStore:
        store = MemoryStore()
        await store.open(Opened(id="resp_1", created_at=1))
        for key, data in reasoning_by_call(self.output, CONTEXT).items():
            await store.remember(LOCAL, "resp_1", key, data)
        items = tuple(StoredItem(str(item.id), encode(item)) for item in self.output)
        await store.close("resp_1", Closed(status="completed", response=b"{}", output=items))
        return store

    def restored(self, *items: Item, tenant: str = LOCAL) -> list[Item]:
        """Restore from each, and check that the results are equal."""

        async def both() -> tuple[list[Item], list[Item]]:
            stored = await restore_reasoning([await self.store()], tenant, items)
            return await restore_reasoning([self.cache, MemoryStore()], tenant, items), stored

        cached, stored = asyncio.run(both())
        assert cached == stored
        return cached


def test_reasoning_is_restored_before_its_call() -> None:
    answer = Answer(reasoning(), TEXT, call())
    assert answer.restored(ASKED, call(), RESULT) == [ASKED, reasoning(), call(), RESULT]


def test_each_call_gets_the_reasoning_before_it() -> None:
    """Interleaved thinking: a signature is valid only at the position of its block (ask C2)."""
    first, second, third = reasoning("rs_1"), reasoning("rs_2"), reasoning("rs_3")
    answer = Answer(first, second, call("call_1"), call("call_2"), third, call("call_3"))
    history: list[Item] = [ASKED, call("call_1"), call("call_2"), call("call_3"), RESULT]
    expected = [ASKED, first, second, call("call_1"), call("call_2"), third, call("call_3"), RESULT]
    assert answer.restored(*history) == expected


def test_reasoning_with_only_an_id_is_restored() -> None:
    bare = ReasoningItem(id="rs_1")
    assert Answer(reasoning(), call()).restored(ASKED, bare, call()) == [ASKED, reasoning(), call()]
    # Even if no call follows.
    assert Answer(reasoning(), TEXT).restored(ASKED, bare, TEXT, ASKED) == [ASKED, reasoning(), TEXT, ASKED]


def test_known_reasoning_is_restored_as_the_upstream_sent_it() -> None:
    """Also if the client changed its text, or received it as a summary and returns it as one."""
    for stored in (reasoning(), reasoning(seal="")):
        for returned in (
            ReasoningItem(id="rs_1", content=[ReasoningText(text="in other words")]),
            ReasoningItem(id="rs_1", summary=[SummaryText(text="thinking rs_1")]),
        ):
            assert Answer(stored, TEXT).restored(returned) == [stored]


def test_a_summary_without_an_id_is_identified_as_the_text_that_it_was() -> None:
    returned = ReasoningItem(summary=[SummaryText(text="thinking rs_1")])
    found = Answer(reasoning(), call()).restored(ASKED, returned, call())
    assert found == [ASKED, replace(reasoning(), id=UNSET), call()]


def test_reasoning_without_an_id_is_identified_by_its_text() -> None:
    """Clients that strip ids also strip encrypted content."""
    plain = ReasoningItem(content=[ReasoningText(text="thinking rs_1")])
    sealed = replace(plain, encrypted_content="sealed-rs_1")
    assert Answer(reasoning(), call()).restored(ASKED, plain, call()) == [ASKED, sealed, call()]


def test_reasoning_is_restored_at_its_original_position() -> None:
    """Some upstreams require thinking before the text that follows it."""
    first, second = reasoning("rs_1"), reasoning("rs_2")
    answer = Answer(first, TEXT, second, call())
    assert answer.restored(ASKED, TEXT, call()) == [ASKED, first, TEXT, second, call()]
    # If text is missing or added, only the order is restored.
    assert answer.restored(ASKED, call()) == [ASKED, first, second, call()]
    assert answer.restored(ASKED, TEXT, TEXT, call()) == [ASKED, first, second, TEXT, TEXT, call()]


def test_a_call_with_the_same_id_in_another_conversation_is_not_matched() -> None:
    """Some upstreams number calls from the start in every conversation, and agents repeat calls."""
    other = Message(role="user", content="something else")
    assert Answer(reasoning(), call()).restored(other, call()) == [other, call()]
    # An id that occurs twice in one history is matched by its context.
    history: list[Item] = [other, call(), RESULT, ASKED, call()]
    expected = [other, call(), RESULT, ASKED, reasoning(), call()]
    assert Answer(reasoning(), call()).restored(*history) == expected


def test_the_same_input_in_another_form_is_the_same_input() -> None:
    asked = Message(id="msg_9", role="user", content=[InputText(text="where is it?")])
    assert Answer(reasoning(), call()).restored(asked, call()) == [asked, reasoning(), call()]


def test_reasoning_is_never_duplicated() -> None:
    note = Message(role="developer", content="be quick")
    history: list[Item] = [ASKED, reasoning(), note, call()]
    assert Answer(reasoning(), call()).restored(*history) == history


def test_a_reasoning_id_may_be_used_by_a_call() -> None:
    odd = call("rs_1")
    assert Answer(reasoning(), call()).restored(ASKED, odd) == [ASKED, odd]


UNTOUCHED: dict[str, list[Item]] = {
    "sealed": [ASKED, reasoning("rs_9"), call(), RESULT],
    "in other words": [ASKED, ReasoningItem(content=[ReasoningText(text="my own")]), call(), RESULT],
    "another call of the same id": [ASKED, call(arguments='{"a":3}'), RESULT],
    "another tool": [ASKED, call(name="listen"), RESULT],
    "another type of call": [ASKED, CustomToolCall(call_id="call_1", name="look", input="{}")],
    "no call": [ASKED, TEXT, ASKED],
    "an output alone": [ASKED, RESULT],
    "nothing": [],
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_history_without_a_matching_call_is_unchanged(name: str) -> None:
    assert Answer(reasoning(), call()).restored(*UNTOUCHED[name]) == UNTOUCHED[name]


def test_rewritten_arguments_are_the_same_arguments() -> None:
    """The AI SDK parses and reserializes them."""
    written = call(arguments='{ "b": 2, "a": 1 }')
    assert Answer(reasoning(), call()).restored(ASKED, written) == [ASKED, reasoning(), written]


def test_nothing_is_restored_for_another_tenant() -> None:
    history: list[Item] = [ASKED, ReasoningItem(id="rs_1"), call()]
    assert Answer(reasoning(), call()).restored(*history, tenant="other") == history


@pytest.mark.parametrize("history", [[ASKED, ReasoningItem(id="rs_1"), call()], [ASKED, call()]])
def test_remembered_reasoning_is_read_where_the_caller_wants(
    history: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long history may have thousands of reasoning items, and the event loop must not wait for them."""
    threads: set[int] = set()

    def noted(data: bytes, type: Any) -> Any:
        threads.add(threading.get_ident())
        return decode(data, type)

    async def run(function: Callable[..., T], *args: Any) -> T:
        return await asyncio.to_thread(function, *args)

    async def restored() -> list[Item]:
        cache = Answer(reasoning(), call()).cache
        return await restore_reasoning([cache], LOCAL, history, run)

    monkeypatch.setattr(reasoning_memory, "decode", noted)
    assert [item.type for item in asyncio.run(restored())] == ["message", "reasoning", "function_call"]
    assert threads
    assert threading.get_ident() not in threads


def test_the_cache_forgets_after_an_hour() -> None:
    answer = Answer(reasoning(), call())
    answer.now = 3599.0
    assert asyncio.run(restore_reasoning([answer.cache], LOCAL, [ASKED, call()])) == [
        ASKED,
        reasoning(),
        call(),
    ]
    answer.now = 3600.0
    assert asyncio.run(restore_reasoning([answer.cache], LOCAL, [ASKED, call()])) == [ASKED, call()]
    assert answer.cache.bytes == 0


def test_the_cache_is_bounded_and_forgets_the_oldest_first() -> None:
    answer = Answer(most_bytes=4000)
    for number in range(100):
        answer.cache.remember(LOCAL, [reasoning(f"rs_{number}"), call(f"call_{number}")], CONTEXT)
        assert answer.cache.bytes <= 4000
    first, last = call("call_0"), call("call_99")
    history: list[Item] = [ASKED, first, RESULT, ASKED, last]
    found = asyncio.run(restore_reasoning([answer.cache], LOCAL, history))
    assert found == [*history[:4], reasoning("rs_99"), last]


ITEMS = st.sampled_from(
    [
        ASKED,
        TEXT,
        RESULT,
        reasoning(),
        reasoning("rs_2", ""),
        ReasoningItem(id="rs_1"),
        ReasoningItem(),
        call(),
        call("call_2"),
    ]
)


@given(st.lists(ITEMS, max_size=8), st.lists(ITEMS, max_size=8))
def test_only_reasoning_is_ever_added_or_replaced(output: list[Item], history: list[Item]) -> None:
    named = [item if item.id else replace(item, id=f"x_{place}") for place, item in enumerate(output)]
    found = Answer(*named).restored(*history)
    assert _others(found) == _others(history)
    assert Answer(*named).restored(*found) == found, "restoring twice changes nothing"


def _others(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if not isinstance(item, ReasoningItem)]
