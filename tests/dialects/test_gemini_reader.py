"""Reading Gemini's streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.envelope import unseal
from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.partial_args import PartialArguments, path_of
from penstock.protocol.content import FileCitation
from penstock.sse import Frame
from penstock.stream.deltas import (
    AnnotationDelta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ToolCallDelta,
)
from tests.dialects.exceptions_gemini import EXCEPTIONS
from tests.dialects.recording_checks import (
    assert_agrees,
    assert_endures,
    assert_same_after_noise,
    assert_survives_cuts,
    json_with,
    last,
    plan,
    read,
    response,
)
from tests.dialects.recordings import files, needs_recordings, translate
from tests.effort import examples

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
@pytest.mark.parametrize("file", FILES)
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    assert_survives_cuts(DIALECT, file)


# Hand-written streams


def chunk(*parts: dict[str, Any], finish: Any = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate | more]}


def call(name: str, args: Any = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **({} if args is None else {"args": args})}, **more}


def piece(path: str, *, more: bool = True, **value: Any) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": more}}


def calls_of(snapshot: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (item["name"], item["arguments"]) for item in snapshot["output"] if item["type"] == "function_call"
    ]


def envelopes(snapshot: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Every item, and what is sealed in it."""
    found = []
    for item in snapshot["output"]:
        sealed = unseal(item.get("encrypted_content", ""))
        found.append((item["type"], sealed.attached if sealed else "", sealed.payload if sealed else None))
    return found


def test_equal_calls_without_ids_are_calls_of_their_own() -> None:  # quirk G1, quirk G3
    chunks = [chunk(call("f", {"a": 1}), call("f", {"a": 1})), chunk(call("f", {"a": 1}), finish="STOP")]
    snapshot = response(DIALECT, chunks)
    assert calls_of(snapshot) == [("f", '{"a":1}')] * 3
    assert len({item["call_id"] for item in snapshot["output"]}) == 3
    assert snapshot["status"] == "completed"


def test_an_id_is_kept() -> None:
    given = chunk({"functionCall": {"name": "f", "id": "9d532gc9", "args": {}}}, finish="STOP")
    assert response(DIALECT, [given])["output"][0]["call_id"] == "9d532gc9"


@pytest.mark.parametrize("args", [None, {}, "{}"])
def test_no_arguments_are_an_empty_object(args: Any) -> None:  # quirk G4
    assert calls_of(response(DIALECT, [chunk(call("f", args), finish="STOP")])) == [("f", "{}")]


def test_arguments_that_are_no_object_pass_as_they_are() -> None:
    assert calls_of(response(DIALECT, [chunk(call("f", [1]), finish="STOP")])) == [("f", "[1]")]


NAME = {"functionCall": {"name": "f", "willContinue": True}}
END: dict[str, Any] = {"functionCall": {}}
STREAMED: list[tuple[str, list[dict[str, Any]], str]] = [
    ("a string in pieces", [piece("$.a", stringValue="x"), piece("$.a", stringValue='"y')], '{"a":"x\\"y"}'),
    ("two fields", [piece("$.a", stringValue="x"), piece("$.b", numberValue=1.5)], '{"a":"x","b":1.5}'),
    ("every kind", [piece("$.a", boolValue=True), piece("$.b", nullValue=None)], '{"a":true,"b":null}'),
    (
        "nested",
        [
            piece("$.r.i[0].n", stringValue="x"),
            piece("$.r.i[0].m", numberValue=1),
            piece("$.r.i[1].n", stringValue="y"),
            piece("$.r.s[0]", stringValue="z"),
        ],
        '{"r":{"i":[{"n":"x","m":1},{"n":"y"}],"s":["z"]}}',
    ),
    ("quoted names", [piece("$['a b'][\"c.d\"]", numberValue=1)], '{"a b":{"c.d":1}}'),
    (
        "an array in an array",
        [piece("$.a[0][0]", numberValue=1), piece("$.a[1][0]", numberValue=2)],
        '{"a":[[1],[2]]}',
    ),
    ("nothing", [{"functionCall": {"willContinue": True}}], "{}"),
    ("a path without a value", [piece("$.a")], "{}"),
    (
        "a place that was left",
        [piece("$.a.x", stringValue="1"), piece("$.b", numberValue=1), piece("$.a.x", stringValue="2")],
        '{"a":{"x":"1"},"b":1,"a":{"x":"12"}}',
    ),
    (
        "an array from its end",
        [piece("$.a[1]", numberValue=2), piece("$.a[0]", numberValue=1), piece("$.b", boolValue=False)],
        '{"b":false,"a":[1,2]}',
    ),
    (
        "a value that becomes a place",
        [piece("$.a", numberValue=2), piece("$.a.b", stringValue="x"), piece("$.a.c", numberValue=1)],
        '{"a":2,"a":{"b":"x","c":1}}',
    ),
    ("a value that changes", [piece("$.a", numberValue=2), piece("$.a", numberValue=3)], '{"a":2,"a":3}'),
    (
        "a place with names and numbers",
        [piece("$.a.b", numberValue=2), piece("$.a[0]", numberValue=3)],
        '{"a":{"b":2},"a":{"b":2,"0":3}}',
    ),
]


@pytest.mark.parametrize(
    ("pieces", "expected"), [row[1:] for row in STREAMED], ids=[row[0] for row in STREAMED]
)
@pytest.mark.parametrize("ending", ["marked", "unmarked"])
def test_arguments_that_come_by_path(pieces: list[dict[str, Any]], expected: str, ending: str) -> None:
    """Quirk G5."""
    chunks = [chunk(NAME), *(chunk(each) for each in pieces)]
    if ending == "marked":
        chunks.append(chunk(END))
    assert calls_of(response(DIALECT, [*chunks, chunk(finish="STOP")])) == [("f", expected)]


def test_streamed_arguments_are_sent_as_they_come() -> None:
    reader = DIALECT.reader(plan("gemini"))
    deltas = [
        delta
        for part in (NAME, piece("$.a", stringValue="x"), piece("$.a", stringValue="y"), END)
        for delta in reader.feed(Frame(None, json.dumps(chunk(part))))
    ]
    sent = [delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert sent == [None, '{"a":"x', "y", '"}', None]


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


def test_a_name_that_is_repeated_with_its_id_goes_on() -> None:
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


@pytest.mark.parametrize("path", ["", "$", "$[0]", "$.a[", "$.a[x]", "$" + ".a" * 101, None])
def test_a_path_that_cannot_be_read_is_told(path: Any) -> None:
    parts: list[dict[str, Any]] = [NAME, piece(path, stringValue="x"), END]
    snapshot = response(DIALECT, [chunk(*parts, finish="STOP")])
    assert calls_of(snapshot) == [("f", "{}")]
    assert [each["code"] for each in snapshot["diagnostics"]] == ["undeclared_tool", "left_out"]


def test_a_stray_end_means_nothing() -> None:
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
        [("reasoning", "block", {"thoughtSignature": "S", "part": "thought"})],
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
        "code",
        [{"executableCode": {"code": "1"}, "thoughtSignature": "S"}],
        [
            (
                "reasoning",
                "block",
                {"thoughtSignature": "S", "part": "executableCode", "value": {"code": "1"}},
            ),
            ("code_interpreter_call", "", None),
        ],
    ),
]


@pytest.mark.parametrize(("parts", "expected"), [row[1:] for row in SIGNED], ids=[row[0] for row in SIGNED])
def test_a_signature_is_kept_where_it_belongs(parts: list[Any], expected: list[Any]) -> None:
    assert envelopes(response(DIALECT, [chunk(*parts, finish="STOP")])) == expected


def test_thoughts_are_a_summary() -> None:  # quirk G7
    parts: list[dict[str, Any]] = [{"text": "hm", "thought": True}, {"text": "ok"}]
    output = response(DIALECT, [chunk(*parts, finish="STOP")])["output"]
    assert output[0]["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert output[1]["content"][0]["text"] == "ok"


# Usage, model, finish


def test_usage_is_cumulative_and_partial() -> None:  # quirk G8
    given = [
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
    snapshot = response(DIALECT, given)
    assert (snapshot["model"], snapshot["service_tier"]) == ("gemini-9", "flex")
    assert snapshot["usage"] == {
        "input_tokens": 110,
        "output_tokens": 12,
        "total_tokens": 122,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 7},
    }


ENDS = [
    ("STOP", "", "completed", None),
    (1, "", "completed", None),
    ("MAX_TOKENS", "", "incomplete", "max_output_tokens"),
    (2, "", "incomplete", "max_output_tokens"),
    *(
        (name, "", "incomplete", "content_filter")
        for name in ("SAFETY", "RECITATION", "BLOCKLIST", "LANGUAGE")
    ),
    *((name, "", "incomplete", "content_filter") for name in ("PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY")),
    (8, "", "incomplete", "content_filter"),
    ("MALFORMED_FUNCTION_CALL", "", "failed", "server_error"),
    (10, "", "failed", "server_error"),
    (10, "vertex", "incomplete", "content_filter"),
    (9, "vertex", "failed", "server_error"),
    ("UNEXPECTED_TOOL_CALL", "", "failed", "server_error"),
    ("MISSING_THOUGHT_SIGNATURE", "", "failed", "invalid_request"),
    ("OTHER", "", "completed", None),
    ("SOMETHING_NEW", "", "completed", None),
    (99, "", "completed", None),
    ("FINISH_REASON_UNSPECIFIED", "", "failed", "upstream_truncated"),
    (0, "", "failed", "upstream_truncated"),
    (True, "", "failed", "upstream_truncated"),
    ({}, "", "failed", "upstream_truncated"),
]


@pytest.mark.parametrize(("reason", "vendor", "status", "why"), ENDS)
def test_every_finish_reason_has_an_outcome(
    reason: Any, vendor: str, status: str, why: Any
) -> None:  # quirk G2, quirk G10
    frame = Frame(None, json.dumps(chunk({"text": "x"}, finish=reason, finishMessage="said so")))
    snapshot = last(translate(DIALECT, plan("gemini", vendor), [frame]))
    told = (snapshot["error"] or {}).get("code") or (snapshot["incomplete_details"] or {}).get("reason")
    assert (snapshot["status"], told) == (status, why)
    if status == "failed" and why != "upstream_truncated":
        assert snapshot["error"]["message"] == "said so"


def test_an_unknown_finish_is_told_by_name() -> None:
    deltas = read(DIALECT, [chunk(finish="SOMETHING_NEW")])
    assert deltas[0] == FinishDelta(FinishReason.STOP)
    assert deltas[1] == DiagnosticDelta("unknown_finish", "the upstream stopped with SOMETHING_NEW")


def test_a_refused_prompt_is_a_content_filter() -> None:  # quirk G10
    refused = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}
    snapshot = response(DIALECT, [refused])
    assert snapshot["incomplete_details"] == {"reason": "content_filter"}
    assert "SAFETY: no" in snapshot["diagnostics"][0]["message"]


ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}


def test_an_error_in_the_stream_keeps_what_came() -> None:
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
def test_an_end_that_nobody_announced_is_a_failure(chunks: list[Any], codes: list[str]) -> None:
    assert [delta.code for delta in read(DIALECT, chunks) if isinstance(delta, ErrorDelta)] == codes


def test_an_end_marker_of_a_proxy_is_an_end() -> None:
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


def test_dumped_objects_are_read_too() -> None:
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


def test_probabilities_go_with_the_text() -> None:
    result = {
        "chosenCandidates": [{"token": "é", "tokenId": 7, "logProbability": -0.5}, {"token": "x"}],
        "topCandidates": [{"candidates": [{"token": "e", "logProbability": -1}]}],
    }
    given = chunk({"text": "a", "thought": True}, {"text": "éx"}, finish="STOP", logprobsResult=result)
    assert response(DIALECT, [given])["output"][1]["content"][0]["logprobs"] == [
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


# What the vendor does itself (quirk G9)


def grounding(**more: Any) -> dict[str, Any]:
    return {
        "groundingChunks": [
            {"web": {"uri": "https://a.example", "title": "A"}},
            {"web": {"uri": "https://b.example", "title": "B"}},
        ],
        **more,
    }


def support(start: int, end: int, *indexes: Any) -> dict[str, Any]:
    return {"segment": {"startIndex": start, "endIndex": end}, "groundingChunkIndices": list(indexes)}


def citations(snapshot: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (each["url"], each["start_index"], each["end_index"])
        for item in snapshot["output"]
        if item["type"] == "message"
        for each in item["content"][0]["annotations"]
    ]


def test_citations_come_once_and_are_placed_in_characters() -> None:
    supports = [support(3, 6, 0), support(0, 3, 0), support(0, 99, 7, "x")]
    chunks = [
        chunk({"text": "é°"}, groundingMetadata=grounding()),
        chunk({"text": "ßxy"}, groundingMetadata=grounding(groundingSupports=supports)),
        chunk(finish="STOP", groundingMetadata=grounding(groundingSupports=supports)),
    ]
    # Bytes 3 to 6 are the second half of the second character up to the end of the third.
    assert citations(response(DIALECT, chunks)) == [
        ("https://a.example", 1, 3),
        ("https://b.example", 0, 0),
    ]


def test_citations_are_placed_in_the_message_that_they_stand_in() -> None:
    chunks = [
        chunk({"text": "one"}, call("f"), {"text": "two"}),
        chunk(
            finish="STOP",
            groundingMetadata=grounding(groundingSupports=[support(3, 6, 0), support(-5, 2, 1)]),
        ),
    ]
    assert citations(response(DIALECT, chunks)) == [
        ("https://a.example", 0, 3),
        ("https://b.example", 0, 0),
    ]


def test_citations_survive_a_cut() -> None:
    snapshot = response(DIALECT, [chunk({"text": "x"}, groundingMetadata=grounding(webSearchQueries=["q"]))])
    assert [url for url, *_ in citations(snapshot)] == ["https://a.example", "https://b.example"]
    assert snapshot["error"]["code"] == "upstream_truncated"


def test_other_sources_are_cited_too() -> None:
    sources = [
        {"retrievedContext": {"fileSearchStore": "stores/1", "title": "facts.txt"}},
        {"retrievedContext": {"uri": "https://c.example"}},
        {"maps": {"uri": "https://d.example", "title": "D"}},
        {"image": {"sourceUri": "https://e.example"}},
        {"unknown": {}},
    ]
    cited = chunk(
        {"text": "x"},
        finish="STOP",
        groundingMetadata={"groundingChunks": sources},
        citationMetadata={
            "citationSources": [{"uri": "https://f.example", "endIndex": 1}, {"license": "mit"}]
        },
    )
    told = [delta.annotation for delta in read(DIALECT, [cited]) if isinstance(delta, AnnotationDelta)]
    assert [getattr(each, "url", "") for each in told] == [
        "https://f.example",
        "",
        "https://c.example",
        "https://d.example",
        "https://e.example",
    ]
    assert told[1] == FileCitation(file_id="stores/1", filename="facts.txt", index=0)


def test_searches_and_pages_are_items_after_the_message() -> None:
    chunks = [
        chunk(
            {"text": "x"},
            groundingMetadata={"webSearchQueries": ["q", "q", 1], "retrievalQueries": ["r"]},
            urlContextMetadata={
                "urlMetadata": [
                    {
                        "retrievedUrl": "https://a.example",
                        "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS",
                    },
                    {"retrievedUrl": "https://b.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
                ]
            },
        ),
        chunk({"text": "y"}, finish="STOP"),
        chunk(finish="STOP"),
    ]
    output = response(DIALECT, chunks)["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        ("message", "completed"),
        ("web_search_call", "completed"),
        ("file_search_call", "completed"),
        ("web_search_call", "completed"),
        ("web_search_call", "failed"),
    ]
    assert output[1]["action"] == {"type": "search", "query": "q", "queries": ["q"]}


def test_executed_code_is_an_item_and_no_call() -> None:
    parts: list[dict[str, Any]] = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"executableCode": {"code": "never()"}},
        {"text": "done"},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no", "id": "unknown"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    ]
    output = response(DIALECT, [chunk(*parts, finish="STOP")])["output"]
    assert [(item["type"], item["status"], item.get("code")) for item in output] == [
        ("code_interpreter_call", "completed", "print(1)"),
        ("code_interpreter_call", "failed", "never()"),
        ("message", "completed", None),
        ("code_interpreter_call", "completed", ""),
    ]
    assert output[0]["outputs"] == [{"type": "logs", "logs": "1\n"}]


def test_a_result_without_an_id_is_of_the_latest_code() -> None:
    parts: list[dict[str, Any]] = [
        {"executableCode": {"code": "one"}},
        {"executableCode": {"code": "two"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
    ]
    output = response(DIALECT, [chunk(*parts, finish="STOP")])["output"]
    assert [(item["code"], bool(item["outputs"])) for item in output] == [("one", False), ("two", True)]


def test_server_side_calls_are_items_and_no_calls() -> None:
    parts: list[dict[str, Any]] = [
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1", "args": {"queries": ["a", "b"]}}},
        {"toolCall": {"toolType": "URL_CONTEXT", "id": "2", "args": {"url": "https://a.example"}}},
        {"toolCall": {"toolType": "FILE_SEARCH", "id": "3"}},
        {"toolResponse": {"toolType": "URL_CONTEXT", "id": "2"}},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1", "response": {}}},
        {"toolResponse": {"toolType": "FILE_SEARCH", "id": "3"}},
        {"toolResponse": {"toolType": "FILE_SEARCH", "id": "4"}},
        {"toolCall": {"toolType": "TIME_MACHINE"}},
    ]
    ended = chunk(*parts, finish="STOP", groundingMetadata={"webSearchQueries": ["a", "b"]})
    snapshot = response(DIALECT, [ended])
    assert [(item["type"], item["status"]) for item in snapshot["output"]] == [
        ("web_search_call", "completed"),
        ("web_search_call", "completed"),
        ("file_search_call", "completed"),
    ]
    assert snapshot["output"][0]["action"]["queries"] == ["a", "b"]
    assert snapshot["output"][1]["action"] == {"type": "open_page", "url": "https://a.example"}
    assert [each["code"] for each in snapshot["diagnostics"]] == ["left_out", "left_out"]


def test_pictures_are_items_and_other_data_is_told() -> None:
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "S"},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True},
        {"fileData": {"fileUri": "gs://a/b", "mimeType": "video/mp4"}},
        {"somethingNew": {}, "other": None},
    ]
    snapshot = response(DIALECT, [chunk(*parts, finish="STOP")])
    assert [item["type"] for item in snapshot["output"]] == ["reasoning", "image_generation_call"]
    assert (snapshot["output"][1]["result"], snapshot["output"][1]["output_format"]) == ("AAAA", "png")
    told = " ".join(each["message"] for each in snapshot["diagnostics"])
    for named in ("audio/wav", "image/png", "gs://a/b", "somethingNew"):
        assert named in told


# Answers that are not streamed


def test_a_body_is_read_as_a_stream_is() -> None:
    whole = chunk({"text": "x"}, call("f", {"a": 1}), finish="STOP")
    body = json.dumps(whole).encode()
    assert DIALECT.read_body(plan("gemini"), body) == read(DIALECT, [whole])


def test_an_array_is_read_as_a_stream_is() -> None:
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
def test_a_body_that_is_no_answer_is_a_failure(body: bytes, code: str) -> None:
    deltas = DIALECT.read_body(plan("gemini"), body)
    assert [delta.code for delta in deltas if isinstance(delta, ErrorDelta)] == [code]


def test_an_http_failure_is_classified_also_in_an_array() -> None:
    error = {
        "error": {
            "code": 400,
            "message": "The input token count (9) exceeds the maximum number of tokens",
            "status": "INVALID_ARGUMENT",
        }
    }
    for body in (error, [error]):
        assert DIALECT.classify(400, {}, json.dumps(body).encode()).code == "context_length_exceeded"


# Anything at all

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
def test_any_json_is_endured(chunks: list[Any]) -> None:
    assert_endures(DIALECT, chunks)


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), PARTS, max_size=4), min_size=1, max_size=6),
    st.sampled_from(["STOP", "MAX_TOKENS", 1, None]),
)
@settings(max_examples=60, deadline=None)
def test_any_parts_are_endured(parts: list[Any], reason: Any) -> None:
    assert_endures(DIALECT, [chunk(part) for part in parts] + [chunk(finish=reason)])


LEAVES = st.sampled_from(
    [{"stringValue": "x"}, {"stringValue": "é\n"}, {"numberValue": 1}, {"boolValue": False}]
)
STEPS = st.lists(st.sampled_from([".a", ".b", "[0]", "[1]", "[2]", "['c d']"]), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["$.a", "$.b", "$.c"]), STEPS, LEAVES), max_size=8))
@settings(max_examples=examples(150), deadline=None)
def test_arguments_in_any_order_are_one_object(pieces: list[tuple[str, list[str], dict[str, Any]]]) -> None:
    """Whatever the order, the text is JSON, and says what the values put together say."""
    writer = PartialArguments()
    text = "".join(writer.add({"jsonPath": root + "".join(steps), **leaf}) for root, steps, leaf in pieces)
    text += writer.close()
    told = json.loads(text or "{}")
    assert told.keys() == {root[-1] for root, *_ in pieces}
    if not writer.rewritten:
        expected: dict[Any, Any] = {}
        for root, steps, leaf in pieces:
            path, value = path_of(root + "".join(steps)), next(iter(leaf.values()))
            expected[path] = expected[path] + value if path in expected else value
        assert dict(leaves(told)) == expected
        json.loads(text or "{}", object_pairs_hook=_without_repeats)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value that is no object and no array, with the path to it."""
    if not isinstance(value, dict | list):
        yield path, value
    else:
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, step))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)
