"""Reading Chat Completions, as every vendor speaks it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.chat import DIALECT
from penstock.dialects.envelope import unseal
from penstock.protocol.content import UrlCitation
from penstock.sse import Frame
from penstock.stream.deltas import (
    AnnotationDelta,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
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
from tests.dialects.chat_streams import DONE, STOP, answer, calls, chunk, of, payloads, plan, read
from tests.dialects.recording_checks import assert_agrees
from tests.dialects.recordings import files, needs_recordings, translate
from tests.effort import examples

FOLDER = "chat-completions"
FILES = files(FOLDER)
GARBLED = [file for file in FILES if "bing-search-skill" in file]
"""With frames that are no JSON."""
# The recordings


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
def test_every_exception_is_a_recording() -> None:
    assert set(EXCEPTIONS) <= set(FILES)


@needs_recordings
@pytest.mark.parametrize("file", [file for file in FILES if file.endswith(".sse")])
def test_however_the_bytes_come_the_frames_are_the_same(file: str) -> None:
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
@pytest.mark.parametrize("file", [file for file in FILES if file not in GARBLED])
def test_noise_changes_nothing(file: str) -> None:
    check_noise(DIALECT, file, NOISE)


def said(given: dict[str, Any]) -> tuple[str, str]:
    """The text and the reasoning in one chunk, read as simply as can be."""
    text = reasoning = ""
    for choice in given.get("choices") or []:
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
@pytest.mark.parametrize("file", smallest(FOLDER, 60))
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    check_cuts(DIALECT, file, chunk_borders(file), said)
    check_cuts(DIALECT, file, byte_cuts(file), said)


# How it ends


ENDS: dict[str, tuple[list[Any], Delta]] = {
    "nothing at all": ([], ErrorDelta("upstream_empty", "the upstream ended without sending anything")),
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
def test_how_it_ends(name: str) -> None:
    chunks, end = ENDS[name]
    assert of(read(*chunks), FinishDelta, ErrorDelta)[0] == end


def test_an_unknown_finish_is_told() -> None:
    assert of(read(chunk(finish="other")), DiagnosticDelta) == [
        DiagnosticDelta(
            "unknown_finish", "the finish reason 'other' is unknown; it was read as a normal stop"
        )
    ]


def test_a_second_finish_ends_nothing_twice() -> None:
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
    "beside choices": ({"choices": [], "error": {"code": 429, "message": "no"}}, "rate_limit_exceeded", "no"),
    "by the event's name": (
        Frame("error", '{"reason": "no"}'),
        "server_error",
        "the upstream reported an error without a message",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_in_the_stream(name: str) -> None:
    error, code, message = ERRORS[name]
    told = read(chunk({"content": "a"}), error)
    assert told[0] == TextDelta("a")
    found = of(told, ErrorDelta)[0]
    assert (found.code, found.message) == (code, message)


def test_an_error_keeps_what_came_with_it() -> None:
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
def test_no_error_is_none(harmless: dict[str, Any]) -> None:
    assert of(read(harmless, DONE), ErrorDelta) == []


# Text


def test_roles_and_empty_content_say_nothing() -> None:
    opening = [chunk({"role": "assistant", "content": ""}), chunk({"role": "", "content": None}), {"id": ""}]
    assert read(*opening, chunk({"role": "assistant", "content": "a"}), chunk(finish="stop")) == [
        TextDelta("a"),
        STOP,
    ]


def test_a_refusal_is_no_text() -> None:
    response = answer(chunk({"refusal": "I "}), chunk({"refusal": "won't."}), chunk(finish="stop"))
    assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "I won't."}]
    assert of(read(chunk({"refusal": "no"})), RefusalDelta) == [RefusalDelta("no")]


def test_only_the_first_choice_is_read() -> None:
    both = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "a"}}]}
    told = read(both, {"choices": [{"delta": {"content": "b"}}]}, DONE)
    assert of(told, TextDelta) == [TextDelta("a"), TextDelta("b")]
    assert [each.code for each in of(told, DiagnosticDelta)] == ["choice_left_out"]


def test_a_message_beside_the_delta_is_ignored() -> None:
    one = {"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]}
    two = {"choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    assert of(read(one, two), TextDelta) == [TextDelta("a"), TextDelta("b")]


WHOLE = {
    "content": "hello",
    "reasoning_content": "hm",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
    ],
}


def test_a_message_without_any_delta_is_read() -> None:
    last = {"choices": [{"index": 0, "message": WHOLE, "finish_reason": "tool_calls"}]}
    told = read(chunk({"role": "assistant"}), last, DONE)
    assert [type(each) for each in told] == [
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


def test_bare_text_of_a_choice_is_read_where_there_is_no_delta() -> None:
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
    told = read(chunk({"content": parts}, finish="stop"))
    assert told[:3] == [ReasoningDelta("hm"), ReasoningDelta("so"), TextDelta("a")]
    assert told[3].code == "content_left_out"  # type: ignore[union-attr]


def test_logprobs_have_every_field() -> None:
    entry = {
        "token": "a",
        "logprob": -0.5,
        "bytes": None,
        "top_logprobs": [{"token": "b", "logprob": -1, "bytes": [98]}],
    }
    early = {"choices": [{"delta": {"content": ""}, "logprobs": {"content": [{"token": "z"}]}}]}
    told = read(
        early, {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [entry], "refusal": None}}]}
    )
    assert of(told, TextDelta)[0].logprobs == [
        {"token": "z", "logprob": 0.0, "bytes": [], "top_logprobs": []},
        {
            "token": "a",
            "logprob": -0.5,
            "bytes": [],
            "top_logprobs": [{"token": "b", "logprob": -1.0, "bytes": [98]}],
        },
    ]


def test_logprobs_of_reasoning_are_not_the_texts() -> None:
    logprobs = {"content": [{"token": "hm"}]}
    told = read({"choices": [{"delta": {"reasoning": "hm"}, "logprobs": logprobs}]}, chunk({"content": "a"}))
    assert of(told, TextDelta) == [TextDelta("a")]


def test_who_answers_is_told_when_it_is_known() -> None:
    told = read(
        {"id": "", "model": ""},
        {"id": "x", "model": "m1"},
        {"id": "y", "model": "m1", "service_tier": "flex"},
        DONE,
    )
    assert of(told, UpstreamInfo) == [UpstreamInfo("x", "m1"), UpstreamInfo("x", "m1", "flex")]


@pytest.mark.parametrize("field", ["audio", "copilot_annotations"])
def test_what_has_no_place_is_told(field: str) -> None:
    assert of(read(chunk({field: {"a": 1}})), DiagnosticDelta)[0].code == "field_left_out"


# Reasoning


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"reasoning_details": [{"type": f"reasoning.{kind}", "index": 0, **fields}]}


REASONING: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    # deltas, reasoning text, summary
    "reasoning_content": ([{"reasoning_content": "a"}, {"reasoning_content": "b"}], "ab", ""),
    "reasoning": ([{"reasoning": "a"}, {"reasoning": "b"}], "ab", ""),
    "both": ([{"reasoning": "a", "reasoning_content": "a"}], "a", ""),
    "details alone": ([detail("text", text="a"), detail("text", text="b")], "ab", ""),
    "details beside": ([{"reasoning": "a", **detail("text", text="a")}], "a", ""),
    "a summary in details": ([{"reasoning": "a", **detail("summary", summary="a")}], "", "a"),
    "encrypted beside": ([{"reasoning": "a", **detail("encrypted", data="x")}], "a", ""),
    "details once more at the end": (
        [{"reasoning": "a"}, {"reasoning": "b"}, detail("text", text="ab")],
        "ab",
        "",
    ),
    "LiteLLM": (
        [{"reasoning_content": "a", "thinking_blocks": [{"type": "thinking", "thinking": "a"}]}],
        "a",
        "",
    ),
    "two lists": ([{**detail("text", text="a"), "thinking_blocks": [{"thinking": "a"}]}], "a", ""),
    "a content list": (
        [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}],
        "a",
        "",
    ),
    "Google's mark": ([{"content": "a", "extra_content": {"google": {"thought": True}}}], "a", ""),
    "cot_summary": ([{"cot_summary": "a"}, {"cot_summary": "b"}], "", "ab"),
    "wrong types": ([{"reasoning": {"a": 1}, "reasoning_details": "x"}], "", ""),
}


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_is_read_once_in_every_shape(name: str) -> None:
    deltas, text, summary = REASONING[name]
    told = read(*map(chunk, deltas), DONE)
    assert "".join(each.text for each in of(told, ReasoningDelta)) == text
    assert "".join(each.text for each in of(told, SummaryDelta)) == summary


def test_a_signature_is_sealed_with_its_text_before_what_follows() -> None:
    told = read(
        chunk({"reasoning": "a", **detail("text", text="a", format="f")}),
        chunk({"reasoning": "b", **detail("text", text="b", format="f")}),
        chunk(detail("text", signature="s+/=", format=None)),
        chunk({"content": "hi"}),
    )
    sealed = {"type": "reasoning.text", "index": 0, "text": "ab", "format": "f", "signature": "s+/="}
    assert payloads(told) == [{"reasoning_details": [sealed]}]
    assert [type(each) for each in told[:4]] == [ReasoningDelta, ReasoningDelta, OpaqueReasoning, TextDelta]


def test_details_stay_apart_by_type_index_id_and_signature() -> None:
    told = read(
        chunk(detail("summary", summary="a", id="r1")),
        chunk(detail("encrypted", data="x", id="r1")),
        chunk(detail("encrypted", data="y")),
        chunk(calls({"index": 0, "id": "c", "function": {"name": "f"}})["choices"][0]["delta"]),
    )
    (payload,) = payloads(told)
    assert [each.get("data") for each in payload["reasoning_details"]] == [None, "x", "y"]
    reasoning, call = answer(
        chunk({"reasoning": "a", **detail("summary", summary="a")}),
        chunk(detail("encrypted", data="x")),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}, finish="tool_calls"),
    )["output"]
    assert reasoning["encrypted_content"].startswith("pk1.")
    assert call["call_id"] == "c"


def test_details_without_a_secret_are_not_sealed() -> None:
    assert payloads(read(chunk(detail("text", text="a")), chunk({"content": "hi"}), DONE)) == []


def test_opaque_fields_are_given_back_under_their_names() -> None:
    assert payloads(read(chunk({"content": "a"}), chunk({"cot_id": "cot_1"}), DONE)) == [{"cot_id": "cot_1"}]
    extra = {"google": {"thought_signature": "sig"}}
    assert payloads(read(chunk({"content": "", "extra_content": extra}), DONE)) == [{"extra_content": extra}]
    assert payloads(read(chunk({"reasoning_opaque": "x", "extra_content": {"google": {}}}), DONE)) == [
        {"reasoning_opaque": "x"}
    ]


def test_a_signature_on_a_call_stands_directly_before_it() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    second = {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}
    told = read(calls(first, second), chunk(finish="tool_calls"))
    assert [type(each) for each in told[:3]] == [OpaqueReasoning, ToolCallDelta, ToolCallDelta]
    assert told[0].call == 0  # type: ignore[union-attr]
    assert payloads(told) == [{"extra_content": extra}]
    sealed = unseal(told[0].data)  # type: ignore[union-attr]
    assert sealed is not None
    assert sealed.attached == "call"


def test_a_signature_behind_its_call_is_told() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    late = {"index": 0, "function": {"arguments": "{}"}, "extra_content": extra}
    told = read(calls({"index": 0, "id": "a", "function": {"name": "f"}}), calls(late))
    assert [each.code for each in of(told, DiagnosticDelta)] == ["late_signature"]
    assert of(told, OpaqueReasoning) == []


def test_a_signature_that_is_repeated_goes_out_once() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    call = {"index": 0, "id": "a", "function": {"name": "f"}, "extra_content": extra}
    told = read(calls(call), calls(call), calls({**call, "id": "b"}))
    assert len(of(told, OpaqueReasoning)) == 2
    assert of(told, DiagnosticDelta) == []


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
def test_calls_come_in_every_shape(name: str, together: bool) -> None:
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


# Usage

USAGE: dict[str, tuple[list[dict[str, Any]], tuple[int, int, int, int]]] = {
    # chunks, (input, output, cached, reasoning)
    "in a chunk of its own": (
        [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}],
        (3, 2, 0, 0),
    ),
    "with the finish": (
        [chunk(finish="stop", usage={"prompt_tokens": 3, "completion_tokens": 2})],
        (3, 2, 0, 0),
    ),
    "cumulative": (
        [chunk(usage={"prompt_tokens": 3, "completion_tokens": each}) for each in (1, 2, 3)],
        (3, 3, 0, 0),
    ),
    "Groq": ([chunk(x_groq={"usage": {"prompt_tokens": 3, "completion_tokens": 2}})], (3, 2, 0, 0)),
    "zeros after the real one (quirk C6)": (
        [
            chunk(usage={"prompt_tokens": 3, "completion_tokens": 2}),
            chunk(usage={"prompt_tokens": 0, "completion_tokens": 0}),
        ],
        (3, 2, 0, 0),
    ),
    "OpenAI's details": (
        [
            chunk(
                usage={
                    "prompt_tokens": 9,
                    "completion_tokens": 8,
                    "total_tokens": 17,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 5},
                }
            )
        ],
        (9, 8, 4, 5),
    ),
    "DeepSeek": (
        [chunk(usage={"prompt_tokens": 9, "completion_tokens": 8, "prompt_cache_hit_tokens": 4})],
        (9, 8, 4, 0),
    ),
    "Moonshot": (
        [chunk(usage={"prompt_tokens": 9, "completion_tokens": 8, "cached_tokens": 4})],
        (9, 8, 4, 0),
    ),
    "xAI (quirk C7)": (
        [
            chunk(
                usage={
                    "prompt_tokens": 12,
                    "completion_tokens": 1,
                    "total_tokens": 303,
                    "completion_tokens_details": {"reasoning_tokens": 290},
                }
            )
        ],
        (12, 291, 0, 290),
    ),
    "reasoning beyond the output": (
        [
            chunk(
                usage={
                    "prompt_tokens": 57,
                    "completion_tokens": 10,
                    "total_tokens": 67,
                    "completion_tokens_details": {"reasoning_tokens": 37},
                }
            )
        ],
        (57, 47, 0, 37),
    ),
    "other names": (
        [
            chunk(
                usage={
                    "input_tokens": 3,
                    "output_tokens": 2,
                    "output_tokens_details": {"reasoning_tokens": 1},
                }
            )
        ],
        (3, 2, 0, 1),
    ),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage_is_read_wherever_it_is(name: str) -> None:
    chunks, expected = USAGE[name]
    usage = answer(chunk({"content": "a"}), *chunks, DONE)["usage"]
    details = (
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    )
    assert (usage["input_tokens"], usage["output_tokens"], *details) == expected
    assert usage["total_tokens"] == expected[0] + expected[1]


@pytest.mark.parametrize("usage", [None, {}, [], {"cost": 1}, {"prompt_tokens": "3"}, {"prompt_tokens": -1}])
def test_no_usage_says_nothing(usage: Any) -> None:
    assert of(read(chunk({"content": "a"}, usage=usage)), UsageDelta) == []


def test_cache_writes_are_counted() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cache_write_tokens": 5}}
    assert of(read(chunk(usage=usage)), UsageDelta)[0].cache_write_tokens == 5


# Citations and hosted tools


def test_a_citation_goes_out_once() -> None:
    nested = {
        "type": "url_citation",
        "url_citation": {"url": "http://a", "title": "A", "start_index": 0, "end_index": 0},
    }
    told = read(
        chunk({"content": "", "annotations": [nested]}), chunk({"content": "x", "annotations": [nested]})
    )
    assert of(told, AnnotationDelta) == [AnnotationDelta(UrlCitation(url="http://a", title="A"))]


def test_places_tell_citations_apart() -> None:
    flat = [
        {"type": "url_citation", "url": "http://a", "start_index": 3, "end_index": end} for end in (5, 9, 1)
    ]
    told = read(chunk({"content": "x", "annotations": flat}))
    assert [
        (each.annotation.start_index, each.annotation.end_index) for each in of(told, AnnotationDelta)
    ] == [
        (3, 5),
        (3, 9),
        (3, 3),
    ]


def test_sources_beside_the_text_are_citations() -> None:
    sources = {
        "citations": ["http://a", {"url": "http://b"}, 7],
        "search_results": [{"url": "http://a", "title": "A"}],
    }
    response = answer(
        chunk({}, **sources), chunk({"content": "x"}, **sources), chunk(finish="stop", **sources)
    )
    annotations = response["output"][0]["content"][0]["annotations"]
    assert [(each["url"], each["title"]) for each in annotations] == [("http://a", "A"), ("http://b", "")]


def test_an_annotation_without_a_url_is_told() -> None:
    told = read(chunk({"annotations": [{"type": "file", "file": {"name": "a.pdf"}}]}))
    assert [each.code for each in of(told, DiagnosticDelta)] == ["annotation_left_out"]


SEARCH = {"index": 0, "type": "search", "arguments": '{"query": "q"}'}
RESULTS = {"results": [{"url": "http://a", "title": "A"}]}


def test_a_search_of_the_vendors_is_an_item_and_no_call() -> None:
    found = {**SEARCH, "output": "Title: …", "search_results": RESULTS}
    told = read(
        chunk({"executed_tools": [SEARCH]}),
        chunk({"executed_tools": [found]}),
        chunk({"executed_tools": [found]}),
    )
    items = of(told, ItemDelta)
    assert [(each.item.type, each.done) for each in items] == [
        ("web_search_call", False),
        ("web_search_call", True),
    ]
    assert items[1].item.action == {
        "type": "search",
        "query": "q",
        "sources": [{"type": "url", "url": "http://a"}],
    }
    assert of(told, AnnotationDelta) == [AnnotationDelta(UrlCitation(url="http://a", title="A"))]
    assert of(told, ToolCallDelta) == []
    response = answer(
        chunk({"executed_tools": [SEARCH]}), chunk({"executed_tools": [found], "content": "x"}), DONE
    )
    assert [item["type"] for item in response["output"]] == ["web_search_call", "message"]


EXECUTED: list[tuple[dict[str, Any], Any]] = [
    (
        {"type": "visit", "arguments": '{"url": "http://a"}', "output": ""},
        ("action", {"type": "open_page", "url": "http://a"}),
    ),
    ({"type": "search", "arguments": "{", "output": ""}, ("action", {"type": "search", "query": ""})),
]


@pytest.mark.parametrize(("tool", "expected"), EXECUTED)
def test_other_tools_of_the_vendors(tool: dict[str, Any], expected: tuple[str, Any]) -> None:
    (item,) = of(read(chunk({"executed_tools": [tool]})), ItemDelta)
    assert getattr(item.item, expected[0]) == expected[1]


def test_code_that_the_vendor_ran() -> None:
    tool = {"type": "python", "arguments": '{"code": "1+1"}', "output": "2"}
    (item,) = of(read(chunk({"executed_tools": [tool]})), ItemDelta)
    assert item.item.type == "code_interpreter_call"
    assert item.item.extra["outputs"] == [{"type": "logs", "logs": "2"}]


def test_a_tool_of_the_vendors_that_nobody_knows_is_told_once() -> None:
    told = read(*[chunk({"executed_tools": [{"type": "oracle"}]})] * 2)
    assert [each.code for each in of(told, DiagnosticDelta)] == ["executed_tool_left_out"]


def test_images_are_items() -> None:
    images = [
        {"type": "image_url", "image_url": {"url": url}} for url in ("data:image/png;base64,AAAA", "http://a")
    ]
    told = read(*[chunk({"images": images})] * 2)
    (item,) = of(told, ItemDelta)
    assert (item.item.type, item.item.extra) == ("image_generation_call", {"result": "AAAA"})
    assert [each.code for each in of(told, DiagnosticDelta)] == ["image_left_out"]


# Answers that are not streamed


def test_a_whole_answer_is_read_as_a_streamed_one() -> None:
    body = {
        "id": "x",
        "model": "m1",
        "choices": [{"index": 0, "message": WHOLE, "finish_reason": "tool_calls"}],
    }
    told = DIALECT.read_body(
        plan(), json.dumps(body | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()
    )
    assert told == [
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
def test_a_whole_answer_that_is_none(body: bytes, code: str) -> None:
    assert of(DIALECT.read_body(plan(), body), ErrorDelta)[0].code == code


def test_failures_are_classified() -> None:
    assert DIALECT.classify(429, {"retry-after": "2"}, b"{}").retry_after == 2.0
    assert DIALECT.name == "chat"


# Anything at all

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
def test_anything_ends_lawfully(frames: list[Frame], think_tags: bool, tool_markup: bool) -> None:
    translate(DIALECT, plan(think_tags=think_tags, tool_markup=tool_markup), frames)


@settings(max_examples=examples(100), deadline=None)
@given(json_values | CHUNK)
def test_any_body_is_read(body: Any) -> None:
    assert of(DIALECT.read_body(plan(), json.dumps(body).encode()), FinishDelta, ErrorDelta)
