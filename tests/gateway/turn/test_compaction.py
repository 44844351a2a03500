"""Turning the answer of a model into the summary of a compaction."""

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


def summarised(*deltas: Delta) -> list[Delta]:
    return SummaryCollector(lambda summary: f"sealed {summary}").take(deltas)


def test_only_the_text_of_an_answer_becomes_the_summary() -> None:
    stop = FinishDelta(FinishReason.STOP)
    usage = UsageDelta(input_tokens=1, output_tokens=2)
    deltas = summarised(
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
    assert deltas == [usage, item, stop, stop]


def test_a_refusal_is_not_a_summary() -> None:
    [error, _] = summarised(RefusalDelta("I will not"), FinishDelta(FinishReason.STOP))
    assert isinstance(error, ErrorDelta)
    assert error.code == "upstream_empty"
