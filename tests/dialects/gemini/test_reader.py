"""Reading Gemini's streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.envelope import unseal
from penstock.dialects.gemini import DIALECT
from penstock.stream.deltas import (
    ErrorDelta,
    FinishDelta,
    FinishReason,
)
from tests.dialects.block_stream_checks import smallest
from tests.dialects.gemini.recording_exceptions import EXCEPTIONS
from tests.dialects.gemini.streams import END, NAME, call, calls_of, chunk, piece
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

FILES = files("gemini")


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_noise_changes_nothing(file: str) -> None:
    assert_same_after_noise(DIALECT, file)


@needs_recordings
@pytest.mark.parametrize("file", smallest("gemini", 30))
def test_output_before_a_cut_is_not_lost(file: str) -> None:
    assert_survives_cuts(DIALECT, file)


def envelopes(snapshot: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return every item with its sealed payload."""
    found = []
    for item in snapshot["output"]:
        sealed = unseal(item.get("encrypted_content", ""))
        found.append((item["type"], sealed.attached if sealed else "", sealed.payload if sealed else None))
    return found


def test_equal_calls_without_ids_are_separate_calls() -> None:  # quirk G1, quirk G3
    chunks = [chunk(call("f", {"a": 1}), call("f", {"a": 1})), chunk(call("f", {"a": 1}), finish="STOP")]
    snapshot = response(DIALECT, chunks)
    assert calls_of(snapshot) == [("f", '{"a":1}')] * 3
    assert len({item["call_id"] for item in snapshot["output"]}) == 3
    assert snapshot["status"] == "completed"


def test_an_id_is_kept() -> None:
    sent = chunk({"functionCall": {"name": "f", "id": "9d532gc9", "args": {}}}, finish="STOP")
    assert response(DIALECT, [sent])["output"][0]["call_id"] == "9d532gc9"


@pytest.mark.parametrize("args", [None, {}, "{}"])
def test_no_arguments_are_an_empty_object(args: Any) -> None:  # quirk G4
    assert calls_of(response(DIALECT, [chunk(call("f", args), finish="STOP")])) == [("f", "{}")]


def test_arguments_that_are_not_an_object_are_passed_on_unchanged() -> None:
    assert calls_of(response(DIALECT, [chunk(call("f", [1]), finish="STOP")])) == [("f", "[1]")]


def test_the_next_name_ends_a_streamed_call() -> None:  # quirk G5: the end can be missing
    parts: list[dict[str, Any]] = [
        NAME,
        piece("$.a", stringValue="x"),
        NAME,
        piece("$.a", stringValue="y", more=False),
        call("g"),
    ]
    snapshot = response(DIALECT, [chunk(part) for part in parts] + [chunk(finish="STOP")])
    assert calls_of(snapshot) == [("f", '{"a":"x"}'), ("f", '{"a":"y"}'), ("g", "{}")]


def test_a_name_repeated_with_its_id_continues_the_call() -> None:
    again = {"functionCall": {"name": "f", "id": "1", "args": {"a": "xy"}}}
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": "f", "id": "1", "willContinue": True}},
        piece("$.a", stringValue="x"),
        again,
    ]
    assert calls_of(response(DIALECT, [chunk(*parts, finish="STOP")])) == [("f", '{"a":"xy"}')]


def test_a_streamed_call_cut_by_the_limit_is_incomplete() -> None:
    snapshot = response(DIALECT, [chunk(NAME, piece("$.a", stringValue="x"), finish="MAX_TOKENS")])
    assert snapshot["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [(item["status"], item["arguments"]) for item in snapshot["output"]] == [("incomplete", '{"a":"x')]


def test_an_end_without_a_call_is_ignored() -> None:
    assert read(DIALECT, [chunk(END, finish="STOP")]) == [FinishDelta(FinishReason.STOP)]


# Signatures (quirk G6)


SIGNED: list[tuple[str, list[dict[str, Any]], list[tuple[str, str, Any]]]] = [
    (
        "a call",
        [call("f", thoughtSignature="S"), call("g")],
        [
            ("reasoning", "call", {"thoughtSignature": "S", "part": "functionCall"}),
            ("function_call", "", None),
            ("function_call", "", None),
        ],
    ),
    (
        "a call after text",
        [{"text": "x"}, call("f", thoughtSignature="S")],
        [
            ("message", "", None),
            ("reasoning", "call", {"thoughtSignature": "S", "part": "functionCall"}),
            ("function_call", "", None),
        ],
    ),
    (
        "a call after a thought",
        [{"text": "x", "thought": True}, call("f", thoughtSignature="S")],
        [
            ("reasoning", "", None),
            ("reasoning", "call", {"thoughtSignature": "S", "part": "functionCall"}),
            ("function_call", "", None),
        ],
    ),
    (
        "text",
        [{"text": "x"}, {"text": "y", "thoughtSignature": "S"}, {"text": "z"}],
        [("message", "", None), ("reasoning", "block", {"thoughtSignature": "S", "part": "text"})],
    ),
    (
        "empty text after text",
        [{"text": "x"}, {"text": "", "thoughtSignature": "S"}],
        [("message", "", None), ("reasoning", "block", {"thoughtSignature": "S", "part": "empty_text"})],
    ),
    (
        "a thought",
        [{"text": "x", "thought": True, "thoughtSignature": "S"}],
        [("reasoning", "block", {"thoughtSignature": "S", "part": "thought", "text": "x"})],
    ),
    (
        "the end of a streamed call",
        [NAME, END | {"thoughtSignature": "S"}],
        [
            ("function_call", "", None),
            ("reasoning", "call", {"thoughtSignature": "S", "part": "functionCall", "after": True}),
        ],
    ),
    (
        "an end without a call",
        [END | {"thoughtSignature": "S"}],
        [("reasoning", "block", {"thoughtSignature": "S", "part": "empty_text"})],
    ),
    (
        "code, with a result that is not signed",
        [
            {"executableCode": {"code": "1"}, "thoughtSignature": "S"},
            {"codeExecutionResult": {"output": "2"}},
        ],
        [
            (
                "reasoning",
                "item",
                {"thoughtSignature": "S", "part": "executableCode", "value": {"code": "1"}},
            ),
            ("code_interpreter_call", "", None),
            (
                "reasoning",
                "item",
                {"thoughtSignature": "", "part": "codeExecutionResult", "value": {"output": "2"}},
            ),
        ],
    ),
]


@pytest.mark.parametrize(("parts", "expected"), [row[1:] for row in SIGNED], ids=[row[0] for row in SIGNED])
def test_a_signature_is_sealed_next_to_its_part(parts: list[Any], expected: list[Any]) -> None:
    assert envelopes(response(DIALECT, [chunk(*parts, finish="STOP")])) == expected


def test_thoughts_are_a_summary() -> None:  # quirk G7
    parts: list[dict[str, Any]] = [{"text": "hm", "thought": True}, {"text": "ok"}]
    output = response(DIALECT, [chunk(*parts, finish="STOP")])["output"]
    assert output[0]["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert output[1]["content"][0]["text"] == "ok"


# Usage, model, finish


def test_usage_is_cumulative_and_partial() -> None:  # quirk G8
    chunks = [
        {"usageMetadata": {"promptTokenCount": 10, "thoughtsTokenCount": 7, "trafficType": "ON_DEMAND"}},
        {"usageMetadata": {"trafficType": "ON_DEMAND_FLEX"}, "modelVersion": "gemini-9"},
        chunk({"text": "x"}, finish="STOP")
        | {
            "usageMetadata": {
                "promptTokenCount": 10,
                "candidatesTokenCount": 5,
                "toolUsePromptTokenCount": 100,
                "cachedContentTokenCount": 4,
            }
        },
    ]
    snapshot = response(DIALECT, chunks)
    assert (snapshot["model"], snapshot["service_tier"]) == ("gemini-9", "flex")
    assert snapshot["usage"] == {
        "input_tokens": 110,
        "output_tokens": 12,
        "total_tokens": 122,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 7},
    }


ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


def test_an_error_in_the_stream_keeps_earlier_output() -> None:
    snapshot = response(DIALECT, [chunk({"text": "x"}), ERROR, chunk({"text": "y"}, finish="STOP")])
    assert snapshot["error"] == {"code": "server_is_overloaded", "message": "The model is overloaded."}
    assert snapshot["output"][0]["content"][0]["text"] == "x"


ODD_ENDS: list[tuple[list[Any], list[str]]] = [
    ([], ["upstream_empty"]),
    ([chunk({"text": "x"})], ["upstream_truncated"]),
    (["nonsense"], ["upstream_invalid"]),
    ([[1]], ["upstream_invalid"]),
]


@pytest.mark.parametrize(("chunks", "codes"), ODD_ENDS)
def test_an_end_without_a_finish_reason_is_a_failure(chunks: list[Any], codes: list[str]) -> None:
    assert [delta.code for delta in read(DIALECT, chunks) if isinstance(delta, ErrorDelta)] == codes


def test_the_end_marker_of_a_proxy_completes_the_answer() -> None:
    chunks = [chunk(NAME), chunk(piece("$.a", stringValue="x")), "[DONE]"]
    assert calls_of(response(DIALECT, chunks)) == [("f", '{"a":"x"}')]


def test_only_the_first_candidate_is_read() -> None:  # quirk C33
    both = {
        "candidates": [
            {"index": 1, "content": {"parts": [{"text": "no"}]}},
            *chunk({"text": "x"}, finish="STOP", index=0)["candidates"],
        ]
    }
    snapshot = response(DIALECT, [both])
    assert [item["content"][0]["text"] for item in snapshot["output"]] == ["x"]
    assert snapshot["diagnostics"][0]["code"] == "extra_candidate"


def test_snake_case_objects_are_read() -> None:
    dumped = {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": None, "function_call": {"name": "f", "args": {}}, "thought_signature": "S"}
                    ]
                },
                "finish_reason": "STOP",
            }
        ],
        "usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 2},
    }
    snapshot = response(DIALECT, [dumped])
    assert [item["type"] for item in snapshot["output"]] == ["reasoning", "function_call"]
    assert snapshot["usage"]["total_tokens"] == 5


def test_logprobs_are_attached_to_the_text() -> None:
    result = {
        "chosenCandidates": [{"token": "é", "tokenId": 7, "logProbability": -0.5}, {"token": "x"}],
        "topCandidates": [{"candidates": [{"token": "e", "logProbability": -1}]}],
    }
    sent = chunk({"text": "a", "thought": True}, {"text": "éx"}, finish="STOP", logprobsResult=result)
    assert response(DIALECT, [sent])["output"][1]["content"][0]["logprobs"] == [
        {
            "token": "é",
            "logprob": -0.5,
            "bytes": [195, 169],
            "top_logprobs": [{"token": "e", "logprob": -1.0, "bytes": [101]}],
        },
        {"token": "x", "logprob": 0.0, "bytes": [120], "top_logprobs": []},
    ]
    assert (
        response(DIALECT, [chunk(call("f"), finish="STOP", logprobsResult=result)])["status"] == "completed"
    )


# Answers that are not streamed


def test_a_body_is_read_like_a_stream() -> None:
    whole = chunk({"text": "x"}, call("f", {"a": 1}), finish="STOP")
    body = json.dumps(whole).encode()
    assert DIALECT.read_body(plan("gemini"), body) == read(DIALECT, [whole])


def test_an_array_is_read_like_a_stream() -> None:
    chunks = [chunk({"text": "x"}), chunk({"text": "y"}, finish="STOP")]
    assert DIALECT.read_body(plan("gemini"), json.dumps(chunks).encode()) == read(DIALECT, chunks)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "upstream_empty"),
        (b"[{]", "upstream_invalid"),
        (b"\xff", "upstream_invalid"),
        (b"[]", "upstream_empty"),
    ],
)
def test_an_invalid_body_is_an_error(body: bytes, code: str) -> None:
    deltas = DIALECT.read_body(plan("gemini"), body)
    assert [delta.code for delta in deltas if isinstance(delta, ErrorDelta)] == [code]


def test_an_http_failure_in_an_array_is_classified() -> None:
    error = {
        "error": {
            "code": 400,
            "message": "The input token count (9) exceeds the maximum number of tokens",
            "status": "INVALID_ARGUMENT",
        }
    }
    for body in (error, [error]):
        assert DIALECT.classify(400, {}, json.dumps(body).encode()).code == "context_length_exceeded"


# Any input


NAMES = [
    *(
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "thoughtSignature",
        "functionCall",
        "name",
        "args",
    ),
    *(
        "partialArgs",
        "jsonPath",
        "stringValue",
        "numberValue",
        "nullValue",
        "willContinue",
        "id",
        "finishReason",
    ),
    *(
        "usageMetadata",
        "promptTokenCount",
        "candidatesTokenCount",
        "groundingMetadata",
        "groundingChunks",
        "web",
    ),
    *(
        "uri",
        "groundingSupports",
        "segment",
        "endIndex",
        "groundingChunkIndices",
        "executableCode",
        "toolCall",
    ),
    *("codeExecutionResult", "toolResponse", "toolType", "inlineData", "mimeType", "data", "promptFeedback"),
    *(
        "blockReason",
        "error",
        "index",
        "webSearchQueries",
        "urlContextMetadata",
        "urlMetadata",
        "retrievedUrl",
    ),
]


WORDS = [
    "STOP",
    "SAFETY",
    "f",
    "$.a",
    "$.a[0].b",
    "$.a[1]",
    "$.b",
    "FILE_SEARCH",
    "image/png",
    "https://a.example",
    "",
]


PARTS = json_with(NAMES, WORDS)


@given(st.lists(json_with(NAMES, WORDS), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_json_is_read_without_an_error(chunks: list[Any]) -> None:
    assert_endures(DIALECT, chunks)


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), PARTS, max_size=4), min_size=1, max_size=6),
    st.sampled_from(["STOP", "MAX_TOKENS", 1, None]),
)
@settings(max_examples=60, deadline=None)
def test_any_parts_are_read_without_an_error(parts: list[Any], reason: Any) -> None:
    assert_endures(DIALECT, [chunk(part) for part in parts] + [chunk(finish=reason)])
