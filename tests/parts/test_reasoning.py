"""Thinking that an editor returns becomes the reasoning items that it came from (ask N3)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.parts.parts import (
    MessagePart,
    TextPart,
    ThinkingPart,
)
from penstock.parts.reasoning import returned_reasoning
from tests.parts.conversations import (
    MODEL,
    assistant,
    call,
    call_item,
    codes,
    message_item,
    output_item,
    reasoning,
    result,
    thinking_end,
    translate,
    user,
)

# Thinking


@pytest.mark.parametrize(
    "block",
    [
        [ThinkingPart("a", "rs_1"), ThinkingPart("b", "rs_1"), thinking_end("rs_1")],
        [ThinkingPart("a", "rs_1"), ThinkingPart("b", "rs_1:1"), thinking_end("rs_1")],
        [ThinkingPart(["a", "b"], "rs_1"), thinking_end("rs_1"), thinking_end("rs_1")],
        [thinking_end("rs_1"), ThinkingPart("ab", "rs_1")],
        [ThinkingPart("a"), ThinkingPart("b"), thinking_end("rs_1")],
        [thinking_end("rs_1"), ThinkingPart("a")],
        [ThinkingPart("ab", "rs_1", thinking_end("rs_1").metadata)],
        [ThinkingPart("ab", None, thinking_end("rs_1").metadata)],
        [ThinkingPart("ab", "renamed"), ThinkingPart("", "renamed", thinking_end("rs_1").metadata)],
        [thinking_end("rs_1", status="completed")],
        [thinking_end("rs_1", model="")],
    ],
)
def test_a_thinking_block_is_restored_as_its_item(block: list[ThinkingPart]) -> None:
    message = assistant("Before.", *block, "After.", call("1"))
    answered = user(result("1", "ok"))
    assert translate(message, answered, model=MODEL) == [
        message_item("assistant", "Before."),
        reasoning("rs_1"),
        message_item("assistant", "After."),
        call_item("1"),
        output_item("1"),
    ]
    assert codes(message, answered, model=MODEL) == []
    assert translate(message, answered) == translate(message, answered, model=MODEL)


def test_an_item_is_restored_unchanged() -> None:
    fields: dict[str, Any] = {
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": "gAAA",
        "acme:trace": {"a": [None]},
    }
    assert translate(assistant(thinking_end("rs_1", **fields)), model=MODEL) == [reasoning("rs_1", **fields)]


def test_reasoning_is_placed_where_its_block_began() -> None:
    message = assistant(
        ThinkingPart("a", "rs_1"),
        "x",
        ThinkingPart("b", "rs_2"),
        "y",
        thinking_end("rs_2"),
        thinking_end("rs_1"),
        "z",
    )
    assert translate(message, model=MODEL) == [
        reasoning("rs_1"),
        message_item("assistant", "x"),
        reasoning("rs_2"),
        message_item("assistant", "yz"),
    ]


def test_an_item_with_an_id_is_sent_once_and_items_without_ids_are_all_sent() -> None:
    again = assistant("a", thinking_end("rs_1")), assistant("b", thinking_end("rs_1"))
    assert translate(*again, model=MODEL) == [
        message_item("assistant", "a"),
        reasoning("rs_1"),
        message_item("assistant", "b"),
    ]
    nameless = [
        ThinkingPart(
            "", "reasoning_0", {"openresponses": {"reasoning": {"type": "reasoning", "encrypted_content": e}}}
        )
        for e in ("A", "B", "A")
    ]
    assert [
        item["encrypted_content"] for item in translate(assistant(*nameless), assistant(*nameless[:1]))
    ] == [
        "A",
        "B",
        "A",
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        ThinkingPart("Hm.", "rs_9"),
        ThinkingPart(["Hm."], "rs_9", {"signature": "x"}),
        ThinkingPart("", "rs_9", {"reasoning_opaque": "x"}),
        thinking_end("rs_9", model="acme/small"),
        ThinkingPart("Hm.", "rs_9", {"openresponses": "odd"}),
        ThinkingPart("Hm.", "rs_9", {"openresponses": {"reasoning": 5}}),
        ThinkingPart("Hm.", "rs_9", {"openresponses": {"reasoning": {"type": "message"}}}),
        ThinkingPart("Hm.", "rs_9", {"openresponses": {"reasoning": {"summary": "odd"}}}),
    ],
)
def test_thinking_of_another_model_is_omitted_with_a_diagnostic(foreign: ThinkingPart) -> None:
    message = assistant(ThinkingPart("Piece.", foreign.id), foreign, "Hi.")
    assert translate(message, model=MODEL) == [message_item("assistant", "Hi.")]
    assert codes(message, model=MODEL) == ["thinking_left_out"]


def test_thinking_in_a_user_message_is_omitted() -> None:
    assert translate(user(thinking_end("rs_1"), "Hi."), model=MODEL) == [message_item("user", "Hi.")]
    assert codes(user(thinking_end("rs_1"), "Hi."), model=MODEL) == ["thinking_left_out"]


def test_an_empty_thinking_part_adds_no_diagnostic() -> None:
    assert codes(assistant(ThinkingPart("", "x"), "Hi."), model=MODEL) == []


def test_items_are_found_by_the_first_part_of_their_block_and_other_blocks_are_counted() -> None:
    parts: list[MessagePart] = [
        TextPart("a"),
        ThinkingPart("Hm.", "rs_1"),
        ThinkingPart("Of another model.", "other"),
        thinking_end("rs_1"),
        thinking_end("rs_2", model="acme/small"),
    ]
    found = returned_reasoning(parts, MODEL)
    assert {index: [item.id for item in items] for index, items in found.items.items()} == {1: ["rs_1"]}
    assert found.omitted == 2


def test_without_a_model_every_item_of_ours_is_returned() -> None:
    found = returned_reasoning([thinking_end("rs_1", model="acme/small")], "")
    assert [item.id for items in found.items.values() for item in items] == ["rs_1"]
    assert found.omitted == 0
