"""The typed decoder for common chunks: which it accepts, and that it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from penstock.dialects.chat.common_chunks import read_common
from penstock.dialects.plan import Plan
from penstock.sse import Frame
from tests.dialects.chat_streams import calls, chunk
from tests.dialects.common_chunk_checks import (
    assert_recordings_agree,
    assert_same,
    assert_triples_agree,
    plans,
    streams,
)
from tests.dialects.recordings import needs_recordings
from tests.effort import examples

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "f"}
TEXT = chunk({"content": "Hello"}, **HEAD)
FUNCTION = {"name": "read", "arguments": ""}
CUSTOM = {"name": "patch", "input": "x"}

COMMON: list[dict[str, Any]] = [
    TEXT,
    chunk({"content": "Hello", "role": "assistant", "refusal": None}),
    chunk({"content": "Hello", "reasoning": "a thought"}, usage=None),
    chunk({"content": "", "reasoning_content": "a thought"}, **HEAD),
    chunk({"reasoning_content": "a", "reasoning": "b"}),
    chunk({}, service_tier="default", obfuscation="abc"),
    calls({"index": 0, "function": {"arguments": '{"x":'}}),
    calls({"index": 0, "id": "", "function": {"arguments": "1}", "name": None}}, {"index": 1}),
    calls({"index": 1, "custom": {"input": "text"}}),
]

OTHER: list[dict[str, Any]] = [
    chunk({"content": "Hello"}, finish="stop"),
    chunk({"content": "Hello"}, usage={"prompt_tokens": 1, "completion_tokens": 2}),
    chunk({"content": [{"type": "text", "text": "Hello"}]}),
    chunk({"content": "Hello", "annotations": [{"type": "url_citation", "url": "https://a.example"}]}),
    chunk({"content": "Hello", "executed_tools": [{"index": 0, "type": "search"}]}),
    chunk({"content": "Hello", "audio": {"data": ""}}),
    chunk({"content": "Hello", "extra_content": {"google": {"thought": True}}}),
    chunk({"refusal": "No"}),
    chunk({"reasoning_details": [{"type": "reasoning.text", "text": "a"}], "reasoning": "a"}),
    chunk({"content": "Hello"}, citations=["https://a.example"]),
    chunk({"content": "Hello"}, error={"message": "no"}),
    chunk({"content": "Hello"}, base_resp={"status_code": 1}),
    {"choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}}]},
    {"choices": [{"index": 1, "delta": {"content": "a"}}]},
    {"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]},
    {"choices": [{"index": 0, "message": {"content": "a"}}]},
    {"choices": [{"index": 0, "text": "a"}]},
    {"choices": []},
    calls({"index": 0, "id": "call_1", "function": FUNCTION}),
    calls({"index": 0, "type": "custom", "custom": CUSTOM}),
    calls({"index": "a", "function": {"arguments": "1"}}),
    calls({"index": 0, "function": {"arguments": {"x": 1}}}),
    calls({"index": 0, "function": {"arguments": "1"}, "extra_content": "signature"}),
]

NAMES = [
    *("id", "model", "service_tier", "choices", "usage", "x_groq", "error", "base_resp", "object", "type"),
    *("index", "delta", "message", "text", "logprobs", "finish_reason", "role", "content", "refusal"),
    *("reasoning_content", "reasoning", "thinking", "reasoning_details", "cot_id", "extra_content"),
    *("tool_calls", "function_call", "function", "custom", "arguments", "input", "name", "audio", "images"),
    *("annotations", "citations", "search_results", "executed_tools", "detail", "errors", "unknown"),
]


@pytest.mark.parametrize("common", COMMON, ids=str)
def test_a_piece_of_text_reasoning_or_arguments_is_common(common: dict[str, Any]) -> None:
    assert read_common(json.dumps(common)) is not None


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_any_other_chunk_is_not(other: dict[str, Any]) -> None:
    assert read_common(json.dumps(other)) is None


@pytest.mark.parametrize("data", ["", "[DONE]", "null", '{"choices":', "\ufeff{}", '{"id": "\\ud83d"}'])
def test_other_text_is_not(data: str) -> None:
    assert read_common(data) is None


def test_a_common_chunk_in_an_error_event_is_an_error() -> None:
    assert_same("chat", plans("chat")[0], [Frame("error", json.dumps(TEXT))])


def test_any_three_chunks_give_the_same_deltas() -> None:
    assert_triples_agree("chat", COMMON, OTHER)


@needs_recordings
def test_recordings_give_the_same_deltas() -> None:
    assert_recordings_agree("chat", share=0.7)


@settings(max_examples=examples(600))
@given(streams("chat", [*COMMON * 3, *OTHER], NAMES))
def test_any_stream_gives_the_same_deltas(example: tuple[Plan, list[Frame]]) -> None:
    assert_same("chat", *example)
