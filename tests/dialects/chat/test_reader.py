"""Reading the Chat Completions of every vendor: streams and complete answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.chat import DIALECT
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)
from tests.dialects.block_stream_checks import (
    as_frame,
    byte_cuts,
    check_cuts,
    check_noise,
    check_splits,
    chunk_borders,
    json_values,
    objects,
    smallest,
)
from tests.dialects.chat.oracle_exceptions import EXCEPTIONS
from tests.dialects.chat_streams import DONE, STOP, answer, calls, chunk, of, plan, read
from tests.dialects.recording_checks import assert_agrees
from tests.dialects.recordings import files, needs_recordings, of_each_provider, translate
from tests.effort import examples

FOLDER = "chat-completions"
FILES = files(FOLDER)
SAMPLE = of_each_provider(FOLDER)
"""`make recordings` tests the other ones."""
GARBLED = [file for file in FILES if "bing-search-skill" in file]
"""Recordings with frames that are not JSON."""

# Recordings


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_like_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
def test_every_exception_is_a_recording() -> None:
    assert set(EXCEPTIONS) <= set(FILES)


@needs_recordings
@pytest.mark.parametrize("file", [file for file in SAMPLE if file.endswith(".sse")])
def test_frames_do_not_depend_on_how_the_bytes_are_split(file: str) -> None:
    check_splits(file)


NOISE = [
    Frame(None, ""),
    as_frame({}),
    as_frame({"choices": []}),
    as_frame({"choices": [], "type": "ping", "x_new": {"text": "no"}}),
    as_frame(chunk({"role": "assistant", "content": ""})),
    as_frame(chunk({"role": "", "content": None, "tool_calls": [], "x_new": "no"})),
]


@needs_recordings
@pytest.mark.parametrize("file", [file for file in SAMPLE if file not in GARBLED])
def test_noise_changes_nothing(file: str) -> None:
    check_noise(DIALECT, file, NOISE)


def text_and_reasoning(raw: dict[str, Any]) -> tuple[str, str]:
    """Return the text and the reasoning in one chunk, read as simply as possible."""
    text = reasoning = ""
    for choice in raw.get("choices") or []:
        delta = choice.get("delta") or {}
        if choice.get("index", 0) != 0:
            continue
        content = delta.get("content") or ""
        if isinstance(content, list):
            reasoning += "".join(part["text"] for each in content for part in each.get("thinking", []))
            content = "".join(each.get("text", "") for each in content)
        text += content + (delta.get("refusal") or "")
        details = "".join(
            each.get("text") or each.get("summary") or "" for each in delta.get("reasoning_details") or []
        )
        plain = delta.get("reasoning_content") or delta.get("reasoning") or details
        reasoning += plain + (delta.get("cot_summary") or "")
    return text, reasoning


@needs_recordings
@pytest.mark.parametrize("file", smallest(FOLDER, 30))
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    check_cuts(DIALECT, file, chunk_borders(file), text_and_reasoning)
    check_cuts(DIALECT, file, byte_cuts(file), text_and_reasoning)


@needs_recordings
@pytest.mark.recordings
@pytest.mark.parametrize("file", [file for file in FILES if file not in SAMPLE])
def test_all_recordings_survive_splits_and_noise(file: str) -> None:
    if file.endswith(".sse"):
        check_splits(file)
    if file not in GARBLED:
        check_noise(DIALECT, file, NOISE)


# Ends and errors


ENDS: dict[str, tuple[list[Any], Delta]] = {
    "nothing": ([], ErrorDelta("upstream_empty", "the upstream ended without sending anything")),
    "nothing but [DONE]": (
        [DONE],
        ErrorDelta("upstream_empty", "the upstream ended without sending anything"),
    ),
    "cut off": (
        [chunk({"content": "a"})],
        ErrorDelta("upstream_truncated", "the upstream ended in the middle of its answer"),
    ),
    "[DONE] without a finish (quirk C9)": ([chunk({"content": "a"}), DONE], STOP),
    "a finish without [DONE]": ([chunk({"content": "a"}), chunk(finish="stop")], STOP),
    "a finish with content (quirk C11)": (
        [chunk({"content": "a"}, finish="length")],
        FinishDelta(FinishReason.LENGTH),
    ),
    "tool_calls": ([chunk(finish="tool_calls"), DONE], FinishDelta(FinishReason.TOOL_CALLS)),
    "function_call": ([chunk(finish="function_call"), DONE], FinishDelta(FinishReason.TOOL_CALLS)),
    "content_filter": ([chunk(finish="content_filter")], FinishDelta(FinishReason.CONTENT_FILTER)),
    "another case": ([chunk(finish="SAFETY")], FinishDelta(FinishReason.CONTENT_FILTER)),
    "an unknown word (quirk C10)": ([chunk(finish="other")], STOP),
    "a failure": (
        [chunk(finish="insufficient_system_resource")],
        ErrorDelta(
            "server_is_overloaded",
            "the upstream stopped with the finish reason 'insufficient_system_resource'",
        ),
    ),
    "no JSON": (
        [Frame(None, "<html>")],
        ErrorDelta("upstream_invalid", "the upstream sent a frame that is not a JSON object: <html>"),
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_stream(name: str) -> None:
    chunks, end = ENDS[name]
    assert of(read(*chunks), FinishDelta, ErrorDelta)[0] == end


def test_an_unknown_finish_reason_is_reported() -> None:
    assert of(read(chunk(finish="other")), DiagnosticDelta) == [
        DiagnosticDelta(
            "unknown_finish", "the finish reason 'other' is unknown; it was read as a normal stop"
        )
    ]


def test_a_second_finish_reason_does_not_end_the_response_twice() -> None:
    response = answer(
        chunk({"content": "a"}, finish="stop"), chunk(finish="length"), chunk(finish="stop"), DONE
    )
    assert (response["status"], response["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )


ERRORS: dict[str, tuple[Any, str, str]] = {
    "an object": ({"error": {"message": "no", "code": "rate_limit_exceeded"}}, "rate_limit_exceeded", "no"),
    "a text": ({"error": "no"}, "server_error", "no"),
    "an Anthropic one": (
        {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
        "server_is_overloaded",
        "no",
    ),
    "a flat one": ({"message": "no", "code": 401}, "authentication_error", "no"),
    "vLLM's": ({"object": "error", "message": "no", "code": 404}, "model_not_found", "no"),
    "a detail": ({"detail": "no"}, "server_error", "no"),
    "MiniMax's": ({"base_resp": {"status_code": 1008, "status_msg": "no"}}, "insufficient_quota", "no"),
    "in the choice": (
        {"choices": [{"error": {"code": 502, "message": "no"}, "finish_reason": "error"}]},
        "server_error",
        "no",
    ),
    "Groq's": ({"choices": [], "x_groq": {"error": "no"}}, "server_error", "no"),
    "next to choices": (
        {"choices": [], "error": {"code": 429, "message": "no"}},
        "rate_limit_exceeded",
        "no",
    ),
    "by the name of the event": (
        Frame("error", '{"reason": "no"}'),
        "server_error",
        "the upstream reported an error without a message",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_in_the_stream(name: str) -> None:
    error, code, message = ERRORS[name]
    deltas = read(chunk({"content": "a"}), error)
    assert deltas[0] == TextDelta("a")
    found = of(deltas, ErrorDelta)[0]
    assert (found.code, found.message) == (code, message)


def test_content_and_usage_next_to_an_error_are_kept() -> None:
    failing = chunk({"content": "b"}, usage={"prompt_tokens": 3}, error={"message": "no"})
    response = answer(chunk({"content": "a"}), failing)
    assert response["status"] == "failed"
    assert response["output"][0]["content"][0]["text"] == "ab"
    assert response["output"][0]["status"] == "incomplete"
    assert response["usage"]["input_tokens"] == 3


def test_an_error_after_length_is_a_failure() -> None:
    assert answer(chunk({"content": "a"}, finish="length"), {"error": {"code": 502, "message": "no"}})[
        "error"
    ] == {"code": "server_error", "message": "no"}


@pytest.mark.parametrize(
    "harmless",
    [
        {"error": None},
        {"error": {}},
        {"error": {"code": "", "message": ""}},
        {"base_resp": {"status_code": 0}},
    ],
)
def test_an_empty_error_object_is_not_an_error(harmless: dict[str, Any]) -> None:
    assert of(read(harmless, DONE), ErrorDelta) == []


# Text


def test_roles_and_empty_content_give_no_deltas() -> None:
    opening = [chunk({"role": "assistant", "content": ""}), chunk({"role": "", "content": None}), {"id": ""}]
    assert read(*opening, chunk({"role": "assistant", "content": "a"}), chunk(finish="stop")) == [
        TextDelta("a"),
        STOP,
    ]


def test_a_refusal_is_not_text() -> None:
    response = answer(chunk({"refusal": "I "}), chunk({"refusal": "won't."}), chunk(finish="stop"))
    assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "I won't."}]
    assert of(read(chunk({"refusal": "no"})), RefusalDelta) == [RefusalDelta("no")]


def test_only_the_first_choice_is_read() -> None:
    both = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "a"}}]}
    deltas = read(both, {"choices": [{"delta": {"content": "b"}}]}, DONE)
    assert of(deltas, TextDelta) == [TextDelta("a"), TextDelta("b")]
    assert [each.code for each in of(deltas, DiagnosticDelta)] == ["choice_left_out"]


def test_a_message_next_to_the_delta_is_ignored() -> None:
    one = {"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]}
    two = {"choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    assert of(read(one, two), TextDelta) == [TextDelta("a"), TextDelta("b")]


COMPLETE_MESSAGE = {
    "content": "hello",
    "reasoning_content": "hm",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
    ],
}


def test_a_message_without_any_delta_is_read() -> None:
    last = {"choices": [{"index": 0, "message": COMPLETE_MESSAGE, "finish_reason": "tool_calls"}]}
    deltas = read(chunk({"role": "assistant"}), last, DONE)
    assert [type(each) for each in deltas] == [
        ReasoningDelta,
        TextDelta,
        ToolCallDelta,
        ToolCallDelta,
        FinishDelta,
    ]
    assert of(read(chunk({"content": "hello"}), last), TextDelta, ToolCallDelta) == [TextDelta("hello")]


def test_messages_that_grow_are_read_once() -> None:
    growing = [{"choices": [{"message": {"content": text}}]} for text in ("a", "ab", "abc")]
    assert read(*growing, DONE) == [TextDelta("abc"), STOP]


def test_plain_text_of_a_choice_is_read_if_there_is_no_delta() -> None:
    assert read(
        {"choices": [{"text": "a"}]}, {"choices": [{"text": "b", "delta": {"content": "b"}}]}, DONE
    ) == [
        TextDelta("a"),
        TextDelta("b"),
        STOP,
    ]


def test_content_may_be_a_list() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}, {"text": 1}]}
    parts = [
        thinking,
        {"type": "thinking", "thinking": "so"},
        {"type": "text", "text": "a"},
        {"type": "reference"},
    ]
    deltas = read(chunk({"content": parts}, finish="stop"))
    assert deltas[:3] == [ReasoningDelta("hm"), ReasoningDelta("so"), TextDelta("a")]
    assert deltas[3].code == "content_left_out"  # type: ignore[union-attr]


def test_logprobs_have_every_field() -> None:
    entry = {
        "token": "a",
        "logprob": -0.5,
        "bytes": None,
        "top_logprobs": [{"token": "b", "logprob": -1, "bytes": [98]}],
    }
    early = {"choices": [{"delta": {"content": ""}, "logprobs": {"content": [{"token": "z"}]}}]}
    deltas = read(
        early, {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [entry], "refusal": None}}]}
    )
    assert of(deltas, TextDelta)[0].logprobs == [
        {"token": "z", "logprob": 0.0, "bytes": [], "top_logprobs": []},
        {
            "token": "a",
            "logprob": -0.5,
            "bytes": [],
            "top_logprobs": [{"token": "b", "logprob": -1.0, "bytes": [98]}],
        },
    ]


def test_logprobs_of_reasoning_are_not_added_to_the_text() -> None:
    logprobs = {"content": [{"token": "hm"}]}
    deltas = read(
        {"choices": [{"delta": {"reasoning": "hm"}, "logprobs": logprobs}]}, chunk({"content": "a"})
    )
    assert of(deltas, TextDelta) == [TextDelta("a")]


def test_id_model_and_tier_are_reported_when_they_are_known() -> None:
    deltas = read(
        {"id": "", "model": ""},
        {"id": "x", "model": "m1"},
        {"id": "y", "model": "m1", "service_tier": "flex"},
        DONE,
    )
    assert of(deltas, UpstreamInfo) == [UpstreamInfo("x", "m1"), UpstreamInfo("x", "m1", "flex")]


@pytest.mark.parametrize("field", ["audio", "copilot_annotations"])
def test_a_field_without_an_equivalent_is_reported(field: str) -> None:
    assert of(read(chunk({field: {"a": 1}})), DiagnosticDelta)[0].code == "field_left_out"


# Calls

CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "in pieces": (
        [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"x"'}},
            {"index": 0, "function": {"arguments": ":1}"}},
        ],
        [("f", '{"x":1}')],
    ),
    "without index (quirk C15)": (
        [
            {"id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "function": {"name": "g", "arguments": "{}"}},
        ],
        [("f", "{}"), ("g", "{}")],
    ),
    "from index 1 (quirk C16)": (
        [{"index": 1, "id": "a", "function": {"name": "f", "arguments": "{}"}}],
        [("f", "{}")],
    ),
    "empty and null later (quirk C17)": (
        [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": None}},
            {"index": 0, "id": "", "function": {"name": "", "arguments": "{}"}},
            {"index": 0, "id": None, "function": {"name": None, "arguments": ""}},
        ],
        [("f", "{}")],
    ),
    "an object for arguments": (
        [{"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}],
        [("f", '{"x":1}')],
    ),
    "no arguments (quirk C21)": ([{"index": 0, "id": "a", "function": {"name": "f"}}], [("f", "{}")]),
    "one id twice (quirk C19)": (
        [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
            {"index": 1, "id": "a", "function": {"name": "g", "arguments": "{}"}},
        ],
        [("f", "{}"), ("g", "{}")],
    ),
    "wrong types": ([{"index": 1.5, "id": 7, "function": {"name": "f", "arguments": "{}"}}], [("f", "{}")]),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("together", [True, False])
def test_calls_are_read_in_every_shape(name: str, together: bool) -> None:
    entries, expected = CALLS[name]
    chunks = [calls(*entries)] if together else [calls(entry) for entry in entries]
    response = answer(*chunks, chunk(finish="tool_calls"))
    assert [(item["name"], item["arguments"]) for item in response["output"]] == expected
    assert len({item["call_id"] for item in response["output"]}) == len(expected)


def test_the_legacy_function_call() -> None:
    response = answer(
        chunk({"content": None, "function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"x":'}}),
        chunk({"function_call": {"arguments": "1}"}}),
        chunk(finish="function_call"),
    )
    (call,) = response["output"]
    assert (call["name"], call["arguments"], response["status"]) == ("f", '{"x":1}', "completed")
    assert call["call_id"]


def test_a_custom_tool_call_is_raw_text() -> None:
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "p", "input": "*** Begin"}}
    assert of(read(calls(custom)), ToolCallDelta) == [
        ToolCallDelta(key=0, id="a", name="p", type="custom", arguments="*** Begin")
    ]
    more = {"index": 0, "custom": {"input": " Patch"}}
    assert of(read(calls(more)), ToolCallDelta) == [ToolCallDelta(key=0, type="custom", arguments=" Patch")]


def test_text_and_calls_in_one_chunk_are_both_read() -> None:
    response = answer(
        chunk(
            {"content": "hi", "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]},
            finish="stop",
        )
    )
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]
    assert response["status"] == "completed"


# Answers that are not streamed


def test_a_body_is_read_like_its_stream() -> None:
    body = {
        "id": "x",
        "model": "m1",
        "choices": [{"index": 0, "message": COMPLETE_MESSAGE, "finish_reason": "tool_calls"}],
    }
    deltas = DIALECT.read_body(
        plan(), json.dumps(body | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()
    )
    assert deltas == [
        UpstreamInfo("x", "m1"),
        UsageDelta(3, 2),
        ReasoningDelta("hm"),
        TextDelta("hello"),
        ToolCallDelta(key=0, id="c1", name="f", arguments='{"a":1}', whole=True),
        ToolCallDelta(key=1, id="c2", name="g", arguments="", whole=True),
        FinishDelta(FinishReason.TOOL_CALLS),
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "upstream_empty"),
        (b"\xff", "upstream_invalid"),
        (b"[]", "upstream_invalid"),
        (b'{"error": {"message": "no", "code": 429}}', "rate_limit_exceeded"),
        (b"{}", "upstream_truncated"),
    ],
)
def test_a_body_that_is_not_an_answer_is_an_error(body: bytes, code: str) -> None:
    assert of(DIALECT.read_body(plan(), body), ErrorDelta)[0].code == code


def test_failures_are_classified() -> None:
    assert DIALECT.classify(429, {"retry-after": "2"}, b"{}").retry_after == 2.0
    assert DIALECT.name == "chat"


# Any input

TEXTS = st.sampled_from(
    ["a", "<think>", "</think>", "`", "\n", "<tool_call>", '{"name":"f"}', "</tool_call>", ""]
)
FUNCTION = objects(
    {"name": st.sampled_from(["f", "g", ""]), "arguments": st.sampled_from(["{", "}", "", "{}"])}
)
CALL = objects(
    {
        "index": st.integers(0, 2),
        "id": st.sampled_from(["a", "b", ""]),
        "function": FUNCTION,
        "type": TEXTS,
        "extra_content": st.just({"google": {"thought_signature": "s"}}),
    }
)
DETAIL = objects(
    {
        "type": TEXTS,
        "text": TEXTS,
        "summary": TEXTS,
        "signature": TEXTS,
        "data": TEXTS,
        "index": st.integers(0, 1),
    }
)
PART = objects({"type": st.sampled_from(["text", "thinking", "x"]), "text": TEXTS, "thinking": TEXTS})
TOOL = objects(
    {
        "index": st.integers(0, 1),
        "type": st.sampled_from(["search", "python", "x"]),
        "arguments": TEXTS,
        "output": TEXTS,
    }
)
DELTA = objects(
    {
        "content": TEXTS | st.lists(PART, max_size=2),
        "refusal": TEXTS,
        "reasoning": TEXTS,
        "reasoning_content": TEXTS,
        "reasoning_details": st.lists(DETAIL, max_size=2),
        "cot_summary": TEXTS,
        "cot_id": TEXTS,
        "tool_calls": st.lists(CALL, max_size=2),
        "function_call": FUNCTION,
        "annotations": st.lists(
            objects({"type": TEXTS, "url": TEXTS, "start_index": st.integers(-1, 9)}), max_size=2
        ),
        "executed_tools": st.lists(TOOL, max_size=2),
        "images": st.lists(objects({"image_url": objects({"url": TEXTS})}), max_size=1),
    }
)
CHOICE = objects(
    {
        "index": st.integers(0, 1),
        "delta": DELTA,
        "message": DELTA,
        "text": TEXTS,
        "logprobs": objects({"content": st.lists(DETAIL, max_size=1)}),
        "finish_reason": st.none() | st.sampled_from(["stop", "length", "error", "odd"]),
    }
)
CHUNK = objects(
    {
        "id": TEXTS,
        "model": TEXTS,
        "choices": st.lists(CHOICE, max_size=2),
        "usage": objects({"prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9)}),
        "citations": st.lists(TEXTS, max_size=2),
    }
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists((CHUNK | json_values).map(as_frame) | st.just(DONE), max_size=6), st.booleans(), st.booleans()
)
def test_any_frames_end_in_a_lawful_stream(frames: list[Frame], think_tags: bool, tool_markup: bool) -> None:
    translate(DIALECT, plan(think_tags=think_tags, tool_markup=tool_markup), frames)


@settings(max_examples=examples(100), deadline=None)
@given(json_values | CHUNK)
def test_any_body_is_read(body: Any) -> None:
    assert of(DIALECT.read_body(plan(), json.dumps(body).encode()), FinishDelta, ErrorDelta)
