"""Answers of the AI SDK that were not streamed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.ai_sdk import DIALECT
from penstock.stream.deltas import ErrorDelta
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.ai_sdk.stream_parts import SIGNED, TOOLS, URL, call


def test_a_body_is_read_like_its_stream() -> None:
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
def test_a_body_that_is_not_an_answer_is_an_error(body: bytes, code: str) -> None:
    [error] = DIALECT.read_body(checks.plan("ai_sdk"), body)
    assert isinstance(error, ErrorDelta)
    assert error.code == code


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80) | checks.values.map(lambda value: json.dumps(value).encode()))
def test_any_body_gives_deltas(body: bytes) -> None:
    assert DIALECT.read_body(checks.plan("ai_sdk"), body)
