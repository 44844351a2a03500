"""The checker reports every single fault in a lawful stream, and nothing in a harmless change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import THOROUGH, examples
from tests.stream.checker.mutations import MUTATIONS, Mutant, found_in
from tests.stream.lawful import CUSTOM_TOOL, STREAMS, Item, Stream

STRIDE = 1 if THOROUGH else 3
"""The fast run takes every third mutant, from another start in each stream, so that no kind is left out."""


@pytest.mark.parametrize("kind", MUTATIONS, ids=lambda kind: kind.__name__)
def test_each_single_fault_is_reported_and_nothing_else(kind: Callable[..., Iterator[Mutant]]) -> None:
    checked, wrong = 0, []
    for number, build in enumerate(STREAMS.values()):
        stream = build()
        for mutant in list(kind(stream.events))[number % STRIDE :: STRIDE]:
            checked += 1
            found = found_in(mutant.events, stream.accent)
            harmless = mutant.why_harmless(stream.accent)
            if bool(found) == bool(harmless):
                wrong.append(f"{mutant.what}: {found or 'no violation'} ({harmless or 'a fault'})")
    assert wrong == []
    assert checked > 0, "the mutation applies to no stream"


TEXTS = st.text("abc \u00e9\U0001f600", min_size=1, max_size=3)


def open_item(stream: Stream, kind: str, number: int) -> Item:
    if kind == "message":
        return stream.message(f"msg_{number}").open("output_text")
    if kind == "reasoning":
        return stream.reasoning(f"rs_{number}").open("reasoning_text")
    if kind == "custom":
        return stream.custom(f"ctc_{number}", f"call_{number}")
    return stream.call(f"fc_{number}", f"call_{number}").stream_in("[")


def add_text(item: Item, text: str) -> None:
    kind = item.value["type"]
    if kind in ("message", "reasoning"):
        item.add_text("output_text" if kind == "message" else "reasoning_text", text)
    else:
        item.stream_in(f'"{text}",' if kind == "function_call" else text)


def close_item(item: Item) -> None:
    kind = item.value["type"]
    if kind in ("message", "reasoning"):
        item.close("output_text" if kind == "message" else "reasoning_text").done()
    else:
        (item.stream_in("0]") if kind == "function_call" else item).end_stream().done()


@st.composite
def interleaved(draw: st.DrawFn) -> Stream:
    """Items of every kind, opened, continued and closed in any order."""
    stream = Stream(CUSTOM_TOOL).work()
    open_items: list[Item] = []
    for number in range(draw(st.integers(0, 10))):
        step = draw(
            st.sampled_from(["message", "reasoning", "custom", "call", "text", "text", "close", "heartbeat"])
        )
        if step == "heartbeat":
            stream.work()
        elif step == "text" and open_items:
            add_text(draw(st.sampled_from(open_items)), draw(TEXTS))
        elif step == "close" and open_items:
            close_item(open_items.pop(draw(st.integers(0, len(open_items) - 1))))
        elif step not in ("text", "close"):
            open_items.append(open_item(stream, step, number))
    for item in draw(st.permutations(open_items)):
        close_item(item)
    return stream.complete()


@given(interleaved())
@settings(max_examples=examples(150), deadline=None)
def test_items_may_interleave_in_any_order(stream: Stream) -> None:
    assert found_in(stream.events, stream.accent) == []


@given(interleaved(), st.sampled_from(MUTATIONS), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_a_fault_anywhere_in_any_stream_is_reported(
    stream: Stream, kind: Callable[..., Any], data: st.DataObject
) -> None:
    mutants: list[Mutant] = list(kind(stream.events))
    if mutants:
        mutant = data.draw(st.sampled_from(mutants))
        harmless = mutant.why_harmless(stream.accent)
        assert bool(found_in(mutant.events, stream.accent)) != bool(harmless), mutant.what
