"""Which block a delta goes to, and when blocks close."""

from __future__ import annotations

from itertools import count

from penstock.stream.blockset import BlockSet
from penstock.stream.deltas import (
    AnnotationDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
)
from penstock.stream.output import Output
from tests.stream.running import (
    CITATION,
    codes,
    of_type,
    plain,
    run,
    types,
)


def test_an_item_closes_when_another_kind_starts() -> None:
    _, events = run(
        [ReasoningDelta("a"), TextDelta("b"), RefusalDelta("c"), ReasoningDelta("d"), TextDelta("e")]
    )
    assert [item["type"] for item in events[-1]["response"]["output"]] == [
        "reasoning",
        "message",
        "message",
        "reasoning",
        "message",
    ]
    assert [e["output_index"] for e in of_type(events, "output_item.added", "output_item.done")] == [
        *(0, 0, 1, 1, 2, 2, 3, 3, 4, 4)
    ]


def test_text_after_a_tool_call_is_a_new_message_and_the_call_stays_open() -> None:
    _, events = run(
        [
            TextDelta("before"),
            ToolCallDelta(key=0, id="a", name="f", arguments='{"x":'),
            TextDelta("after"),
            ToolCallDelta(key=0, arguments="1}"),
        ]
    )
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    assert output[1]["arguments"] == '{"x":1}'


def test_keyed_blocks_stay_open_across_each_other() -> None:
    _, events = run(
        [
            BlockStart("t", BlockKind.TEXT, phase="commentary"),
            BlockStart("r", BlockKind.REASONING),
            TextDelta("a", block="t"),
            ReasoningDelta("think", block="r"),
            TextDelta("b", block="t"),
            RefusalDelta("no", block="t"),
            ReasoningDelta("ing", block="r"),
            BlockEnd("t"),
            TextDelta("c", block="t"),
        ]
    )
    first, second, third = events[-1]["response"]["output"]
    assert first["phase"] == "commentary"
    assert [part["type"] for part in first["content"]] == ["output_text", "refusal"]
    assert first["content"][0]["text"] == "ab"
    assert second["content"][0]["text"] == "thinking"
    assert third["content"][0]["text"] == "c"


def test_a_text_and_a_reasoning_block_may_share_a_key() -> None:
    _, events = run(
        [
            ReasoningDelta("r", block="0"),
            TextDelta("t", block="0"),
            BlockEnd("0", BlockKind.REASONING),
            TextDelta("t", block="0"),
            BlockEnd("0"),
        ]
    )
    reasoning, message = events[-1]["response"]["output"]
    assert (reasoning["type"], message["content"][0]["text"]) == ("reasoning", "tt")


def test_a_block_without_content_creates_no_item() -> None:
    _, events = run([BlockStart(0, BlockKind.TEXT), TextDelta("", block=0), BlockEnd(0)])
    assert events[-1]["response"]["output"] == []


def test_opaque_reasoning_alone_is_an_item_and_does_not_split_the_text() -> None:
    _, events = run([TextDelta("a"), OpaqueReasoning("one"), TextDelta("b"), OpaqueReasoning("two", call=0)])
    message, one, two = events[-1]["response"]["output"]
    assert message["content"][0]["text"] == "ab"
    assert [one["encrypted_content"], two["encrypted_content"]] == ["one", "two"]
    assert one["summary"] == []


def test_opaque_reasoning_of_a_call_comes_directly_before_it() -> None:
    _, events = run(
        [TextDelta("a"), OpaqueReasoning("s", call=0), TextDelta("b"), ToolCallDelta(key=0, name="f")]
    )
    kinds = [item["type"] for item in events[-1]["response"]["output"]]
    assert kinds == ["message", "reasoning", "message", "function_call"]


def test_opaque_reasoning_of_a_keyed_block_waits_for_its_end() -> None:
    _, events = run([OpaqueReasoning("x", block=3), OpaqueReasoning("y", block=3), BlockEnd(3)])
    assert [item["encrypted_content"] for item in events[-1]["response"]["output"]] == ["x", "y"]


def test_annotations_before_their_text_wait_for_it() -> None:
    _, events = run([AnnotationDelta(CITATION), TextDelta("see"), AnnotationDelta(CITATION)])
    part = events[-1]["response"]["output"][0]["content"][0]
    assert len(part["annotations"]) == 2
    added = of_type(events, "output_text.annotation.added")
    assert [event["annotation_index"] for event in added] == [0, 1]


def test_annotations_without_text_are_reported() -> None:
    stream, _ = run([AnnotationDelta(CITATION), AnnotationDelta(CITATION, block=1)])
    assert codes(stream) == {"annotation_without_text"}


def test_a_late_citation_does_not_go_to_another_text() -> None:
    stream, events = run(
        [TextDelta("a"), ToolCallDelta(key=0, name="f"), AnnotationDelta(CITATION), TextDelta("b")]
    )
    assert events[-1]["response"]["output"][2]["content"][0]["annotations"] == []
    assert "annotation_without_text" in codes(stream)


def test_another_part_key_begins_the_next_part_of_the_same_item() -> None:
    _, events = run(
        [
            TextDelta("a", block=0, part=7),
            TextDelta("b", block=0, part=7),
            TextDelta("c", block=0, part="x"),
            RefusalDelta("d", block=0, part="x"),
            RefusalDelta("e", block=0, part=8),
            ReasoningDelta("f", block=0, part=0),
            ReasoningDelta("g", block=0, part=1),
        ]
    )
    message, reasoning = events[-1]["response"]["output"]
    assert [part.get("text", part.get("refusal")) for part in message["content"]] == ["ab", "c", "d", "e"]
    assert [part["text"] for part in reasoning["content"]] == ["f", "g"]
    opened = of_type(events, "content_part.added", "content_part.done")
    of_message = [e["content_index"] for e in opened if e["item_id"] == message["id"]]
    assert of_message == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_part_that_has_ended_does_not_continue() -> None:  # spec N29
    _, events = run([TextDelta("a", part=0), TextDelta("b", part=1), TextDelta("c", part=0)])
    [message] = events[-1]["response"]["output"]
    assert [part["text"] for part in message["content"]] == ["a", "b", "c"]


def test_citations_go_to_their_own_part() -> None:
    stream, events = run(
        [
            AnnotationDelta(CITATION, block=0, part=1),
            TextDelta("a", block=0, part=0),
            AnnotationDelta(CITATION, block=0, part=0),
            AnnotationDelta(CITATION, block=0, part=1),
            TextDelta("b", block=0, part=1),
            AnnotationDelta(CITATION, block=0, part=1),
        ]
    )
    [message] = events[-1]["response"]["output"]
    assert [len(part["annotations"]) for part in message["content"]] == [1, 3]
    added = of_type(events, "output_text.annotation.added")
    places = [(event["content_index"], event["annotation_index"]) for event in added]
    assert places == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert codes(stream) == set()


def test_citations_of_an_ended_part_are_counted_and_change_nothing() -> None:  # spec N29
    stream, events = run(
        [
            TextDelta("a", block=0, part=0),
            TextDelta("b", block=0, part=1),
            AnnotationDelta(CITATION, block=0, part=0),
            AnnotationDelta(CITATION, block=0, part=0),
            AnnotationDelta(CITATION, block=0, part=2),
        ]
    )
    [message] = events[-1]["response"]["output"]
    assert [part["annotations"] for part in message["content"]] == [[], []]
    [diagnostic] = stream.diagnostics
    assert (diagnostic.code, diagnostic.count) == ("annotation_without_text", 3)


def test_a_phase_waits_for_its_message_and_an_unknown_phase_is_reported() -> None:
    stream, events = run(
        [
            BlockStart(0, BlockKind.TEXT, phase="commentary"),
            BlockStart(1, BlockKind.TEXT, phase="weird"),
            ReasoningDelta("r", block=0),
            TextDelta("t", block=0),
        ]
    )
    assert events[-1]["response"]["output"][1]["phase"] == "commentary"
    assert codes(stream) == {"unknown_phase"}


def block_set() -> BlockSet:
    return BlockSet(Output(count().__next__, lambda prefix: f"{prefix}_1"))


def test_a_second_delta_of_a_kind_opens_nothing() -> None:
    blocks = block_set()
    part, events = blocks.part(BlockKind.TEXT, None)
    assert types(plain(events)) == ["output_item.added", "content_part.added"]
    assert blocks.part(BlockKind.TEXT, None) == (part, [])
    other, events = blocks.part(BlockKind.TEXT, "key")
    assert other is not part
    assert types(plain(events))[-2:] == ["output_item.added", "content_part.added"]


def test_opening_a_keyed_block_ends_the_current_one() -> None:
    blocks = block_set()
    blocks.part(BlockKind.TEXT, None)
    _, events = blocks.part(BlockKind.REASONING, 0)
    assert types(plain(events))[:3] == ["output_text.done", "content_part.done", "output_item.done"]
    assert [block.kind for block in blocks.take_open()] == [BlockKind.REASONING]


def test_taking_the_open_blocks_leaves_none() -> None:
    blocks = block_set()
    blocks.part(BlockKind.TEXT, "key")
    blocks.part(BlockKind.REASONING, None)
    assert len(blocks.take_open()) == 2
    assert blocks.take_open() == []
    assert blocks.end("key", None) == []


def test_ending_a_key_with_a_kind_leaves_the_other_kind_open() -> None:
    blocks = block_set()
    blocks.part(BlockKind.TEXT, 0)
    blocks.part(BlockKind.REASONING, 0)
    assert types(plain(blocks.end(0, BlockKind.REFUSAL)))[-1] == "output_item.done", "it is in the message"
    assert [block.kind for block in blocks.take_open()] == [BlockKind.REASONING]


def test_the_same_summary_part_goes_on_and_another_closes_it() -> None:
    blocks = block_set()
    part, _ = blocks.summary_part(0, None)
    assert blocks.summary_part(0, None) == (part, [])
    _, events = blocks.summary_part(1, None)
    assert types(plain(events)) == [
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "reasoning_summary_part.added",
    ]
