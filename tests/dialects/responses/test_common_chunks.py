"""The typed decoder for common events: which it accepts, and that it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from penstock.dialects.plan import Plan
from penstock.dialects.responses.common_chunks import read_common
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


def delta(name: str, text: Any = "Hello", index: int = 0, **fields: Any) -> dict[str, Any]:
    position = {"item_id": f"item_{index}", "output_index": index}
    return {"type": f"response.{name}.delta", "sequence_number": 4, **position, "delta": text, **fields}


def item(step: str, index: int, type: str, **fields: Any) -> dict[str, Any]:
    described = {"id": f"item_{index}", "type": type, **fields}
    return {"type": f"response.output_item.{step}", "output_index": index, "item": described}


COMMON: list[dict[str, Any]] = [
    delta("output_text", content_index=0, logprobs=[], obfuscation="abc"),
    delta("output_text", "", content_index=1),
    delta("output_text", content_index=None, logprobs=None),
    {"type": "response.output_text.delta", "delta": "Hello"},
    delta("reasoning_text", index=1, content_index=0),
    delta("reasoning_summary_text", index=1, summary_index=0),
    delta("function_call_arguments", '{"x":', index=2),
    delta("custom_tool_call_input", index=3),
]

OTHER: list[dict[str, Any]] = [
    delta("output_text", content_index=0, logprobs=[{"token": "a", "logprob": -1.0}]),
    delta("output_text", None, content_index=0),
    delta("output_text", content_index="0"),
    delta("reasoning_summary", index=1, summary_index=0),
    delta("reasoning", index=1, content_index=0),
    delta("refusal", content_index=0),
    delta("code_interpreter_call_code", index=4),
    {**COMMON[0], "type": "openai:response.output_text.delta"},
    {"output_index": 0, "delta": "Hello"},
    item("added", 0, "message", phase="commentary"),
    item("added", 1, "reasoning"),
    item("added", 2, "function_call", call_id="call_2", name="read", arguments=""),
    item("added", 3, "custom_tool_call", call_id="call_3", name="view_image", input=""),
    item("done", 0, "message", content=[{"type": "output_text", "text": "HelloHello and more"}]),
    item("done", 1, "reasoning", summary=[{"type": "summary_text", "text": "Hello"}]),
    item("done", 2, "function_call", call_id="call_2", name="read", arguments='{"x":1}'),
    {"type": "response.content_part.added", "output_index": 0, "part": {"type": "output_text", "text": ""}},
    {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hello"},
    {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
    {"type": "response.completed", "response": {"status": "completed", "output": []}},
    {"type": "error", "message": "no"},
]

NAMES = [
    *("type", "sequence_number", "item_id", "output_index", "content_index", "summary_index", "delta"),
    *("logprobs", "obfuscation", "item", "part", "response", "text", "annotation", "error", "unknown", "id"),
]


@pytest.mark.parametrize("common", COMMON, ids=str)
def test_a_delta_of_text_reasoning_arguments_or_input_is_common(common: dict[str, Any]) -> None:
    assert read_common(json.dumps(common)) is not None


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_any_other_event_is_not(other: dict[str, Any]) -> None:
    assert read_common(json.dumps(other)) is None


def test_a_common_event_after_the_end_is_left_out() -> None:
    ended = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    received = [Frame(None, json.dumps(each)) for each in (COMMON[0], ended, COMMON[0])]
    assert_same("responses", plans("responses")[0], received)


def test_any_three_chunks_give_the_same_deltas() -> None:
    assert_triples_agree("responses", COMMON, OTHER)


@needs_recordings
def test_recordings_give_the_same_deltas() -> None:
    assert_recordings_agree("responses", share=0.4)


@settings(max_examples=examples(600))
@given(streams("responses", [*COMMON * 3, *OTHER], NAMES))
def test_any_stream_gives_the_same_deltas(example: tuple[Plan, list[Frame]]) -> None:
    assert_same("responses", *example)
