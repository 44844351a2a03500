"""The typed decoder for common chunks: which it accepts, and that it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.common_chunks import read_common
from penstock.dialects.plan import Plan
from penstock.sse import Frame
from penstock.stream.deltas import UsageDelta
from tests.dialects.common_chunk_checks import (
    assert_recordings_agree,
    assert_same,
    assert_triples_agree,
    streams,
)
from tests.dialects.recording_checks import read
from tests.dialects.recordings import needs_recordings
from tests.effort import examples

USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12, "thoughtsTokenCount": 0}
DETAILS = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}], "trafficType": "ON_DEMAND_FLEX"}


def chunk(*parts: dict[str, Any], usage: Any = None, candidate: Any = None, **fields: Any) -> dict[str, Any]:
    content = {"parts": list(parts), "role": "model"}
    found = {"candidates": [{"content": content, "index": 0, **(candidate or {})}]}
    return {**found, **({} if usage is None else {"usageMetadata": usage}), **fields}


COMMON: list[dict[str, Any]] = [
    chunk({"text": "Hello"}, usage=USAGE, modelVersion="gemini-x", responseId="r1"),
    chunk({"text": "Hello"}, usage={**USAGE, **DETAILS}, createTime="2026-01-01T00:00:00Z"),
    chunk({"text": "a thought", "thought": True}, usage={"trafficType": "ON_DEMAND"}),
    chunk({"text": "Hello", "thought": False}, {"text": ""}, usage={}),
    chunk(),
]

OTHER: list[dict[str, Any]] = [
    chunk({"text": "Hello"}, candidate={"finishReason": "STOP"}),
    chunk({"text": "Hello"}, candidate={"index": 1}),
    chunk({"text": "Hello"}, candidate={"groundingMetadata": {}}),
    chunk({"text": "Hello"}, candidate={"logprobsResult": {"chosenCandidates": [{"token": "a"}]}}),
    chunk({"text": "Hello"}, candidate={"citationMetadata": {"citations": [{"uri": "https://a.example"}]}}),
    chunk({"text": "Hello", "thoughtSignature": "s"}),
    chunk({"thought": True, "thoughtSignature": "s"}),
    chunk({"functionCall": {"name": "f", "args": {"x": 1}}}),
    chunk({"functionCall": {"name": "f", "willContinue": True}}),
    chunk({"functionCall": {"partialArgs": [{"jsonPath": "$.x", "stringValue": "a"}], "willContinue": True}}),
    chunk({"text": "Hello"}, usage={"promptTokenCount": -1}),
    chunk({"text": "Hello"}, usage={"prompt_token_count": 1}),
    chunk({"text": "Hello"}, error={"message": "no"}),
    chunk({"text": "Hello"}, promptFeedback={"blockReason": "SAFETY"}),
    {"usageMetadata": USAGE},
    {"candidates": []},
]

NAMES = [
    *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "index", "finishReason"),
    *("usageMetadata", "usage_metadata", "promptTokenCount", "thoughtsTokenCount", "serviceTier"),
    *("trafficType", "modelVersion", "model_version", "responseId", "promptFeedback", "error", "unknown"),
    *("functionCall", "inlineData", "groundingMetadata", "citationMetadata", "logprobsResult", "role"),
]


@pytest.mark.parametrize("common", COMMON, ids=str)
def test_text_and_thoughts_are_common(common: dict[str, Any]) -> None:
    assert read_common(json.dumps(common)) is not None


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_any_other_chunk_is_not(other: dict[str, Any]) -> None:
    assert read_common(json.dumps(other)) is None


def test_usage_without_counts_is_not_passed_on() -> None:
    deltas = read(
        DIALECT, [COMMON[0], COMMON[2], chunk({"text": "a"}, usage={}), chunk(candidate={"finishReason": 1})]
    )
    assert [each for each in deltas if isinstance(each, UsageDelta)] == [UsageDelta(9, 3, reasoning_tokens=0)]


def test_any_three_chunks_give_the_same_deltas() -> None:
    assert_triples_agree("gemini", COMMON, OTHER)


@needs_recordings
def test_recordings_give_the_same_deltas() -> None:
    assert_recordings_agree("gemini", share=0.4)


@settings(max_examples=examples(600))
@given(streams("gemini", [*COMMON * 3, *OTHER], NAMES))
def test_any_stream_gives_the_same_deltas(example: tuple[Plan, list[Frame]]) -> None:
    assert_same("gemini", *example)
