"""Making a summary of what a model answers to a request for a compaction."""

from __future__ import annotations

from penstock.gateway.turn.compaction import SummaryCollector
from penstock.protocol.items import Compaction, ReasoningItem
from penstock.stream.deltas import (
    Delta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)

# How a summary is made


def made_of(*deltas: Delta) -> list[Delta]:
    return SummaryCollector(lambda summary: f"sealed {summary}").take(deltas)


def test_of_an_answer_only_its_text_is_taken() -> None:
    stop = FinishDelta(FinishReason.STOP)
    usage = UsageDelta(input_tokens=1, output_tokens=2)
    told = made_of(
        ReasoningDelta("hm"),
        TextDelta("a "),
        ToolCallDelta(key=0, name="look", arguments="{}"),
        ItemDelta("x", ReasoningItem(), done=True),
        TextDelta("summary\n"),
        usage,
        stop,
        stop,
    )
    item = ItemDelta("compaction_trigger", Compaction(encrypted_content="sealed a summary"), done=True)
    assert told == [usage, item, stop, stop]


def test_a_refusal_is_no_summary() -> None:
    [error, _] = made_of(RefusalDelta("I will not"), FinishDelta(FinishReason.STOP))
    assert isinstance(error, ErrorDelta)
    assert error.code == "upstream_empty"
