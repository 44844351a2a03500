"""Token counts of Bedrock."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.bedrock import DIALECT
from penstock.dialects.bedrock.usage import usage_of
from penstock.stream.deltas import UsageDelta
from tests.dialects.bedrock.streams import START, finish
from tests.dialects.recording_checks import response

USAGES: list[tuple[dict[str, Any], tuple[int, int, int, int]]] = [
    ({"inputTokens": 8, "outputTokens": 10, "totalTokens": 18}, (8, 10, 0, 0)),
    (
        {
            "inputTokens": 3,
            "outputTokens": 206,
            "totalTokens": 127_209,
            "cacheReadInputTokens": 125_000,
            "cacheWriteInputTokens": 2000,
        },
        (127_003, 206, 125_000, 2000),
    ),
    ({"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cacheReadInputTokens": 4}, (10, 5, 4, 0)),
    ({"inputTokens": 5, "outputTokens": 10, "cacheReadInputTokenCount": 2}, (7, 10, 2, 0)),
]


@pytest.mark.parametrize(("counts_sent", "expected"), USAGES)
def test_usage_arrives_after_the_end_and_includes_cached_input(
    counts_sent: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    usage = response(DIALECT, [START, *finish(usage=counts_sent)])["usage"]
    details = usage["input_tokens_details"]
    counts = usage["input_tokens"], usage["output_tokens"], details["cached_tokens"]
    assert (*counts, details["cache_write_tokens"]) == expected


def test_the_metrics_of_an_invocation_are_usage() -> None:
    metrics = {"inputTokenCount": 5, "outputTokenCount": 10}
    chunk = {"metadata": {}, "amazon-bedrock-invocationMetrics": metrics, "p": "abc"}
    usage = response(DIALECT, [START, *finish()[:1], chunk])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 10)
    assert response(DIALECT, [START, *finish()])["usage"] is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, []),
        ({"totalTokens": 9, "cacheReadInputTokens": 9}, []),
        ({"inputTokens": "many"}, []),
        ({"outputTokens": 3}, [UsageDelta(output_tokens=3)]),
        ({"inputTokens": -3, "outputTokens": 3}, [UsageDelta(input_tokens=0, output_tokens=3)]),
        # The names of Converse take precedence over those of an invocation.
        ({"inputTokens": 1, "inputTokenCount": 2}, [UsageDelta(input_tokens=1)]),
        # The total shows whether the input includes the cached tokens.
        (
            {"inputTokens": 10, "totalTokens": 10, "cacheWriteInputTokens": 4},
            [UsageDelta(input_tokens=10, cache_write_tokens=4)],
        ),
        (
            {"inputTokens": 10, "totalTokens": 14, "cacheWriteInputTokens": 4},
            [UsageDelta(input_tokens=14, cache_write_tokens=4)],
        ),
    ],
)
def test_cached_tokens_are_added_unless_the_total_includes_them(
    usage: dict[str, Any], expected: list[UsageDelta]
) -> None:
    assert usage_of(usage) == expected
