"""Finish reasons and usage of the AI SDK, in versions 2, 3 and 4."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.ai_sdk import DIALECT
from penstock.dialects.ai_sdk.finishes import read_finish, read_usage
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.ai_sdk.stream_parts import FINISH, text


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("stop", "completed"),
        ("tool-calls", "completed"),
        ("other", "completed"),
        ("unknown", "completed"),
        ("length", "incomplete"),
        ("content-filter", "incomplete"),
        ("error", "failed"),
        ("unknown to us", "completed"),
        ({"unified": "stop", "raw": "end_turn"}, "completed"),
        ({"unified": "stop", "raw": "pause_turn"}, "incomplete"),
        ({"unified": "error"}, "failed"),
        ({"unified": "interrupted"}, "failed"),
        ({"unified": 5}, "completed"),
        (None, "completed"),
    ],
)
def test_every_finish_reason_has_an_outcome(reason: Any, status: str) -> None:
    assert checks.answer(DIALECT, [*text("Hi"), {**FINISH, "finishReason": reason}])["status"] == status


@pytest.mark.parametrize(
    ("usage", "metadata", "counts"),
    [
        ({"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}, {}, (9, 5, None, None, None)),
        ({"inputTokens": 9, "cachedInputTokens": 4, "reasoningTokens": 2}, {}, (9, None, 4, None, 2)),
        ({"inputTokens": 3, "outputTokens": 1, "cachedInputTokens": 125}, {}, (128, 1, 125, None, None)),
        (
            {"inputTokens": 30, "outputTokens": 1, "cachedInputTokens": 20},
            {"anthropic": {"usage": {"input_tokens": 30, "cache_creation_input_tokens": 7}}},
            (57, 1, 20, 7, None),
        ),
        (
            {
                "inputTokens": {"total": 10, "noCache": 4, "cacheRead": 5, "cacheWrite": 1},
                "outputTokens": {"total": 8, "text": 5, "reasoning": 3},
            },
            {},
            (10, 8, 5, 1, 3),
        ),
        (
            {"inputTokens": {"noCache": 4, "cacheRead": 5}, "outputTokens": {"text": 5, "reasoning": 3}},
            {},
            (9, 8, 5, None, 3),
        ),
        ({"inputTokens": {}, "outputTokens": {}}, {}, (None,) * 5),
        ({"inputTokens": "9", "outputTokens": None}, {}, (None,) * 5),
    ],
)
def test_usage_of_every_version(usage: Any, metadata: Any, counts: tuple[int | None, ...]) -> None:
    assert checks.usage(DIALECT, [{**FINISH, "usage": usage, "providerMetadata": metadata}]) == counts


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("stop", ("stop", "")),  # version 2
        ({"unified": "stop", "raw": "end_turn"}, ("stop", "end_turn")),
        ({"type": "length"}, ("length", "")),
        ({"unified": None, "raw": 5}, ("", "")),
        (None, ("", "")),
        (["stop"], ("", "")),
    ],
)
def test_a_finish_reason_of_every_version(value: Any, expected: tuple[str, str]) -> None:
    assert read_finish(value) == expected


def test_a_total_of_zero_is_not_replaced_by_the_sum_of_its_parts() -> None:
    usage = read_usage({"inputTokens": {"total": 0, "noCache": 4}, "outputTokens": {"total": 0}}, {})
    assert (usage.input_tokens, usage.output_tokens) == (0, 0)
