"""Token counts of Bedrock."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.bedrock import DIALECT
from tests.dialects.bedrock.streams import START, finish
from tests.dialects.reading_proof import response

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
