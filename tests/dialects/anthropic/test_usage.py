"""Token counts of Anthropic."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.usage import AnthropicUsage
from penstock.stream.deltas import (
    UsageDelta,
)
from tests.dialects.anthropic.streams import STOP, deltas_of, finish, start
from tests.dialects.recording_checks import response

USAGES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, int]]] = {
    "ask D2: input is inclusive of the cache": (
        {"input_tokens": 3, "cache_read_input_tokens": 125_000, "cache_creation_input_tokens": 2000},
        {"output_tokens": 206},
        {"input": 127_003, "cached": 125_000, "written": 2000, "output": 206, "reasoning": 0},
    ),
    "quirk A10: the later count replaces the earlier one": (
        {"input_tokens": 17, "output_tokens": 1},
        {"input_tokens": 61, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
        {"input": 61, "cached": 0, "written": 0, "output": 9, "reasoning": 4},
    ),
    "quirk A10: field by field": (
        {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1},
        {"input_tokens": 12, "output_tokens": 2},
        {"input": 17, "cached": 5, "written": 0, "output": 2, "reasoning": 0},
    ),
    "quirk C6: zeros do not replace counts": (
        {"input_tokens": 10, "output_tokens": 1},
        {"input_tokens": 0, "output_tokens": 7},
        {"input": 10, "cached": 0, "written": 0, "output": 7, "reasoning": 0},
    ),
    "quirk C6: a zero of one field does not change the sum": (
        {"input_tokens": 10, "cache_read_input_tokens": 5},
        {"input_tokens": 0, "output_tokens": 7},
        {"input": 15, "cached": 5, "written": 0, "output": 7, "reasoning": 0},
    ),
    "uncached input may arrive later": (
        {"input_tokens": 0, "cache_creation_input_tokens": 0},
        {"input_tokens": 3, "cache_read_input_tokens": 0, "output_tokens": 1},
        {"input": 3, "cached": 0, "written": 0, "output": 1, "reasoning": 0},
    ),
    "compactions are included": (
        {"input_tokens": 100, "cache_read_input_tokens": 55_000, "output_tokens": 1},
        {
            "input_tokens": 181,
            "cache_read_input_tokens": 0,
            "output_tokens": 8,
            "iterations": [
                {
                    "type": "compaction",
                    "input_tokens": 100,
                    "cache_read_input_tokens": 55_000,
                    "output_tokens": 83,
                },
                {"type": "message", "input_tokens": 181, "output_tokens": 8},
            ],
        },
        {"input": 55_281, "cached": 55_000, "written": 0, "output": 91, "reasoning": 0},
    ),
}


@pytest.mark.parametrize("case", USAGES)
def test_counts_are_merged_field_by_field(case: str) -> None:
    first, last, expected = USAGES[case]
    usage = response(DIALECT, [start(usage=first), *finish(usage=last)])["usage"]
    assert {
        "input": usage["input_tokens"],
        "cached": usage["input_tokens_details"]["cached_tokens"],
        "written": usage["input_tokens_details"]["cache_write_tokens"],
        "output": usage["output_tokens"],
        "reasoning": usage["output_tokens_details"]["reasoning_tokens"],
    } == expected


def test_usage_without_counts_is_none() -> None:
    assert response(DIALECT, [start(), *finish()])["usage"] is None
    assert UsageDelta() in deltas_of([start(usage={"input_tokens": "many"}), *finish()])


def test_bedrock_metrics_fill_in_missing_counts() -> None:
    metrics = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 16, "outputTokenCount": 18}}
    usage = response(DIALECT, [start(), *finish()[:1], {**STOP, **metrics}])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (16, 18)
    message_start = start(usage={"input_tokens": 5, "output_tokens": 6})
    usage = response(DIALECT, [message_start, *finish()[:1], {**STOP, **metrics}])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 6)


@pytest.mark.parametrize("usage", [None, {}, [], "many"])
def test_no_usage_gives_no_delta(usage: Any) -> None:
    assert AnthropicUsage().add(usage) == []


def test_a_negative_count_is_zero() -> None:
    (delta,) = AnthropicUsage().add({"input_tokens": -1, "output_tokens": 4})
    assert (delta.input_tokens, delta.output_tokens) == (0, 4)


def test_reasoning_tokens_are_kept_if_a_later_event_has_none() -> None:
    usage = AnthropicUsage()
    usage.add({"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}})
    (delta,) = usage.add({"output_tokens": 10})
    assert (delta.output_tokens, delta.reasoning_tokens) == (10, 4)


def test_metrics_add_only_the_counts_that_are_missing() -> None:
    usage = AnthropicUsage()
    usage.add({"input_tokens": 5})
    (delta,) = usage.add_metrics(
        {"inputTokenCount": 99, "outputTokenCount": 7, "cacheReadInputTokenCount": 2}
    )
    assert (delta.input_tokens, delta.output_tokens, delta.cached_tokens) == (7, 7, 2)
    assert usage.add_metrics({"inputTokenCount": 99}) == []
    assert usage.add_metrics(None) == []
