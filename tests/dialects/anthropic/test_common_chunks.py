"""The typed decoder for common events: which it accepts, and that it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from penstock.dialects.anthropic.common_chunks import read_common
from penstock.dialects.plan import Plan
from penstock.sse import Frame
from tests.dialects.common_chunk_checks import (
    assert_recordings_agree,
    assert_same,
    assert_triples_agree,
    plans,
    streams,
)
from tests.dialects.recordings import needs_recordings
from tests.effort import examples


def delta(type: str, index: Any = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def start(index: int, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}


COMMON: list[dict[str, Any]] = [
    delta("text_delta", text="Hello"),
    delta("text_delta", text=""),
    delta("text_delta", 1, text="Hello"),
    delta("thinking_delta", thinking="a thought"),
    delta("input_json_delta", 1, partial_json='{"x":'),
]

OTHER: list[dict[str, Any]] = [
    delta("text_delta", text="Hello", citations=[]),
    delta("text_delta", text=None),
    delta("text_delta", "0", text="Hello"),
    delta("text_delta", None, text="Hello"),
    delta("text_delta", thinking="Hello"),
    delta("signature_delta", signature="s"),
    delta("citations_delta", citation={"url": "https://a.example"}),
    {"index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {**delta("text_delta", text="Hello"), "error": {"message": "no"}},
    {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": {"input_tokens": 1}}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}},
    {"type": "message_stop"},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_stop", "index": 1},
    start(0, "text", text=""),
    start(1, "thinking", thinking=""),
    start(1, "tool_use", id="t1", name="read", input={}),
    start(0, "server_tool_use", id="s1", name="web_search"),
]

NAMES = [
    *("type", "index", "delta", "text", "thinking", "partial_json", "signature", "citation", "citations"),
    *("content_block", "message", "usage", "error", "bytes", "chunk", "stop_reason", "id", "name", "input"),
]


@pytest.mark.parametrize("common", COMMON, ids=str)
def test_a_piece_of_text_thinking_or_arguments_is_common(common: dict[str, Any]) -> None:
    assert read_common(json.dumps(common)) is not None


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_any_other_event_is_not(other: dict[str, Any]) -> None:
    assert read_common(json.dumps(other)) is None


def test_a_common_event_after_the_end_is_left_out() -> None:
    received = [Frame(None, json.dumps(each)) for each in (COMMON[0], {"type": "message_stop"}, COMMON[0])]
    assert_same("anthropic", plans("anthropic")[0], received)


def test_any_three_chunks_give_the_same_deltas() -> None:
    assert_triples_agree("anthropic", COMMON, OTHER)


@needs_recordings
def test_recordings_give_the_same_deltas() -> None:
    assert_recordings_agree("anthropic", share=0.5)


@settings(max_examples=examples(600))
@given(streams("anthropic", [*COMMON * 3, *OTHER], NAMES))
def test_any_stream_gives_the_same_deltas(example: tuple[Plan, list[Frame]]) -> None:
    assert_same("anthropic", *example)
