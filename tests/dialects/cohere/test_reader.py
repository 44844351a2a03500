"""Reading Cohere's streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.cohere import DIALECT
from penstock.protocol.content import FileCitation, UrlCitation
from penstock.stream.deltas import AnnotationDelta, ErrorDelta, FinishDelta, FinishReason
from tests.dialects.cohere.recording_exceptions import EXCEPTIONS
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

FILES = files("cohere")


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_noise_changes_nothing(file: str) -> None:
    assert_same_after_noise(DIALECT, file)


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_output_before_a_cut_is_not_lost(file: str) -> None:
    assert_survives_cuts(DIALECT, file)


# Hand-written streams


def event(type: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": type, **place, "delta": {"message": message}}


def content(index: int, **more: str) -> dict[str, Any]:
    return event("content-delta", index, content=more)


def end(reason: Any = "COMPLETE", **more: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, **more}}


START = {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant", "content": []}}}


def test_thinking_and_text_are_separate_blocks() -> None:
    chunks = [
        START,
        event("content-start", 0, content={"type": "thinking", "thinking": ""}),
        content(0, thinking="hm"),
        {"type": "content-end", "index": 0},
        event("content-start", 1, content={"type": "text", "text": ""}),
        content(1, text="Hi"),
        {"type": "content-end", "index": 1},
        end(usage={"tokens": {"input_tokens": 9, "output_tokens": 4}, "cached_tokens": 2}),
        "[DONE]",
    ]
    snapshot = response(DIALECT, chunks)
    assert [item["content"][0]["text"] for item in snapshot["output"]] == ["hm", "Hi"]
    assert [item["type"] for item in snapshot["output"]] == ["reasoning", "message"]
    assert snapshot["usage"]["input_tokens_details"]["cached_tokens"] == 2
    assert snapshot["usage"]["total_tokens"] == 13


def test_billed_units_are_used_if_there_are_no_token_counts() -> None:
    ended = end(usage={"billed_units": {"input_tokens": 3, "output_tokens": 1}})
    assert response(DIALECT, [content(0, text="x"), ended])["usage"]["total_tokens"] == 4


def test_the_tool_plan_is_reasoning_and_a_call_without_arguments_has_none() -> None:
    chunks = [
        START,
        event("tool-plan-delta", tool_plan="I will"),
        event("tool-plan-delta", tool_plan=" look"),
        event("tool-call-start", 0, tool_calls={"id": "f_1", "function": {"name": "f", "arguments": ""}}),
        {"type": "tool-call-end", "index": 0},
        event("tool-call-start", 1, tool_calls={"id": "g_1", "function": {"name": "g", "arguments": ""}}),
        event("tool-call-delta", 1, tool_calls={"function": {"arguments": '{"a"'}}),
        event("tool-call-delta", 1, tool_calls={"function": {"arguments": ":1}"}}),
        {"type": "tool-call-end", "index": 1},
        end("TOOL_CALL"),
    ]
    output = response(DIALECT, chunks)["output"]
    assert output[0]["content"][0]["text"] == "I will look"
    calls = [(item["call_id"], item["name"], item["arguments"]) for item in output[1:]]
    assert calls == [("f_1", "f", "{}"), ("g_1", "g", '{"a":1}')]


def test_ended_blocks_are_complete_if_the_answer_is_cut() -> None:
    called = {"id": "f_1", "function": {"name": "f", "arguments": ""}}
    chunks = [
        content(0, text="Hi"),
        {"type": "content-end", "index": 0},
        event("tool-call-start", 0, tool_calls=called),
        {"type": "tool-call-end", "index": 0},
        end("MAX_TOKENS"),
    ]
    output = response(DIALECT, chunks)["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        ("message", "completed"),
        ("function_call", "completed"),
    ]


def cite(*sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    citation = {"start": 0, "end": 2, "text": "Hi", "sources": list(sources), **more}
    return event("citation-start", 0, citations=citation)


def test_citations_belong_to_their_text() -> None:
    document = {"id": "doc:0", "title": "facts.txt", "text": "..."}
    chunks = [
        content(1, text="Hi"),
        cite({"type": "document", "id": "doc:0", "document": document}, content_index=1),
        {"type": "citation-end", "index": 0},
        cite({"type": "document", "document": {"url": "https://a.example", "title": "A"}}),
        cite({"type": "tool", "tool_output": {"content": "..."}}),
        cite({"type": "document", "document": document}, type="THINKING_CONTENT"),
        {"type": "debug", "prompt": "..."},
        {"type": "something-new"},
        end(),
    ]
    annotations = [delta for delta in read(DIALECT, chunks) if isinstance(delta, AnnotationDelta)]
    url = UrlCitation(url="https://a.example", title="A", start_index=0, end_index=2)
    file = FileCitation(file_id="doc:0", filename="facts.txt", index=2)
    assert annotations == [AnnotationDelta(file, 1), AnnotationDelta(url, 1)]
    snapshot = response(DIALECT, chunks)
    codes = [each["code"] for each in snapshot["diagnostics"]]
    assert codes == ["left_out", "left_out", "unknown_event"]
    assert len(snapshot["output"][0]["content"][0]["annotations"]) == 2


ENDS = [
    ("COMPLETE", "completed", None),
    ("STOP_SEQUENCE", "completed", None),
    ("MAX_TOKENS", "incomplete", "max_output_tokens"),
    ("ERROR_TOXIC", "incomplete", "content_filter"),
    ("ERROR", "failed", "server_error"),
    ("TIMEOUT", "failed", "server_error"),
    ("ERROR_LIMIT", "failed", "context_length_exceeded"),
    ("SOMETHING_NEW", "completed", "unknown_finish"),
    (None, "failed", "upstream_truncated"),
]


@pytest.mark.parametrize(("reason", "status", "expected"), ENDS)
def test_every_finish_reason_has_an_outcome(reason: Any, status: str, expected: Any) -> None:
    snapshot = response(DIALECT, [content(0, text="x"), end(reason)])
    code = (snapshot["error"] or {}).get("code") or (snapshot["incomplete_details"] or {}).get("reason")
    code = code or next((each["code"] for each in snapshot.get("diagnostics", [])), None)
    assert (snapshot["status"], code) == (status, expected)


@pytest.mark.parametrize("marker", ["[DONE]", '"[DONE]"'])
def test_the_end_marker_completes_the_answer(marker: str) -> None:
    assert read(DIALECT, [marker]) == [FinishDelta(FinishReason.STOP)]


FAILURES: list[tuple[list[Any], str]] = [
    ([], "upstream_empty"),
    ([content(0, text="x")], "upstream_truncated"),
    ([{}], "upstream_truncated"),
    (["{"], "upstream_invalid"),
    ([{"message": "too many tokens: the prompt must be shorter"}], "context_length_exceeded"),
    ([{"type": "error", "error": {"message": "over"}}], "server_error"),
]


@pytest.mark.parametrize(("chunks", "code"), FAILURES)
def test_a_failure_is_reported_once(chunks: list[Any], code: str) -> None:
    codes = [delta.code for delta in read(DIALECT, chunks) if isinstance(delta, ErrorDelta)]
    assert codes == [code]


BODY = {
    "id": "1",
    "finish_reason": "TOOL_CALL",
    "message": {
        "role": "assistant",
        "tool_plan": "plan",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}],
        "citations": [{"start": 0, "end": 2, "content_index": 1, "sources": [{"document": {"url": "u"}}]}],
        "tool_calls": [{"id": "f_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    "usage": {"tokens": {"input_tokens": 2, "output_tokens": 1}},
}


def test_a_body_is_read_like_a_stream() -> None:
    chunks = [
        START,
        event("tool-plan-delta", tool_plan="plan"),
        content(0, thinking="hm"),
        {"type": "content-end", "index": 0},
        content(1, text="Hi"),
        cite({"document": {"url": "u"}}, content_index=1),
        {"type": "content-end", "index": 1},
        event("tool-call-start", 0, tool_calls={"id": "f_1", "function": {"name": "f", "arguments": "{}"}}),
        {"type": "tool-call-end", "index": 0},
        end("TOOL_CALL", usage=BODY["usage"]),
    ]
    assert DIALECT.read_body(plan("cohere"), json.dumps(BODY).encode()) == read(DIALECT, chunks)


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", "upstream_empty"), (b"<html>", "upstream_invalid"), (b'{"message": "no"}', "server_error")],
)
def test_an_invalid_body_is_an_error(body: bytes, code: str) -> None:
    deltas = DIALECT.read_body(plan("cohere"), body)
    assert [delta.code for delta in deltas if isinstance(delta, ErrorDelta)] == [code]


def test_an_http_failure_is_classified() -> None:
    error = DIALECT.classify(401, {}, b'{"message":"invalid api token"}')
    assert (error.code, error.message) == ("authentication_error", "invalid api token")


NAMES = ["type", "index", "delta", "message", "content", "text", "thinking", "tool_plan", "tool_calls", "id"]
NAMES += [
    "function",
    "name",
    "arguments",
    "citations",
    "sources",
    "document",
    "url",
    "finish_reason",
    "usage",
]
NAMES += ["tokens", "input_tokens", "output_tokens", "error", "content_index", "start", "end"]
WORDS = [
    "content-delta",
    "content-start",
    "content-end",
    "tool-call-start",
    "tool-call-end",
    "citation-start",
]
WORDS += ["message-end", "COMPLETE", "MAX_TOKENS", "f", "{}"]


@given(st.lists(json_with(NAMES, WORDS), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_json_is_read_without_an_error(chunks: list[Any]) -> None:
    assert_endures(DIALECT, chunks)


@given(st.lists(st.tuples(st.sampled_from(WORDS), json_with(NAMES, WORDS)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_events_are_read_without_an_error(events: list[tuple[str, Any]]) -> None:
    chunks = [{"type": type, "delta": {"message": inner}, "index": 0} for type, inner in events]
    assert_endures(DIALECT, [*chunks, end()])
