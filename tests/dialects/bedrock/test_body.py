"""Bedrock's answers that are not streamed."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.bedrock import DIALECT
from penstock.dialects.plan import ReadDialect
from penstock.sse import Frame
from penstock.stream.deltas import (
    BlockEnd,
    BlockKind,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from tests.dialects.bedrock.streams import BLOCK, RAN, payload
from tests.dialects.block_stream_checks import (
    json_values,
)
from tests.dialects.recording_checks import plan, response


def test_an_answer_that_is_not_streamed() -> None:
    signed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    web = {"title": "E", "location": {"web": {"url": "https://e.org"}}}
    cited = {"citationsContent": {"content": [{"text": "B"}], "citations": [web]}}
    tool = {"toolUse": {"toolUseId": "tooluse_3", "name": "get", "input": {"a": 1}}}
    ran = {"toolUse": {"toolUseId": "srv", "name": "nova_code_interpreter", "type": "server_tool_use"}}
    ran["toolUse"]["input"] = cast(Any, {"snippet": "1"})
    tool_result = {"toolResult": {"toolUseId": "srv", "status": "success", "content": [RAN]}}
    body = {
        "output": {
            "message": {
                "role": "assistant",
                "content": [signed, {"text": "A"}, cited, tool, ran, tool_result],
            }
        },
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 2},
    }
    stream = _BodyDialect(json.dumps(body).encode())
    snapshot = response(cast(ReadDialect, stream), ["{}"])
    thought, message, function, code = snapshot["output"]
    assert thought["content"][0]["text"] == "hm"
    assert payload(thought["encrypted_content"]) == {"reasoningText": {"text": "hm", "signature": "s"}}
    assert message["content"][0]["text"] == "AB"
    assert message["content"][0]["annotations"][0]["title"] == "E"
    assert function["arguments"] == '{"a":1}'
    assert (code["code"], code["outputs"]) == ("1", [{"type": "logs", "logs": "1\n"}])
    assert (snapshot["status"], snapshot["usage"]["total_tokens"]) == ("completed", 3)


class _BodyDialect:
    """A dialect that reads a body instead of a stream."""

    name = "bedrock"
    is_over = False

    def __init__(self, body: bytes) -> None:
        self._body = body

    def reader(self, _plan: Any) -> _BodyDialect:
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
def test_an_invalid_body_is_an_error(body: bytes, code: str) -> None:
    (delta,) = DIALECT.read_body(plan("bedrock"), body)
    assert isinstance(delta, ErrorDelta)
    assert delta.code == code


@settings(max_examples=40, deadline=None)
@given(json_values | BLOCK, st.text(max_size=20))
def test_any_body_is_read_without_an_error(body: Any, rest: str) -> None:
    whole = {"output": {"message": {"content": [body]}}, "stopReason": rest}
    for value in (body, whole):
        DIALECT.read_body(plan("bedrock"), json.dumps(value).encode())


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"text": "A"}, [TextDelta("A", 0)]),
        (
            {"toolUse": {"toolUseId": "t", "name": "get", "input": {}}},
            [ToolCallDelta(0, "t", "get"), ToolCallDelta(0, whole=True)],
        ),
        (
            {"reasoningContent": {"reasoningText": {"text": "hm"}}},
            [ReasoningDelta("hm", 0), BlockEnd(0, BlockKind.REASONING)],
        ),
        ({"image": {}}, [DiagnosticDelta("unknown_delta", "a delta with 'image' was left out")]),
    ],
)
def test_a_block_is_read_as_its_stream_events(block: dict[str, Any], expected: list[Delta]) -> None:
    body = {"output": {"message": {"content": [block]}}, "stopReason": "end_turn"}
    deltas = DIALECT.read_body(plan("bedrock"), json.dumps(body).encode())
    assert deltas[-1] == FinishDelta(FinishReason.STOP)
    assert [delta for delta in deltas[:-1] if delta != BlockEnd(0, BlockKind.TEXT)] == expected
