"""Reading the stream parts of the AI SDK."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.ai_sdk import DIALECT
from penstock.dialects.ai_sdk.reader import HANDLERS
from penstock.dialects.envelope import unseal
from penstock.protocol.tools import CustomTool, FunctionTool, Tool
from penstock.sse import Frame
from penstock.stream.deltas import AnnotationDelta, DiagnosticDelta, ErrorDelta, UpstreamInfo, UsageDelta
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.ai_sdk.oracle_exceptions import EXCEPTIONS
from tests.dialects.recordings import ROOT, files, needs_recordings
from tests.effort import examples

FILES = files("ai-sdk-parts")
SMALL = checks.smallest("ai-sdk-parts", 60)
FINISH = {"type": "finish", "finishReason": {"unified": "stop"}, "usage": {}}
CALLS = {"type": "finish", "finishReason": "tool-calls", "usage": {"inputTokens": 1, "outputTokens": 2}}
TOOLS: list[Tool] = [FunctionTool(name="get_weather"), CustomTool(name="patch")]


@cache
def sources() -> dict[str, str]:
    derived = json.loads((ROOT / "derived.json").read_text())
    return {each["file"]: each["derived_from"] for each in derived["files"]}


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_parts_say_what_the_recording_says_that_they_were_made_from(file: str) -> None:
    checks.assert_agrees(DIALECT, file, sources()[file], EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", SMALL)
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    checks.assert_survives_cuts(DIALECT, file)


@needs_recordings
@pytest.mark.parametrize("file", SMALL)
def test_noise_changes_no_item(file: str) -> None:
    noise = [Frame(None, '{"type":"ping"}'), Frame(None, '{"type":"raw","rawValue":{"text":"no"}}')]
    checks.assert_same_with_noise(DIALECT, file, [*noise, Frame(None, "")])


@needs_recordings
@pytest.mark.recordings
@pytest.mark.parametrize("file", [file for file in FILES if file not in SMALL])
def test_large_recordings_too(file: str) -> None:
    checks.assert_same_with_noise(DIALECT, file, checks.as_frames([{"type": "ping"}]))
    checks.assert_survives_cuts(DIALECT, file, most=100)


# One call, whatever says it (ask B4)


def start(id: str = "call_123", **fields: Any) -> dict[str, Any]:
    return {"type": "tool-input-start", "id": id, "toolName": "get_weather", **fields}


def delta(text: str, id: str = "call_123") -> dict[str, Any]:
    return {"type": "tool-input-delta", "id": id, "delta": text}


def end(id: str = "call_123") -> dict[str, Any]:
    return {"type": "tool-input-end", "id": id}


def call(input: Any = '{"location":"NYC"}', id: str = "call_123", **fields: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": id, "toolName": "get_weather", "input": input, **fields}


PIECES = [delta('{"loc'), delta('ation":"NYC"}')]
START_AND_CALL = [start(), *PIECES, call({"location": "NYC"})]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(START_AND_CALL, id="start, deltas and call"),
        pytest.param([start(), *PIECES, end(), call()], id="start, deltas, end and call"),
        pytest.param([call()], id="call only"),
        pytest.param([call({"location": "NYC"})], id="call only, its input an object"),
        pytest.param([start(), start(), *PIECES, end(), call()], id="repeated start"),
        pytest.param([start(), *PIECES, start(), end(), call()], id="repeated start, late"),
        pytest.param([*PIECES, end(), call()], id="deltas and end without start"),
        pytest.param([end(), call()], id="end without anything"),
        pytest.param([start(), *PIECES, end(), call(), call()], id="call twice"),
        pytest.param([call(), call()], id="call only, twice"),
        pytest.param([start(), *PIECES, end()], id="start only"),
        pytest.param([start(), end(), call()], id="no deltas"),
        pytest.param([start(), *PIECES, end(), call(), end(), start()], id="more after the call"),
        pytest.param([start(), *PIECES, call('{ "location": "NYC" }')], id="the same JSON in another text"),
        pytest.param([start(), PIECES[0], end(), call()], id="a delta is missing"),
    ],
)
def test_one_call_whatever_says_it(parts: list[Any]) -> None:
    frames = checks.as_frames([*parts, CALLS])
    events = checks.translate(DIALECT, checks.plan("ai_sdk", TOOLS), frames)
    said = [json.loads(json.dumps(checks.to_builtins(event))) for event in events]
    assert [event["type"] for event in said].count("response.output_item.added") == 1
    assert [event["type"] for event in said].count("response.output_item.done") == 1
    ids = {
        event.get("item_id") or event["item"]["id"] for event in said if "item_id" in event or "item" in event
    }
    assert len(ids) == 1
    [item] = said[-1]["response"]["output"]
    assert (item["call_id"], item["name"], item["status"]) == ("call_123", "get_weather", "completed")
    assert item["arguments"] == '{"location":"NYC"}'


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        pytest.param([start(), PIECES[0]], "failed", id="cut"),
        pytest.param([start(), PIECES[0], CALLS], "failed", id="finished before its input was whole"),
        pytest.param([start(), PIECES[0], {**CALLS, "finishReason": "length"}], "incomplete", id="too long"),
    ],
)
def test_a_start_that_no_call_follows_is_no_whole_call(parts: list[Any], status: str) -> None:
    response = checks.answer(DIALECT, parts, TOOLS)
    assert response["status"] == status
    assert [item["status"] for item in response["output"]] == ["incomplete"]


def test_input_of_a_call_that_is_never_named_fails_the_answer() -> None:
    response = checks.answer(DIALECT, [*PIECES, end(), CALLS])
    assert (response["status"], response["output"]) == ("failed", [])


def test_two_calls_with_the_same_input_are_two() -> None:
    response = checks.answer(DIALECT, [call(id="a"), call(id="b"), CALLS])
    assert [item["call_id"] for item in response["output"]] == ["a", "b"]


@pytest.mark.parametrize("streamed", [True, False])
def test_the_input_of_a_custom_tool_is_its_text_and_not_a_json_string(streamed: bool) -> None:
    text = '*** "Begin"\nPatch'
    begin = [start(id="c", toolName="patch"), delta(text[:5], "c"), delta(text[5:], "c"), end("c")]
    whole = {"type": "tool-call", "toolCallId": "c", "toolName": "patch", "input": json.dumps(text)}
    [item] = checks.answer(DIALECT, [*(begin if streamed else []), whole, CALLS], TOOLS)["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", text)


def test_a_broken_json_string_is_passed_on_as_it_is() -> None:
    for input in ('"half', '"a" ', "[1]"):
        part = {"type": "tool-call", "toolCallId": "c", "toolName": "patch", "input": input}
        [item] = checks.answer(DIALECT, [part, CALLS], TOOLS)["output"]
        assert item["type"] == "custom_tool_call"


# Tools of the provider


HOSTED = {"providerExecuted": True}
RESULT = {"type": "tool-result", "toolCallId": "s1"}


def hosted(name: str, input: Any, result: Any, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"type": "tool-input-start", "id": "s1", "toolName": name, **HOSTED},
        delta("{", "s1"),
        end("s1"),
        {"type": "tool-call", "toolCallId": "s1", "toolName": name, "input": json.dumps(input), **HOSTED},
        {**RESULT, "toolName": name, "result": "not yet", "preliminary": True},
        {**RESULT, "toolName": name, "result": result, **fields},
        FINISH,
    ]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            hosted("web_search", {"query": "q"}, [{"url": "https://a", "title": "A"}, {}]),
            {
                "type": "web_search_call",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "q",
                    "sources": [{"type": "url", "url": "https://a", "title": "A"}],
                },
            },
        ),
        (
            hosted("web_search", {}, {"action": {"type": "search", "query": "q"}}),
            {"action": {"type": "search", "query": "q"}},
        ),
        (
            hosted("web_fetch", {"url": "https://a"}, {}),
            {"action": {"type": "open_page", "url": "https://a"}},
        ),
        (
            hosted("code_execution", {"code": "1"}, {"stdout": "a", "stderr": "b"}, isError=True),
            {"type": "code_interpreter_call", "status": "failed", "code": "1"},
        ),
        (
            hosted("code_interpreter", {"x": 1}, {"type": "r", "value": 1}),
            {"code": '{"x":1}', "outputs": [{"type": "logs", "logs": '{"value":1}'}]},
        ),
        (
            hosted("file_search", {}, {"queries": ["q"], "results": [{"fileId": "f"}]}),
            {"type": "file_search_call", "queries": ["q"], "results": [{"fileId": "f"}]},
        ),
        (
            hosted("image_generation", {}, {"result": "aGk="}),
            {"type": "image_generation_call", "result": "aGk="},
        ),
        (
            hosted("mcp.ask", {"a": 1}, {"serverLabel": "wiki", "output": "yes"}),
            {
                "type": "mcp_call",
                "name": "ask",
                "server_label": "wiki",
                "arguments": '{"a":1}',
                "output": "yes",
            },
        ),
        (
            hosted("mcp.ask", {}, [{"type": "text", "text": "no"}], isError=True),
            {"type": "mcp_call", "status": "failed", "error": "no", "output": None},
        ),
    ],
)
def test_a_tool_of_the_provider_is_an_item_and_no_call(parts: list[Any], expected: dict[str, Any]) -> None:
    [item] = checks.answer(DIALECT, parts)["output"]
    assert {name: item.get(name) for name in expected} == expected


def test_a_tool_of_the_provider_without_an_item_is_left_out_and_told() -> None:
    response = checks.answer(DIALECT, hosted("advisor", {}, {"text": "x"}))
    assert response["output"] == []
    assert [each["code"] for each in response["diagnostics"]] == ["server_tool_left_out"]


@pytest.mark.parametrize(
    ("parts", "types"),
    [
        ([{**call(id="s1"), "toolName": "web_search", **HOSTED}, FINISH], ["web_search_call"]),
        ([{**RESULT, "toolName": "web_search", "result": []}, FINISH], ["web_search_call"]),
        (
            [delta("{}", "s1"), {**call(id="s1"), "toolName": "web_search", **HOSTED}, FINISH],
            ["web_search_call"],
        ),
        ([start("s1", toolName="web_search", **HOSTED), call(id="s1"), FINISH], ["web_search_call"]),
        ([call(id="s1"), {**RESULT, "toolName": "get_weather", "result": 1}, CALLS], ["function_call"]),
    ],
)
def test_whose_call_it_is_does_not_depend_on_which_parts_came(parts: list[Any], types: list[str]) -> None:
    response = checks.answer(DIALECT, parts)
    assert [item["type"] for item in response["output"]] == types
    assert response["status"] == "completed"


# Text, reasoning, sources


def text(said: str, id: str = "0") -> list[dict[str, Any]]:
    return [
        {"type": "text-start", "id": id},
        {"type": "text-delta", "id": id, "delta": said},
        {"type": "text-end", "id": id},
    ]


def test_blocks_that_overlap_are_kept_apart() -> None:
    parts = [
        {"type": "text-start", "id": "0"},
        {"type": "reasoning-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Hel"},
        {"type": "reasoning-delta", "id": "0", "delta": "Hm"},
        {"type": "text-delta", "id": "txt-1", "delta": "Bye"},
        {"type": "text-delta", "id": "0", "delta": "lo"},
        {"type": "reasoning-end", "id": "0"},
        {"type": "text-end", "id": "0"},
        FINISH,
    ]
    output = checks.answer(DIALECT, parts)["output"]
    assert [item["content"][0]["text"] for item in output] == ["Hello", "Hm", "Bye"]


@pytest.mark.parametrize(
    ("reason", "status", "item_status"),
    [
        ("length", "incomplete", "incomplete"),
        ("stop", "completed", "completed"),
        ({"unified": "content-filter", "raw": "refusal"}, "incomplete", "incomplete"),
    ],
)
def test_the_last_block_is_whole_only_if_the_answer_is(reason: Any, status: str, item_status: str) -> None:
    parts = [*text("a", "0"), *text("b", "1"), {**FINISH, "finishReason": reason}]
    response = checks.answer(DIALECT, parts)
    assert response["status"] == status
    assert [item["status"] for item in response["output"]] == ["completed", item_status]


def test_the_phase_of_a_message_is_kept() -> None:
    begin = {"type": "text-start", "id": "m", "providerMetadata": {"openai": {"phase": "commentary"}}}
    [item] = checks.answer(DIALECT, [begin, *text("a", "m")[1:], FINISH])["output"]
    assert item["phase"] == "commentary"


SIGNED = {"anthropic": {"signature": "c2ln"}}
ENCRYPTED = {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "ZW5j"}}


@pytest.mark.parametrize(
    ("parts", "payloads"),
    [
        pytest.param(
            [
                {"type": "reasoning-delta", "id": "0", "delta": "Hm"},
                {"type": "reasoning-delta", "id": "0", "delta": "", "providerMetadata": SIGNED},
                {"type": "reasoning-end", "id": "0", "providerMetadata": SIGNED},
            ],
            [SIGNED],
            id="a signature",
        ),
        pytest.param(
            [
                {
                    "type": "reasoning-start",
                    "id": "0",
                    "providerMetadata": {"anthropic": {"redactedData": "cmVk"}},
                }
            ],
            [{"anthropic": {"redactedData": "cmVk"}}],
            id="redacted",
        ),
        pytest.param(
            [
                {"type": "reasoning-delta", "id": "rs_1:0", "delta": "a"},
                {"type": "reasoning-end", "id": "rs_1:0", "providerMetadata": ENCRYPTED},
                {"type": "reasoning-delta", "id": "rs_1:1", "delta": "b"},
                {"type": "reasoning-end", "id": "rs_1:1", "providerMetadata": ENCRYPTED},
            ],
            [ENCRYPTED, None],
            id="encrypted, told with each part",
        ),
    ],
)
def test_reasoning_that_only_its_maker_reads_is_sealed(parts: list[Any], payloads: list[Any]) -> None:
    output = checks.answer(DIALECT, [*parts, FINISH])["output"]
    sealed = [unseal(item["encrypted_content"]) if "encrypted_content" in item else None for item in output]
    assert [each and each.payload for each in sealed] == payloads
    assert [item["type"] for item in output] == ["reasoning"] * len(payloads)


@pytest.mark.parametrize("at", ["start", "call"])
def test_a_signature_of_a_call_stands_before_the_call(at: str) -> None:
    signed: dict[str, Any] = {"providerMetadata": {"google": {"thoughtSignature": "c2ln"}}}
    parts = [start(**signed), *PIECES, end(), call(**signed)] if at == "start" else [call(**signed)]
    opaque, item = checks.answer(DIALECT, [*parts, CALLS], TOOLS)["output"]
    envelope = unseal(opaque["encrypted_content"])
    assert envelope is not None
    assert envelope.attached == "call"
    assert envelope.payload == {"google": {"thoughtSignature": "c2ln"}, "toolCallId": item["call_id"]}


def test_a_compaction_is_an_item_and_no_text() -> None:
    begin = {"type": "text-start", "id": "0", "providerMetadata": {"anthropic": {"type": "compaction"}}}
    [item, message] = checks.answer(DIALECT, [begin, *text("short")[1:], *text("Hi", "1"), FINISH])["output"]
    envelope = unseal(item["encrypted_content"])
    assert envelope is not None
    assert (item["type"], envelope.payload["text"]) == ("compaction", "short")
    assert message["content"][0]["text"] == "Hi"
    assert checks.answer(DIALECT, [begin, *text("")[1:], FINISH])["output"] == []


URL = {"type": "source", "sourceType": "url", "id": "s", "url": "https://a", "title": "A"}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([URL, *text("Hi")], id="before"),
        pytest.param([*text("Hi")[:2], URL, *text("Hi")[2:]], id="inside"),
        pytest.param([*text("Hi")[:2], {**text("Hi")[2], "citations": [{"source": URL}]}], id="with the end"),
        pytest.param(
            [URL, URL, *text("Hi")[:2], {**text("")[2], "citations": [{"source": URL}]}], id="repeated"
        ),
    ],
)
def test_a_source_is_a_citation_of_the_text(parts: list[Any]) -> None:
    [item] = checks.answer(DIALECT, [*parts, FINISH])["output"]
    assert [each["url"] for each in item["content"][0]["annotations"]] == ["https://a"]


def test_a_source_that_has_no_text_or_no_url_is_told() -> None:
    document = {"type": "source", "sourceType": "document", "title": "Paper", "mediaType": "text/plain"}
    said = checks.told(DIALECT, [URL, document, FINISH])
    assert [type(each) for each in said if isinstance(each, AnnotationDelta | DiagnosticDelta)] == [
        DiagnosticDelta,
        AnnotationDelta,
    ]
    assert checks.answer(DIALECT, [URL, document, FINISH])["status"] == "completed"


# Ends


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("stop", "completed"),
        ("tool-calls", "completed"),
        ("other", "completed"),
        ("unknown", "completed"),
        ("length", "incomplete"),
        ("content-filter", "incomplete"),
        ("error", "failed"),
        ("never heard of", "completed"),
        ({"unified": "stop", "raw": "end_turn"}, "completed"),
        ({"unified": "stop", "raw": "pause_turn"}, "incomplete"),
        ({"unified": "error"}, "failed"),
        ({"unified": "interrupted"}, "failed"),
        ({"unified": 5}, "completed"),
        (None, "completed"),
    ],
)
def test_every_finish_reason_has_an_outcome(reason: Any, status: str) -> None:
    assert checks.answer(DIALECT, [*text("Hi"), {**FINISH, "finishReason": reason}])["status"] == status


@pytest.mark.parametrize(
    ("usage", "metadata", "counts"),
    [
        ({"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}, {}, (9, 5, None, None, None)),
        ({"inputTokens": 9, "cachedInputTokens": 4, "reasoningTokens": 2}, {}, (9, None, 4, None, 2)),
        ({"inputTokens": 3, "outputTokens": 1, "cachedInputTokens": 125}, {}, (128, 1, 125, None, None)),
        (
            {"inputTokens": 30, "outputTokens": 1, "cachedInputTokens": 20},
            {"anthropic": {"usage": {"input_tokens": 30, "cache_creation_input_tokens": 7}}},
            (57, 1, 20, 7, None),
        ),
        (
            {
                "inputTokens": {"total": 10, "noCache": 4, "cacheRead": 5, "cacheWrite": 1},
                "outputTokens": {"total": 8, "text": 5, "reasoning": 3},
            },
            {},
            (10, 8, 5, 1, 3),
        ),
        (
            {"inputTokens": {"noCache": 4, "cacheRead": 5}, "outputTokens": {"text": 5, "reasoning": 3}},
            {},
            (9, 8, 5, None, 3),
        ),
        ({"inputTokens": {}, "outputTokens": {}}, {}, (None,) * 5),
        ({"inputTokens": "9", "outputTokens": None}, {}, (None,) * 5),
    ],
)
def test_usage_of_every_version(usage: Any, metadata: Any, counts: tuple[int | None, ...]) -> None:
    said = checks.told(DIALECT, [{**FINISH, "usage": usage, "providerMetadata": metadata}])
    [told] = [each for each in said if isinstance(each, UsageDelta)]
    assert counts == (
        told.input_tokens,
        told.output_tokens,
        told.cached_tokens,
        told.cache_write_tokens,
        told.reasoning_tokens,
    )


OVERLOADED = {
    "type": "error",
    "error": {"name": "APIError", "message": "Overloaded", "type": "overloaded_error"},
}


@pytest.mark.parametrize(
    ("parts", "code", "message"),
    [
        ([OVERLOADED], "server_is_overloaded", "Overloaded"),
        ([OVERLOADED, {"type": "error", "error": "second"}, FINISH], "server_is_overloaded", "Overloaded"),
        (
            [{"type": "error", "error": "broken"}, {**FINISH, "finishReason": "error"}],
            "server_error",
            "broken",
        ),
        ([], "upstream_empty", None),
        (["[DONE]"], "upstream_empty", None),
        ([{"type": "ping"}], "upstream_empty", None),
        (text("Hi"), "upstream_truncated", None),
        ([*text("Hi"), "no json"], "upstream_invalid", None),
    ],
)
def test_a_failure_is_told_once_with_the_words_of_the_upstream(
    parts: list[Any], code: str, message: str | None
) -> None:
    response = checks.answer(DIALECT, parts)
    assert (response["status"], response["error"]["code"]) == ("failed", code)
    assert message is None or response["error"]["message"] == message


def test_what_follows_an_error_is_kept_and_so_is_the_usage() -> None:
    finish = {**FINISH, "usage": {"inputTokens": 3, "outputTokens": 4}}
    response = checks.answer(
        DIALECT, [*text("a")[:2], OVERLOADED, *text("b")[1:], finish, *text("late", "9")]
    )
    assert response["output"][0]["content"][0]["text"] == "ab"
    assert response["usage"]["total_tokens"] == 7


def test_the_end_marker_of_a_stream_without_finish_is_a_normal_end() -> None:
    assert checks.answer(DIALECT, [*text("Hi"), "[DONE]"])["status"] == "completed"


def test_what_has_no_place_is_told() -> None:
    parts = [
        {"type": "stream-start", "warnings": [{"type": "other", "message": "careful"}]},
        {"type": "response-metadata", "id": "r", "modelId": "gpt", "timestamp": 1},
        {"type": "file", "mediaType": "image/png", "data": "aGk="},
        {"type": "reasoning-file", "mediaType": "image/png"},
        {"type": "custom", "kind": "anthropic.message_start"},
        {"type": "custom", "kind": "x.y"},
        {"type": "brand-new"},
        {"type": "brand-new"},
        {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "t"},
        FINISH,
    ]
    said = checks.told(DIALECT, parts)
    assert [each.code for each in said if isinstance(each, DiagnosticDelta)] == [
        *("upstream_warning", "file_left_out", "file_left_out", "part_left_out", "part_left_out"),
        "part_left_out",
    ]
    assert [each.model for each in said if isinstance(each, UpstreamInfo)] == ["gpt"]


# Answers that are not streamed


def test_a_body_is_read_as_its_stream() -> None:
    content = [
        {"type": "reasoning", "text": "Hm", "providerMetadata": SIGNED},
        {"type": "text", "text": "Hi"},
        URL,
        call(),
    ]
    body = {"content": content, "finishReason": "tool-calls", "usage": {"inputTokens": 1, "outputTokens": 2}}
    body |= {"warnings": [], "response": {"id": "r", "modelId": "gpt"}}
    deltas = DIALECT.read_body(checks.plan("ai_sdk", TOOLS), json.dumps(body).encode())
    _, events = checks.run(deltas, TOOLS)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    assert events[-1]["response"]["model"] == "gpt"


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"<html>", "upstream_invalid"), (b'{"error":{"code":"rate_limit_exceeded"}}', "rate_limit_exceeded")],
)
def test_a_body_that_is_no_answer_is_an_error(body: bytes, code: str) -> None:
    [error] = DIALECT.read_body(checks.plan("ai_sdk"), body)
    assert isinstance(error, ErrorDelta)
    assert error.code == code


def test_a_refused_request_is_classified() -> None:
    assert DIALECT.classify(429, {"retry-after": "2"}, b"{}").retry_after == 2


# Anything


ids = st.sampled_from(["0", "1", ""])
metadata = st.sampled_from([SIGNED, ENCRYPTED, {"anthropic": {"type": "compaction"}}, {"x": 1}])
parts = checks.objects(
    list(HANDLERS),
    {
        "id": ids,
        "toolCallId": ids,
        "toolName": st.sampled_from(["get_weather", "patch", "web_search", "mcp.x", "other", ""]),
        "input": st.sampled_from(['{"a":1}', "{", '"text"', ""]),
        "delta": st.sampled_from(["a", '{"a"', ":1}", ""]),
        "providerExecuted": st.booleans(),
        "providerMetadata": metadata,
        "finishReason": st.sampled_from(["stop", "length", "error"]),
        "usage": st.just({"inputTokens": 1}),
        "url": st.just("https://a"),
        "result": checks.values,
        "citations": st.just([{"source": URL}]),
        "warnings": st.just([{"type": "other"}]),
        "error": checks.values,
    },
)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(parts, max_size=12))
def test_any_parts_end_in_a_lawful_stream(given_parts: list[Any]) -> None:
    checks.assert_lawful_end(DIALECT, checks.as_frames(given_parts), TOOLS)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80) | checks.values.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_read(body: bytes) -> None:
    assert DIALECT.read_body(checks.plan("ai_sdk"), body)
