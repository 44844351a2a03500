"""Reading Ollama's streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.ollama import DIALECT
from penstock.stream.deltas import ErrorDelta
from tests.dialects.block_stream_checks import smallest
from tests.dialects.ollama.recording_exceptions import EXCEPTIONS
from tests.dialects.recording_checks import (
    assert_agrees,
    assert_endures,
    assert_same_after_noise,
    assert_survives_cuts,
    json_with,
    plan,
    read,
    response,
)
from tests.dialects.recordings import files, needs_recordings

FILES = files("ollama-native")


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_noise_changes_nothing(file: str) -> None:
    assert_same_after_noise(DIALECT, file)


@needs_recordings
@pytest.mark.parametrize("file", smallest("ollama-native", 8))
def test_output_before_a_cut_is_not_lost(file: str) -> None:
    assert_survives_cuts(DIALECT, file)


# Hand-written streams


def line(content: str = "", **more: Any) -> dict[str, Any]:
    return {"model": "qwen3", "message": {"role": "assistant", "content": content, **more}, "done": False}


def done(reason: Any = "stop", **more: Any) -> dict[str, Any]:
    return (
        {"model": "qwen3", "message": {"role": "assistant", "content": ""}, "done": True}
        | ({"done_reason": reason} if reason is not None else {})
        | more
    )


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments, **more}}


def test_thinking_text_and_usage() -> None:
    ended = done(prompt_eval_count=12, eval_count=5)
    snapshot = response(DIALECT, [line(thinking="hm"), line("Hi"), line(" you"), ended])
    assert [item["type"] for item in snapshot["output"]] == ["reasoning", "message"]
    assert snapshot["output"][0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert snapshot["output"][1]["content"][0]["text"] == "Hi you"
    assert (snapshot["model"], snapshot["usage"]["total_tokens"]) == ("qwen3", 17)


def test_equal_calls_without_ids_are_separate_calls() -> None:
    calls = [call("f", {"a": 1}), call("f", {"a": 1}, index=1)]
    chunks = [line(tool_calls=calls), line(tool_calls=[call("f", {})]), done()]
    output = response(DIALECT, chunks)["output"]
    assert [item["arguments"] for item in output] == ['{"a":1}', '{"a":1}', "{}"]
    assert len({item["call_id"] for item in output}) == 3


def test_an_id_is_kept() -> None:
    snapshot = response(DIALECT, [line(tool_calls=[call("f", "{}") | {"id": "call_9"}]), done()])
    assert snapshot["output"][0]["call_id"] == "call_9"


def test_answers_of_the_generate_endpoint_are_read() -> None:
    chunks = [
        {"model": "m", "thinking": "hm", "response": "", "done": False},
        {"model": "m", "response": "Hi", "done": False},
        {"model": "m", "response": "", "done": True, "done_reason": "stop", "context": [1, 2]},
    ]
    output = response(DIALECT, chunks)["output"]
    assert output[0]["content"][0]["text"] == "hm"
    assert output[1]["content"][0]["text"] == "Hi"


ENDS = [
    ("stop", "completed", None),
    (None, "completed", None),
    ("load", "completed", None),
    ("tool_calls", "completed", None),
    ("length", "incomplete", "max_output_tokens"),
    ("something_new", "completed", "unknown_finish"),
]


@pytest.mark.parametrize(("reason", "status", "expected"), ENDS)
def test_every_finish_reason_has_an_outcome(reason: Any, status: str, expected: Any) -> None:
    snapshot = response(DIALECT, [line("x"), done(reason)])
    code = (snapshot["incomplete_details"] or {}).get("reason")
    code = code or next((each["code"] for each in snapshot.get("diagnostics", [])), None)
    assert (snapshot["status"], code) == (status, expected)


FAILURES: list[tuple[list[Any], str]] = [
    ([], "upstream_empty"),
    ([line("x")], "upstream_truncated"),
    ([line("x"), "[DONE]"], "upstream_truncated"),
    (["{"], "upstream_invalid"),
    ([line("x"), {"error": "model 'x' not found"}, line("y")], "model_not_found"),
    ([{"error": "an error was encountered while running the model"}], "server_error"),
]


@pytest.mark.parametrize(("chunks", "code"), FAILURES)
def test_a_failure_is_reported_once(chunks: list[Any], code: str) -> None:
    codes = [delta.code for delta in read(DIALECT, chunks) if isinstance(delta, ErrorDelta)]
    assert codes == [code]
    assert response(DIALECT, chunks)["error"]["code"] == code


def test_a_body_is_read_like_a_stream() -> None:
    whole = line("x") | {"done": True, "done_reason": "stop", "eval_count": 1}
    assert DIALECT.read_body(plan("ollama"), json.dumps(whole).encode()) == read(DIALECT, [whole])
    assert DIALECT.read_body(plan("ollama"), b"") == read(DIALECT, [])


def test_an_http_failure_is_classified() -> None:
    error = DIALECT.classify(404, {}, b'{"error":"model not found"}')
    assert (error.code, error.message) == ("model_not_found", "model not found")


NAMES = [
    "message",
    "content",
    "thinking",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "done",
    "done_reason",
]
NAMES += ["response", "error", "model", "prompt_eval_count", "eval_count", "id"]


@given(st.lists(json_with(NAMES, ["stop", "length", "f", "{}"]), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_json_is_read_without_an_error(chunks: list[Any]) -> None:
    assert_endures(DIALECT, chunks)
