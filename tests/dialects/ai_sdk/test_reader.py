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
from penstock.sse import Frame
from penstock.stream.deltas import AnnotationDelta, DiagnosticDelta, UpstreamInfo
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.ai_sdk.oracle_exceptions import EXCEPTIONS
from tests.dialects.ai_sdk.stream_parts import (
    CALLS,
    FINISH,
    SIGNED,
    TOOLS,
    URL,
    call,
    delta,
    end,
    start,
    text,
)
from tests.dialects.recordings import ROOT, files, needs_recordings
from tests.effort import examples

FILES = files("ai-sdk-parts")
SAMPLE = checks.smallest("ai-sdk-parts", 30)
"""`make recordings` tests the other ones."""


@cache
def sources() -> dict[str, str]:
    derived = json.loads((ROOT / "derived.json").read_text())
    return {each["file"]: each["derived_from"] for each in derived["files"]}


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_parts_are_read_like_the_recording_that_they_derive_from(file: str) -> None:
    checks.assert_agrees(DIALECT, file, sources()[file], EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", SAMPLE)
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    checks.assert_survives_cuts(DIALECT, file, most=40)


@needs_recordings
@pytest.mark.parametrize("file", SAMPLE)
def test_noise_changes_no_item(file: str) -> None:
    noise = [Frame(None, '{"type":"ping"}'), Frame(None, '{"type":"raw","rawValue":{"text":"no"}}')]
    checks.assert_same_with_noise(DIALECT, file, [*noise, Frame(None, "")])


@needs_recordings
@pytest.mark.recordings
@pytest.mark.parametrize("file", [file for file in FILES if file not in SAMPLE])
def test_all_recordings_survive_noise_and_cuts(file: str) -> None:
    checks.assert_same_with_noise(DIALECT, file, checks.as_frames([{"type": "ping"}]))
    checks.assert_survives_cuts(DIALECT, file, most=100)


# One call, whichever parts announce it (ask B4)


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
def test_one_call_whichever_parts_announce_it(parts: list[Any]) -> None:
    frames = checks.as_frames([*parts, CALLS])
    events = checks.translate(DIALECT, checks.plan("ai_sdk", TOOLS), frames)
    sent = [json.loads(json.dumps(checks.to_builtins(event))) for event in events]
    assert [event["type"] for event in sent].count("response.output_item.added") == 1
    assert [event["type"] for event in sent].count("response.output_item.done") == 1
    ids = {
        event.get("item_id") or event["item"]["id"] for event in sent if "item_id" in event or "item" in event
    }
    assert len(ids) == 1
    [item] = sent[-1]["response"]["output"]
    assert (item["call_id"], item["name"], item["status"]) == ("call_123", "get_weather", "completed")
    assert item["arguments"] == '{"location":"NYC"}'


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        pytest.param([start(), PIECES[0]], "failed", id="cut"),
        pytest.param([start(), PIECES[0], CALLS], "failed", id="finished before its input was complete"),
        pytest.param([start(), PIECES[0], {**CALLS, "finishReason": "length"}], "incomplete", id="too long"),
    ],
)
def test_a_start_without_a_call_is_an_incomplete_call(parts: list[Any], status: str) -> None:
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
    full_call = {"type": "tool-call", "toolCallId": "c", "toolName": "patch", "input": json.dumps(text)}
    [item] = checks.answer(DIALECT, [*(begin if streamed else []), full_call, CALLS], TOOLS)["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", text)


def test_a_broken_json_string_is_passed_on_unchanged() -> None:
    for input in ('"half', '"a" ', "[1]"):
        part = {"type": "tool-call", "toolCallId": "c", "toolName": "patch", "input": input}
        [item] = checks.answer(DIALECT, [part, CALLS], TOOLS)["output"]
        assert item["type"] == "custom_tool_call"


# Text, reasoning, sources


def test_overlapping_blocks_are_separate_items() -> None:
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
def test_the_last_block_is_complete_only_if_the_answer_is(reason: Any, status: str, item_status: str) -> None:
    parts = [*text("a", "0"), *text("b", "1"), {**FINISH, "finishReason": reason}]
    response = checks.answer(DIALECT, parts)
    assert response["status"] == status
    assert [item["status"] for item in response["output"]] == ["completed", item_status]


def test_the_phase_of_a_message_is_kept() -> None:
    begin = {"type": "text-start", "id": "m", "providerMetadata": {"openai": {"phase": "commentary"}}}
    [item] = checks.answer(DIALECT, [begin, *text("a", "m")[1:], FINISH])["output"]
    assert item["phase"] == "commentary"


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
            id="encrypted, repeated with each part",
        ),
    ],
)
def test_signed_and_encrypted_reasoning_is_sealed(parts: list[Any], payloads: list[Any]) -> None:
    output = checks.answer(DIALECT, [*parts, FINISH])["output"]
    sealed = [unseal(item["encrypted_content"]) if "encrypted_content" in item else None for item in output]
    assert [each and each.payload for each in sealed] == payloads
    assert [item["type"] for item in output] == ["reasoning"] * len(payloads)


@pytest.mark.parametrize("at", ["start", "call"])
def test_the_signature_of_a_call_precedes_the_call(at: str) -> None:
    signed: dict[str, Any] = {"providerMetadata": {"google": {"thoughtSignature": "c2ln"}}}
    parts = [start(**signed), *PIECES, end(), call(**signed)] if at == "start" else [call(**signed)]
    opaque, item = checks.answer(DIALECT, [*parts, CALLS], TOOLS)["output"]
    envelope = unseal(opaque["encrypted_content"])
    assert envelope is not None
    assert envelope.attached == "call"
    assert envelope.payload == {"google": {"thoughtSignature": "c2ln"}, "toolCallId": item["call_id"]}


def test_a_compaction_is_an_item_and_not_text() -> None:
    begin = {"type": "text-start", "id": "0", "providerMetadata": {"anthropic": {"type": "compaction"}}}
    [item, message] = checks.answer(DIALECT, [begin, *text("short")[1:], *text("Hi", "1"), FINISH])["output"]
    envelope = unseal(item["encrypted_content"])
    assert envelope is not None
    assert (item["type"], envelope.payload["text"]) == ("compaction", "short")
    assert message["content"][0]["text"] == "Hi"
    assert checks.answer(DIALECT, [begin, *text("")[1:], FINISH])["output"] == []


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


def test_a_source_without_text_or_without_a_url() -> None:
    document = {"type": "source", "sourceType": "document", "title": "Paper", "mediaType": "text/plain"}
    deltas = checks.deltas(DIALECT, [URL, document, FINISH])
    assert [type(each) for each in deltas if isinstance(each, AnnotationDelta | DiagnosticDelta)] == [
        DiagnosticDelta,
        AnnotationDelta,
    ]
    assert checks.answer(DIALECT, [URL, document, FINISH])["status"] == "completed"


# Ends


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
def test_a_failure_is_reported_once_with_the_upstreams_message(
    parts: list[Any], code: str, message: str | None
) -> None:
    response = checks.answer(DIALECT, parts)
    assert (response["status"], response["error"]["code"]) == ("failed", code)
    assert message is None or response["error"]["message"] == message


def test_content_and_usage_after_an_error_are_kept() -> None:
    finish = {**FINISH, "usage": {"inputTokens": 3, "outputTokens": 4}}
    response = checks.answer(
        DIALECT, [*text("a")[:2], OVERLOADED, *text("b")[1:], finish, *text("late", "9")]
    )
    assert response["output"][0]["content"][0]["text"] == "ab"
    assert response["usage"]["total_tokens"] == 7


def test_the_end_marker_of_a_stream_without_finish_is_a_normal_end() -> None:
    assert checks.answer(DIALECT, [*text("Hi"), "[DONE]"])["status"] == "completed"


def test_parts_without_an_equivalent_are_reported() -> None:
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
    deltas = checks.deltas(DIALECT, parts)
    assert [each.code for each in deltas if isinstance(each, DiagnosticDelta)] == [
        *("upstream_warning", "file_left_out", "file_left_out", "part_left_out", "part_left_out"),
        "part_left_out",
    ]
    assert [each.model for each in deltas if isinstance(each, UpstreamInfo)] == ["gpt"]


# Answers that are not streamed


def test_a_refused_request_is_classified() -> None:
    assert DIALECT.classify(429, {"retry-after": "2"}, b"{}").retry_after == 2


# Any input


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
