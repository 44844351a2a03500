"""Messages and reasoning items while they are open."""

from __future__ import annotations

from itertools import count

from penstock.protocol.wire import to_builtins
from penstock.stream.blocks import MessageBlock, OpenTextPart, ReasoningBlock
from penstock.stream.deltas import (
    BlockKind,
    FinishReason,
    OpaqueReasoning,
    ReasoningDelta,
    SummaryDelta,
    TextDelta,
)
from penstock.stream.output import Output
from tests.stream.running import (
    CITATION,
    NOW,
    machine,
    of_type,
    plain,
    run,
    types,
)


# Blocks
def test_text_is_announced_streamed_and_closed() -> None:
    _, events = run([TextDelta("Hel"), TextDelta(""), TextDelta("lo")])
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert events[-1]["response"]["completed_at"] == NOW + 1


def test_summary_parts_and_content_are_one_reasoning_item() -> None:
    stream, events = run(
        [
            SummaryDelta("one", part=0),
            SummaryDelta(" more", part=0),
            SummaryDelta("two", part=1),
            ReasoningDelta("raw"),
            OpaqueReasoning("sealed"),
        ]
    )
    (item,) = events[-1]["response"]["output"]
    assert [part["text"] for part in item["summary"]] == ["one more", "two"]
    assert item["content"] == [{"type": "reasoning_text", "text": "raw"}]
    assert item["encrypted_content"] == "sealed"
    assert "encrypted_content" not in of_type(events, "output_item.added")[0]["item"]
    assert stream.diagnostics == []


def test_logprobs_are_on_the_delta_and_on_the_part() -> None:
    logprob = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    _, events = run([TextDelta("a", logprobs=[logprob]), TextDelta("b")])  # type: ignore[list-item]
    deltas = of_type(events, "output_text.delta")
    assert [event["logprobs"] for event in deltas] == [[logprob], []]
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == [logprob]


def test_unpaired_surrogates_are_replaced() -> None:
    _, events = run([TextDelta("a\ud83d"), TextDelta("\ude00b")])
    text = events[-1]["response"]["output"][0]["content"][0]["text"]
    assert text == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


def test_the_events_at_the_end_of_a_part_share_one_text() -> None:
    """A text of 60 MB is joined only once for all events that repeat it."""
    m = machine()
    m.start()
    for _ in range(3):
        m.text("a piece, ")
    done, part, item, completed = m.finish(FinishReason.STOP)
    text = done.text  # type: ignore[attr-defined]
    assert text == "a piece, " * 3
    assert part.part.text is text  # type: ignore[attr-defined]
    assert item.item.content[0].text is text  # type: ignore[attr-defined]
    assert completed.response.output[0].content[0].text is text  # type: ignore[attr-defined]


def test_a_text_does_not_stay_in_memory_as_thousands_of_chunks() -> None:
    """A chunk of a few characters takes sixty bytes."""
    block = MessageBlock(Output(count().__next__, lambda prefix: f"{prefix}_1"), BlockKind.TEXT, None)
    part, _ = block.open_part(BlockKind.TEXT)
    for number in range(10_000):
        part.delta(f"{number:4} ")
        assert len(part.chunks) <= max(512, 5 * number // 8) / 5 + 1
    assert part.text == "".join(f"{number:4} " for number in range(10_000))


def test_a_long_text_is_joined_piece_by_piece_and_stays_complete() -> None:
    block = MessageBlock(Output(count().__next__, lambda prefix: f"{prefix}_1"), BlockKind.TEXT, None)
    part, _ = block.open_part(BlockKind.TEXT)
    for _ in range(5):
        part.take("x" * (1024 * 1024))
        assert part.chunks == [], "a megabyte is not left in chunks"
    part.take("end")
    assert part.chunks == ["end"]
    assert part.text == "x" * (5 * 1024 * 1024) + "end"
    assert part.chunks == []


def test_another_kind_of_text_closes_the_open_part_of_a_message() -> None:
    block = MessageBlock(Output(count().__next__, lambda prefix: f"{prefix}_1"), BlockKind.TEXT, "commentary")
    block.open()
    text, _ = block.open_part(BlockKind.TEXT)
    text.delta("So")
    _, events = block.open_part(BlockKind.REFUSAL)
    assert types(plain(events)) == ["output_text.done", "content_part.done", "content_part.added"]
    assert [to_builtins(part)["type"] for part in block.content] == ["output_text", "refusal"]
    assert to_builtins(block.item)["phase"] == "commentary"


def test_an_open_item_does_not_contain_its_opaque_data() -> None:
    block = ReasoningBlock(Output(count().__next__, lambda prefix: f"{prefix}_1"))
    block.opaque = "sealed"
    block.open()
    assert "encrypted_content" not in to_builtins(block.item)
    (done,) = block.close("completed")
    assert to_builtins(done)["item"]["encrypted_content"] == "sealed"


def test_a_closed_block_drops_its_reference_to_the_output() -> None:
    block = ReasoningBlock(Output(count().__next__, lambda prefix: f"{prefix}_1"))
    block.open()
    block.close("incomplete")
    assert not hasattr(block, "output"), "a cycle would keep a long text in memory"
    assert to_builtins(block.item)["status"] == "incomplete"


def test_annotations_and_log_probabilities_are_copied_into_each_event() -> None:
    block = MessageBlock(Output(count().__next__, lambda prefix: f"{prefix}_1"), BlockKind.TEXT, None)
    part, events = block.open_part(BlockKind.TEXT)
    assert isinstance(part, OpenTextPart)
    part.annotate(CITATION)
    (added,) = plain(events)
    assert added["part"]["annotations"] == []
    assert len(to_builtins(part.part)["annotations"]) == 1
