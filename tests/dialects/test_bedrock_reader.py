"""Reading Bedrock's Converse streams."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.bedrock import DIALECT
from penstock.dialects.bedrock.reader import FINISHES
from penstock.dialects.envelope import unseal
from penstock.dialects.plan import ReadDialect
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
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
from tests.dialects.exceptions_bedrock import EXCEPTIONS
from tests.dialects.recording_checks import assert_agrees, plan, read, response
from tests.dialects.recordings import files, needs_recordings, translate

FOLDER = "bedrock-converse"
FILES = files(FOLDER)

Chunk = dict[str, Any]

START: Chunk = {"messageStart": {"role": "assistant"}}


def block(index: int, *deltas: Chunk, start: Chunk | None = None, stop: bool = True) -> list[Chunk]:
    where = {"contentBlockIndex": index}
    begin: list[Chunk] = [] if start is None else [{"contentBlockStart": {**where, "start": start}}]
    middle: list[Chunk] = [{"contentBlockDelta": {**where, "delta": each}} for each in deltas]
    return [*begin, *middle, *([{"contentBlockStop": where}] if stop else [])]


def text(index: int, *pieces: str) -> list[Chunk]:
    return block(index, *({"text": piece} for piece in pieces))


def thinking(index: int, *pieces: str, signature: str = "", stop: bool = True) -> list[Chunk]:
    signed = [{"signature": signature}] if signature else []
    deltas = [{"reasoningContent": each} for each in [*({"text": piece} for piece in pieces), *signed]]
    return block(index, *deltas, stop=stop)


def call(index: int, *pieces: str, stop: bool = True) -> list[Chunk]:
    begin = {"toolUse": {"toolUseId": f"tooluse_{index}", "name": "get"}}
    return block(index, *({"toolUse": {"input": piece}} for piece in pieces), start=begin, stop=stop)


def server_tool(index: int, name: str, input: Any) -> list[Chunk]:
    begin = {"toolUse": {"toolUseId": f"srv_{index}", "name": name, "type": "server_tool_use"}}
    return block(index, {"toolUse": {"input": json.dumps(input)}}, start=begin)


def result(index: int, of: int, name: str, *content: Chunk, status: str = "success") -> list[Chunk]:
    begin = {"toolResult": {"toolUseId": f"srv_{of}", "type": f"{name}_result", "status": status}}
    return block(index, {"toolResult": list(content)}, start=begin)


def finish(reason: str | None = "end_turn", **metadata: Any) -> list[Chunk]:
    return [{"messageStop": {"stopReason": reason}}, {"metadata": metadata}]


def deltas_of(chunks: list[Any]) -> list[Delta]:
    return read(DIALECT, chunks)


def output(*chunks: list[Chunk], status: str = "completed") -> list[dict[str, Any]]:
    snapshot = response(DIALECT, [START, *(each for group in chunks for each in group)])
    assert snapshot["status"] == status
    items: list[dict[str, Any]] = snapshot["output"]
    return items


def payload(data: str) -> Any:
    envelope = unseal(data)
    assert envelope is not None
    assert envelope.dialect == "bedrock"
    return envelope.payload


# The recordings


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    assert_agrees(DIALECT, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_noise_changes_nothing(file: str) -> None:
    check_noise(DIALECT, file, [as_frame({"contentBlockSparkle": {"contentBlockIndex": 0}})])


def _said(chunk: Chunk) -> tuple[str, str]:
    delta = chunk.get("contentBlockDelta", {}).get("delta", {})
    return delta.get("text", ""), delta.get("reasoningContent", {}).get("text", "")


@needs_recordings
@pytest.mark.parametrize("file", smallest(FOLDER, 60))
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    check_cuts(DIALECT, file, chunk_borders(file), _said)
    check_cuts(DIALECT, file, byte_cuts(file), _said)


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


def test_a_signature_is_kept_byte_for_byte_with_its_reasoning() -> None:
    reasoning, _ = output(thinking(0, "let ", "me", signature="sig/+=="), text(1, "A"), finish())
    assert reasoning["content"][0]["text"] == "let me"
    assert payload(reasoning["encrypted_content"]) == {
        "reasoningText": {"text": "let me", "signature": "sig/+=="}
    }


def test_a_signature_without_reasoning_is_an_item() -> None:
    (item,) = output(thinking(0, signature="s"), finish())
    assert payload(item["encrypted_content"]) == {"reasoningText": {"text": "", "signature": "s"}}


def test_redacted_reasoning_is_an_item_of_its_own() -> None:
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
def test_a_call(chunks: list[Chunk], arguments: str) -> None:
    (item,) = output(chunks, finish("tool_use"))
    assert (item["call_id"], item["name"], item["arguments"]) == ("tooluse_0", "get", arguments)


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        (call(0, '{"a":'), "incomplete"),
        (call(0), "incomplete"),  # cut off before its arguments, for all that is known
        (call(0, '{"a":1}'), "completed"),
        ([*call(0), *text(1, "A")], "completed"),
    ],
)
def test_a_call_at_the_token_limit(chunks: list[Chunk], status: str) -> None:
    assert output(chunks, finish("max_tokens"), status="incomplete")[0]["status"] == status


def test_a_delta_without_an_index_is_for_the_latest_block() -> None:
    chunks = [START, *call(3, '{"a":', "1}"), *finish("tool_use")]
    for chunk in chunks[2:-2]:
        next(iter(chunk.values())).pop("contentBlockIndex")
    (item,) = response(DIALECT, chunks)["output"]
    assert item["arguments"] == '{"a":1}'


def test_a_citation_spans_the_text_of_its_block() -> None:
    web = {"title": "E", "location": {"web": {"url": "https://e.org"}}}
    page = {"title": "facts", "location": {"documentChar": {"start": 0, "end": 3}}}
    cited = block(1, {"citation": web}, {"text": "cited"}, {"citation": page}, {"citation": "no"})
    (message,) = output(text(0, "Not "), cited, text(2, ", not."), finish())
    one, two = message["content"][0]["annotations"]
    assert (one["type"], one["url"], one["title"]) == ("url_citation", "https://e.org", "E")
    assert message["content"][0]["text"][one["start_index"] : one["end_index"]] == "cited"
    assert two == {"type": "document_citation", **page}


# Server tools

RAN = {"json": {"stdOut": "1\n", "stdErr": "", "exitCode": 0}}
FOUND = {"json": {"results": [{"url": "https://e.org"}]}}

SERVER_TOOLS: list[tuple[str, Any, Chunk, dict[str, Any]]] = [
    (
        *("nova_code_interpreter", {"snippet": "1"}, RAN),
        {"type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs", "logs": "1\n"}]},
    ),
    (
        *("nova_code_interpreter", {"snippet": "1"}, {"json": {"isError": True}}),
        {"outputs": [{"type": "logs", "logs": '{"isError":true}'}]},
    ),
    (
        *("nova_grounding", {"query": "q"}, FOUND),
        {
            "type": "web_search_call",
            "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://e.org"}]},
        },
    ),
    (*("nova_grounding", "no object", {"text": "x"}), {"action": {"type": "search", "query": ""}}),
]


@pytest.mark.parametrize(("name", "input", "content", "expected"), SERVER_TOOLS)
def test_a_server_tool_is_an_item_and_no_call(
    name: str, input: Any, content: Chunk, expected: dict[str, Any]
) -> None:
    chunks = [START, *server_tool(0, name, input), *result(1, 0, name, content), *text(2, "A"), *finish()]
    tool, message = response(DIALECT, chunks)["output"]
    assert tool == {**tool, "status": "completed", **expected}
    assert message["type"] == "message"
    assert not any(isinstance(delta, ToolCallDelta) for delta in deltas_of(chunks))


def test_a_server_tool_may_fail_or_have_been_used_before() -> None:
    (item,) = output(result(0, 9, "nova_code_interpreter", {"text": "no"}, status="error"), finish())
    assert (item["status"], item["outputs"]) == ("failed", [{"type": "logs", "logs": "no"}])


def test_a_server_tool_without_a_result_keeps_its_input() -> None:
    use = server_tool(0, "nova_grounding", {"query": "q"})
    (item,) = output(use, use, finish("max_tokens"), status="incomplete")
    assert (item["status"], item["action"]["query"]) == ("incomplete", "q")


def test_a_server_tool_that_is_told_twice_is_told_once() -> None:
    use, gave = server_tool(0, "nova_grounding", {"query": "q"}), result(1, 0, "nova_grounding", FOUND)
    told = deltas_of([START, *use, *use, *gave, *gave, *finish()])
    assert [delta.done for delta in told if isinstance(delta, ItemDelta)] == [False, True]


def test_a_server_tool_without_an_item_type_is_told() -> None:
    use, gave = server_tool(1, "nova_dream", {}), result(2, 1, "nova_dream", {"text": "x"})
    snapshot = response(DIALECT, [START, *text(0, "A"), *use, *gave, *text(3, "B"), *finish()])
    assert [item["content"][0]["text"] for item in snapshot["output"]] == ["AB"]
    assert [each["code"] for each in snapshot["diagnostics"]] == ["server_tool_left_out"]


# Usage and the rest

USAGES: list[tuple[dict[str, Any], tuple[int, int, int, int]]] = [
    ({"inputTokens": 8, "outputTokens": 10, "totalTokens": 18}, (8, 10, 0, 0)),
    (
        {
            "inputTokens": 3,
            "outputTokens": 206,
            "totalTokens": 127_209,
            "cacheReadInputTokens": 125_000,
            "cacheWriteInputTokens": 2000,
        },
        (127_003, 206, 125_000, 2000),
    ),
    ({"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cacheReadInputTokens": 4}, (10, 5, 4, 0)),
    ({"inputTokens": 5, "outputTokens": 10, "cacheReadInputTokenCount": 2}, (7, 10, 2, 0)),
]


@pytest.mark.parametrize(("told", "expected"), USAGES)
def test_usage_comes_after_the_end_and_is_inclusive(
    told: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    usage = response(DIALECT, [START, *finish(usage=told)])["usage"]
    details = usage["input_tokens_details"]
    counts = usage["input_tokens"], usage["output_tokens"], details["cached_tokens"]
    assert (*counts, details["cache_write_tokens"]) == expected


def test_the_metrics_of_an_invocation_count_too() -> None:
    metrics = {"inputTokenCount": 5, "outputTokenCount": 10}
    chunk = {"metadata": {}, "amazon-bedrock-invocationMetrics": metrics, "p": "abc"}
    usage = response(DIALECT, [START, *finish()[:1], chunk])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 10)
    assert response(DIALECT, [START, *finish()])["usage"] is None


def test_a_trace_says_which_model_answered_and_what_a_guardrail_did() -> None:
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
def test_what_is_left_out_is_told(chunk: Chunk, code: str) -> None:
    snapshot = response(DIALECT, [START, chunk, *finish()])
    assert [each["code"] for each in snapshot["diagnostics"]] == [code]


# How it ends


@pytest.mark.parametrize(("told", "reason"), FINISHES.items())
def test_every_stop_reason_has_a_meaning(told: str, reason: FinishReason) -> None:
    assert FinishDelta(reason) in deltas_of([START, *finish(told)])


ENDS: dict[str, tuple[list[Any], str, str]] = {
    "a stop reason and no metadata": ([START, *text(0, "A"), *finish()[:1]], "completed", ""),
    "a messageStop without a reason": ([START, *text(0, "A"), *finish(None)], "completed", ""),
    "[DONE] and no stop reason": ([START, *text(0, "A"), "[DONE]"], "completed", ""),
    "an unknown stop reason": ([START, *text(0, "A"), *finish("bored")], "completed", ""),
    "max_tokens": ([START, *text(0, "A"), *finish("max_tokens")], "incomplete", "max_output_tokens"),
    "a guardrail": ([START, *text(0, "A"), *finish("guardrail_intervened")], "incomplete", "content_filter"),
    "output of no use": ([START, *finish("malformed_tool_use")], "failed", "server_error"),
    "nothing": ([], "failed", "upstream_empty"),
    "[DONE] alone": (["[DONE]"], "failed", "upstream_empty"),
    "a cut": ([START, *text(0, "A")], "failed", "upstream_truncated"),
    "something that is no JSON": ([START, "<html>"], "failed", "upstream_invalid"),
    "throttling": ([START, {"throttlingException": {"message": "x"}}], "failed", "rate_limit_exceeded"),
    "an overflow": (
        [{"validationException": {"message": "Input is too long for requested model."}}],
        *("failed", "context_length_exceeded"),
    ),
    "the service": ([START, {"internalServerException": {"message": "x"}}], "failed", "server_error"),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_end(case: str) -> None:
    chunks, status, why = ENDS[case]
    snapshot = response(DIALECT, chunks)
    assert snapshot["status"] == status
    error, details = snapshot["error"] or {}, snapshot["incomplete_details"] or {}
    assert (error.get("code") or details.get("reason") or "") == why


def test_an_unknown_stop_reason_is_named() -> None:
    told = deltas_of([START, *finish("bored")])
    assert any(isinstance(delta, DiagnosticDelta) and "'bored'" in delta.message for delta in told)


def test_usage_is_kept_when_the_output_is_of_no_use() -> None:
    chunks = [START, *finish("malformed_model_output", usage={"inputTokens": 1, "outputTokens": 2})]
    assert response(DIALECT, chunks)["usage"]["total_tokens"] == 3


# Other wrappings


def test_an_event_may_be_named_by_its_frame_alone() -> None:
    stream = DIALECT.reader(plan("bedrock"))
    frame = Frame("contentBlockDelta", '{"contentBlockIndex":0,"delta":{"text":"A"}}')
    assert stream.feed(frame) == [TextDelta("A", 0)]


def test_an_answer_that_is_not_streamed() -> None:
    signed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    cited = {"citationsContent": {"content": [{"text": "B"}], "citations": [{"title": "E"}]}}
    tool = {"toolUse": {"toolUseId": "tooluse_3", "name": "get", "input": {"a": 1}}}
    ran = {"toolUse": {"toolUseId": "srv", "name": "nova_code_interpreter", "type": "server_tool_use"}}
    ran["toolUse"]["input"] = cast(Any, {"snippet": "1"})
    gave = {"toolResult": {"toolUseId": "srv", "status": "success", "content": [RAN]}}
    body = {
        "output": {
            "message": {"role": "assistant", "content": [signed, {"text": "A"}, cited, tool, ran, gave]}
        },
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 2},
    }
    stream = _Whole(json.dumps(body).encode())
    snapshot = response(cast(ReadDialect, stream), ["{}"])
    thought, message, function, code = snapshot["output"]
    assert thought["content"][0]["text"] == "hm"
    assert payload(thought["encrypted_content"]) == {"reasoningText": {"text": "hm", "signature": "s"}}
    assert message["content"][0]["text"] == "AB"
    assert message["content"][0]["annotations"][0]["title"] == "E"
    assert function["arguments"] == '{"a":1}'
    assert (code["code"], code["outputs"]) == ("1", [{"type": "logs", "logs": "1\n"}])
    assert (snapshot["status"], snapshot["usage"]["total_tokens"]) == ("completed", 3)


class _Whole:
    """A dialect whose stream is a body."""

    name = "bedrock"
    is_over = False

    def __init__(self, body: bytes) -> None:
        self._body = body

    def reader(self, _plan: Any) -> _Whole:
        return self

    def feed(self, _frame: Frame) -> list[Delta]:
        return DIALECT.read_body(plan("bedrock"), self._body)

    def end(self) -> list[Delta]:
        return []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"message":"Too many requests"}', "rate_limit_exceeded"),
        (b"{}", "server_error"),
        (b"\xff", "upstream_invalid"),
    ],
)
def test_a_body_that_is_no_answer(body: bytes, code: str) -> None:
    (delta,) = DIALECT.read_body(plan("bedrock"), body)
    assert isinstance(delta, ErrorDelta)
    assert delta.code == code


def test_a_failure_is_classified() -> None:
    headers = {"x-amzn-ErrorType": "ThrottlingException:http://x/"}
    assert DIALECT.classify(429, headers, b'{"message":"slow"}').code == "rate_limit_exceeded"


# Anything at all

WORDS = st.sampled_from(["", "a", "b", '{"a":', "1}", "{}"])
COUNTS = st.integers(-1, 99)
INDEX = {"contentBlockIndex": st.integers(0, 3)}
IDS = st.sampled_from(["", "t1", "t2"])
CONTENT = st.lists(objects({"text": WORDS, "json": objects({"stdOut": WORDS, "url": WORDS})}), max_size=2)
TOOL = objects(
    {
        "toolUseId": IDS,
        "name": st.sampled_from(["get", "nova_grounding", "nova_code_interpreter", "nova_dream"]),
        "type": st.sampled_from(["server_tool_use", "nova_code_interpreter_result", "x_result"]),
        "status": st.sampled_from(["success", "error"]),
        "input": WORDS | st.just({"a": 1}),
        "content": CONTENT,
    }
)
BLOCK = objects(
    {
        "text": WORDS,
        "toolUse": TOOL,
        "toolResult": CONTENT | TOOL,
        "reasoningContent": objects(
            {"text": WORDS, "signature": WORDS, "redactedContent": WORDS, "reasoningText": json_values}
        ),
        "citation": objects({"title": WORDS, "location": objects({"web": objects({"url": WORDS})})}),
        "citationsContent": objects({"content": CONTENT, "citations": CONTENT}),
    }
)
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
def test_whatever_comes_the_end_is_lawful(events: list[Any]) -> None:
    translate(DIALECT, plan("bedrock"), [as_frame(event) for event in events])


@settings(max_examples=40, deadline=None)
@given(json_values | BLOCK, st.text(max_size=20))
def test_whatever_the_body_is_it_is_read(body: Any, rest: str) -> None:
    whole = {"output": {"message": {"content": [body]}}, "stopReason": rest}
    for value in (body, whole):
        DIALECT.read_body(plan("bedrock"), json.dumps(value).encode())
