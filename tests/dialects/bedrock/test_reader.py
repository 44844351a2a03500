"""Reading Bedrock's streams."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.bedrock import DIALECT
from penstock.dialects.bedrock.reader import FINISHES
from penstock.sse import Frame
from penstock.stream.deltas import (
    DiagnosticDelta,
    FinishDelta,
    FinishReason,
    TextDelta,
    UpstreamInfo,
)
from tests.dialects.bedrock.recording_exceptions import EXCEPTIONS
from tests.dialects.bedrock.streams import (
    BLOCK,
    START,
    TOOL,
    Chunk,
    block,
    deltas_of,
    finish,
    output,
    payload,
    text,
)
from tests.dialects.block_stream_checks import (
    as_frame,
    byte_cuts,
    check_cuts,
    check_noise,
    chunk_borders,
    json_values,
    objects,
    smallest,
)
from tests.dialects.recording_checks import assert_agrees, plan, response
from tests.dialects.recordings import files, needs_recordings, translate

FOLDER = "bedrock-converse"


FILES = files(FOLDER)


def thinking(index: int, *pieces: str, signature: str = "", stop: bool = True) -> list[Chunk]:
    signed = [{"signature": signature}] if signature else []
    deltas = [{"reasoningContent": each} for each in [*({"text": piece} for piece in pieces), *signed]]
    return block(index, *deltas, stop=stop)


def call(index: int, *pieces: str, stop: bool = True) -> list[Chunk]:
    begin = {"toolUse": {"toolUseId": f"tooluse_{index}", "name": "get"}}
    return block(index, *({"toolUse": {"input": piece}} for piece in pieces), start=begin, stop=stop)


# The recordings


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_noise_changes_nothing(file: str) -> None:
    check_noise(DIALECT, file, [as_frame({"contentBlockSparkle": {"contentBlockIndex": 0}})])


def _texts_of(chunk: Chunk) -> tuple[str, str]:
    delta = chunk.get("contentBlockDelta", {}).get("delta", {})
    return delta.get("text", ""), delta.get("reasoningContent", {}).get("text", "")


@needs_recordings
@pytest.mark.parametrize("file", smallest(FOLDER, 20))
def test_output_before_a_cut_is_not_lost(file: str) -> None:
    check_cuts(DIALECT, file, chunk_borders(file), _texts_of)
    check_cuts(DIALECT, file, byte_cuts(file), _texts_of)


# Blocks


def test_a_block_for_every_token_is_still_one_message() -> None:
    (message,) = output(text(0, "A"), text(1, "B"), text(2, "C"), finish())
    assert message["content"][0]["text"] == "ABC"


def test_text_after_another_item_is_a_new_message() -> None:
    items = output(text(0, "A"), call(1, "{}"), text(2, "B"), finish("tool_use"))
    assert [item["type"] for item in items] == ["message", "function_call", "message"]


def test_blocks_may_interleave() -> None:
    texts = block(0, {"text": "A"}, {"text": "B"})
    items = output(texts[:1], call(1, "{}"), texts[1:], finish("tool_use"))
    assert [item["type"] for item in items] == ["message", "function_call"]
    assert items[0]["content"][0]["text"] == "AB"


def test_a_signature_is_sealed_unchanged_with_its_reasoning() -> None:
    reasoning, _ = output(thinking(0, "let ", "me", signature="sig/+=="), text(1, "A"), finish())
    assert reasoning["content"][0]["text"] == "let me"
    assert payload(reasoning["encrypted_content"]) == {
        "reasoningText": {"text": "let me", "signature": "sig/+=="}
    }


def test_a_signature_without_reasoning_is_an_item() -> None:
    (item,) = output(thinking(0, signature="s"), finish())
    assert payload(item["encrypted_content"]) == {"reasoningText": {"text": "", "signature": "s"}}


def test_redacted_reasoning_is_a_separate_item() -> None:
    hidden = [
        block(index, {"reasoningContent": {"redactedContent": data}}) for index, data in enumerate("ab")
    ]
    items = output(*hidden, text(2, "A"), finish())
    payloads = [payload(item["encrypted_content"]) for item in items[:2]]
    assert payloads == [{"redactedContent": "a"}, {"redactedContent": "b"}]


def test_reasoning_that_was_cut_short_is_incomplete() -> None:
    (item,) = output(thinking(0, "so lo"), finish("max_tokens"), status="incomplete")
    assert item["status"] == "incomplete"


@pytest.mark.parametrize(
    ("chunks", "arguments"),
    [(call(0, "", '{"a":', "1}"), '{"a":1}'), (call(0), "{}"), (call(0, ""), "{}")],
)
def test_the_arguments_of_a_call(chunks: list[Chunk], arguments: str) -> None:
    (item,) = output(chunks, finish("tool_use"))
    assert (item["call_id"], item["name"], item["arguments"]) == ("tooluse_0", "get", arguments)


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        (call(0, '{"a":'), "incomplete"),
        (call(0), "incomplete"),  # may have been cut off before its arguments
        (call(0, '{"a":1}'), "completed"),
        ([*call(0), *text(1, "A")], "completed"),
    ],
)
def test_a_call_at_the_token_limit(chunks: list[Chunk], status: str) -> None:
    assert output(chunks, finish("max_tokens"), status="incomplete")[0]["status"] == status


def test_a_delta_without_an_index_belongs_to_the_latest_block() -> None:
    chunks = [START, *call(3, '{"a":', "1}"), *finish("tool_use")]
    for chunk in chunks[2:-2]:
        next(iter(chunk.values())).pop("contentBlockIndex")
    (item,) = response(DIALECT, chunks)["output"]
    assert item["arguments"] == '{"a":1}'


def test_a_citation_spans_the_text_of_its_block() -> None:
    web = {"title": "E", "location": {"web": {"url": "https://e.org"}}}
    page = {"title": "facts", "location": {"documentChar": {"start": 0, "end": 3}}}
    cited = block(1, {"citation": web}, {"text": "cited"}, {"citation": page}, {"citation": "no"})
    snapshot = response(DIALECT, [START, *text(0, "Not "), *cited, *text(2, ", not."), *finish()])
    (message,) = snapshot["output"]
    (one,) = message["content"][0]["annotations"]
    assert (one["type"], one["url"], one["title"]) == ("url_citation", "https://e.org", "E")
    assert message["content"][0]["text"][one["start_index"] : one["end_index"]] == "cited"
    # A place in a document has no URL, and no client has a form for it.
    assert [(each["code"], each["count"]) for each in snapshot["diagnostics"]] == [("citation_left_out", 1)]


def test_a_trace_reports_the_model_and_the_guardrail() -> None:
    trace = {"promptRouter": {"invokedModelId": "nova"}, "guardrail": {"actionReason": "masked"}}
    deltas = deltas_of([START, *finish(trace=trace)])
    assert UpstreamInfo(model="nova") in deltas
    assert any(isinstance(delta, DiagnosticDelta) and "masked" in delta.message for delta in deltas)


@pytest.mark.parametrize(
    ("chunk", "code"),
    [
        ({"news": {}}, "unknown_event"),
        (block(0, start={"image": {}})[0], "unknown_block"),
        (block(0, {"smell": "x"})[0], "unknown_delta"),
    ],
)
def test_unknown_content_is_reported(chunk: Chunk, code: str) -> None:
    snapshot = response(DIALECT, [START, chunk, *finish()])
    assert [each["code"] for each in snapshot["diagnostics"]] == [code]


# How it ends


@pytest.mark.parametrize(("stop_reason", "reason"), FINISHES.items())
def test_every_stop_reason_has_a_finish_reason(stop_reason: str, reason: FinishReason) -> None:
    assert FinishDelta(reason) in deltas_of([START, *finish(stop_reason)])


ENDS: dict[str, tuple[list[Any], str, str]] = {
    "a stop reason but no metadata": ([START, *text(0, "A"), *finish()[:1]], "completed", ""),
    "a messageStop without a reason": ([START, *text(0, "A"), *finish(None)], "completed", ""),
    "[DONE] but no stop reason": ([START, *text(0, "A"), "[DONE]"], "completed", ""),
    "an unknown stop reason": ([START, *text(0, "A"), *finish("bored")], "completed", ""),
    "max_tokens": ([START, *text(0, "A"), *finish("max_tokens")], "incomplete", "max_output_tokens"),
    "a guardrail": ([START, *text(0, "A"), *finish("guardrail_intervened")], "incomplete", "content_filter"),
    "unusable output": ([START, *finish("malformed_tool_use")], "failed", "server_error"),
    "nothing": ([], "failed", "upstream_empty"),
    "only [DONE]": (["[DONE]"], "failed", "upstream_empty"),
    "a cut": ([START, *text(0, "A")], "failed", "upstream_truncated"),
    "invalid JSON": ([START, "<html>"], "failed", "upstream_invalid"),
    "throttling": ([START, {"throttlingException": {"message": "x"}}], "failed", "rate_limit_exceeded"),
    "an overflow": (
        [{"validationException": {"message": "Input is too long for requested model."}}],
        *("failed", "context_length_exceeded"),
    ),
    "the service": ([START, {"internalServerException": {"message": "x"}}], "failed", "server_error"),
}


@pytest.mark.parametrize("case", ENDS)
def test_how_a_stream_ends(case: str) -> None:
    chunks, status, code = ENDS[case]
    snapshot = response(DIALECT, chunks)
    assert snapshot["status"] == status
    error, details = snapshot["error"] or {}, snapshot["incomplete_details"] or {}
    assert (error.get("code") or details.get("reason") or "") == code


def test_an_unknown_stop_reason_is_reported_by_name() -> None:
    deltas = deltas_of([START, *finish("bored")])
    assert any(isinstance(delta, DiagnosticDelta) and "'bored'" in delta.message for delta in deltas)


def test_usage_is_kept_if_the_output_is_unusable() -> None:
    chunks = [START, *finish("malformed_model_output", usage={"inputTokens": 1, "outputTokens": 2})]
    assert response(DIALECT, chunks)["usage"]["total_tokens"] == 3


# Other framings


def test_an_event_may_be_named_only_by_its_frame() -> None:
    stream = DIALECT.reader(plan("bedrock"))
    frame = Frame("contentBlockDelta", '{"contentBlockIndex":0,"delta":{"text":"A"}}')
    assert stream.feed(frame) == [TextDelta("A", 0)]


def test_a_failure_is_classified() -> None:
    headers = {"x-amzn-ErrorType": "ThrottlingException:http://x/"}
    assert DIALECT.classify(429, headers, b'{"message":"slow"}').code == "rate_limit_exceeded"


COUNTS = st.integers(-1, 99)


INDEX = {"contentBlockIndex": st.integers(0, 3)}


USAGE = objects(
    {"inputTokens": COUNTS, "outputTokens": COUNTS, "totalTokens": COUNTS, "cacheReadInputTokens": COUNTS}
)


EVENTS = objects(
    {
        "messageStart": st.just({}),
        "contentBlockStart": objects({**INDEX, "start": objects({"toolUse": TOOL, "toolResult": TOOL})}),
        "contentBlockDelta": objects({**INDEX, "delta": BLOCK}),
        "contentBlockStop": objects(INDEX),
    }
)


LAST = objects(
    {
        "messageStop": objects({"stopReason": st.sampled_from([*FINISHES, "bored", "malformed_tool_use"])}),
        "metadata": objects({"usage": USAGE, "trace": json_values}),
        "contentBlockDelta": objects({**INDEX, "delta": BLOCK}),
    }
)


@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS | EVENTS | EVENTS | LAST | json_values, max_size=10))
def test_any_events_give_a_lawful_stream(events: list[Any]) -> None:
    translate(DIALECT, plan("bedrock"), [as_frame(event) for event in events])
