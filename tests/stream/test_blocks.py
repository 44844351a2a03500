"""Messages and reasoning items while they are open."""

from __future__ import annotations

from penstock.stream.deltas import (
    FinishReason,
    OpaqueReasoning,
    ReasoningDelta,
    SummaryDelta,
    TextDelta,
)
from tests.stream.running import (
    NOW,
    machine,
    of_type,
    run,
)


def types(events: list[dict[str, object]]) -> list[str]:
    return [str(event["type"]).removeprefix("response.") for event in events]


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
