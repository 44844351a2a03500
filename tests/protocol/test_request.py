"""Requests as clients send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import DecodeError
from penstock.protocol.content import (
    UnknownAnnotation,
    UnknownPart,
)
from penstock.protocol.items import (
    UnknownItem,
)
from penstock.protocol.request import (
    CreateResponse,
    JsonSchemaFormat,
    ReasoningConfig,
    TextConfig,
    UnknownFormat,
    WebSocketCreate,
)
from penstock.protocol.tools import (
    ToolReference,
    UnknownTool,
)
from penstock.protocol.wire import decode, encode, read
from tests.protocol.reading import back, request


def test_the_input_may_be_a_string() -> None:
    assert request(input="Hi").input == "Hi"


def test_a_format_with_a_schema_and_no_type_is_a_json_schema() -> None:
    config = read({"format": {"schema": {"type": "object"}}}, TextConfig)
    assert config.format == JsonSchemaFormat(schema={"type": "object"})


def test_fields_of_codex_outside_the_specification_are_read() -> None:
    """Client 1."""
    body = {
        "client_metadata": {"thread": "1"},
        "prompt_cache_key": "thread",
        "reasoning": {"effort": "low", "context": "all_turns"},
        "include": ["reasoning.encrypted_content"],
        "service_tier": "priority",
    }
    sent_request = request(**body)
    assert sent_request.client_metadata == {"thread": "1"}
    assert isinstance(sent_request.reasoning, ReasoningConfig)
    assert sent_request.reasoning.extra == {"context": "all_turns"}
    assert back(sent_request) == body


def test_a_prewarm_frame_of_codex_is_read() -> None:
    frame = read({"type": "response.create", "model": "demo", "generate": False}, WebSocketCreate)
    assert frame.generate is False
    assert frame.model == "demo"


def test_a_count_may_be_an_integral_float_but_not_a_fraction() -> None:
    assert request(max_output_tokens=64.0) == request(max_output_tokens=64)
    with pytest.raises(DecodeError, match="max_output_tokens: expected an integer, got a number"):
        request(max_output_tokens=64.5)


def test_a_number_is_written_as_it_was_read() -> None:
    assert encode(request(temperature=1)) == b'{"temperature":1}'
    assert encode(request(temperature=1.0)) == b'{"temperature":1.0}'


# Unknown things survive
UNKNOWN: dict[str, tuple[dict[str, Any], Callable[[Any], Any], Any]] = {
    "field of a request": (
        {"acme": {"a": [None]}},
        lambda sent_request: sent_request.extra,
        {"acme": {"a": [None]}},
    ),
    "item": (
        {"input": [{"type": "acme:thing", "id": None, "status": "odd", "data": [1.0]}]},
        lambda sent_request: sent_request.input[0],
        UnknownItem(type="acme:thing", status="odd", extra={"id": None, "data": [1.0]}),
    ),
    "part": (
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_audio", "data": None}]}]},
        lambda sent_request: sent_request.input[0].content[0],
        UnknownPart(type="input_audio", extra={"data": None}),
    ),
    "annotation": (
        {
            "input": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [
                        {
                            "type": "output_text",
                            "text": "",
                            "annotations": [{"type": "file_path", "file_id": "file_1"}],
                            "logprobs": [],
                        }
                    ],
                }
            ]
        },
        lambda sent_request: sent_request.input[0].content[0].annotations[0],
        UnknownAnnotation(type="file_path", extra={"file_id": "file_1"}),
    ),
    "tool": (
        {"tools": [{"type": "mcp", "server_label": "demo", "headers": None}]},
        lambda sent_request: sent_request.tools[0],
        UnknownTool(type="mcp", extra={"server_label": "demo", "headers": None}),
    ),
    "tool choice": (
        {"tool_choice": {"type": "mcp", "server_label": "demo"}},
        lambda sent_request: sent_request.tool_choice,
        ToolReference(type="mcp", extra={"server_label": "demo"}),
    ),
    "format": (
        {"text": {"format": {"type": "grammar", "syntax": "lark"}}},
        lambda sent_request: sent_request.text.format,
        UnknownFormat(type="grammar", extra={"syntax": "lark"}),
    ),
}


@pytest.mark.parametrize("body", UNKNOWN, ids=str)
def test_an_unknown_thing_in_a_request_survives_unchanged(body: str) -> None:
    sent, find, expected = UNKNOWN[body]
    sent_request = request(**sent)
    assert find(sent_request) == expected
    assert back(sent_request) == sent


# Where an error is
WHERE: list[tuple[dict[str, Any], str, str]] = [
    ({"model": 5}, "model", "expected a string, got an integer"),
    ({"stream": "yes"}, "stream", "expected a boolean, got a string"),
    ({"input": 5}, "input", "expected a string or an array, got an integer"),
    ({"input": {}}, "input", "expected a string or an array, got an object"),
    ({"input": ["Hi"]}, "input[0]", "expected an object, got a string"),
    ({"input": [{"id": "a"}, {"type": "function_call", "name": "add"}]}, "input[1].call_id", "is required"),
    ({"input": [{"type": "message"}]}, "input[0].role", "is required"),
    ({"input": [{"type": []}]}, "input[0].type", "expected a string, got an array"),
    ({"input": [{"type": {}, "role": "user"}]}, "input[0].type", "expected a string, got an object"),
    ({"input": [{"type": 5}]}, "input[0].type", "expected a string, got an integer"),
    (
        {
            "input": [
                {"id": "a"},
                {"id": "b"},
                {"role": "user", "content": [{"type": "input_text", "text": 5}]},
            ]
        },
        "input[2].content[0].text",
        "expected a string, got an integer",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
        "input[0].content[0].text",
        "is required",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": None}]}]},
        "input[0].content[0].text",
        "is required",
    ),
    ({"tools": [{"type": "function"}]}, "tools[0].name", "is required"),
    (
        {"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "custom"}]}]},
        "tools[0].tools[0].name",
        "is required",
    ),
    ({"text": {"format": {"type": "json_schema", "schema": []}}}, "text.format.schema", "got an array"),
    ({"tool_choice": True}, "tool_choice", "expected a string or an object, got a boolean"),
    ({"tool_choice": {"type": "allowed_tools", "tools": [1]}}, "tool_choice.tools[0]", "expected an object"),
    ({"temperature": "hot"}, "temperature", "expected a number, got a string"),
    ({"top_logprobs": 0.5}, "top_logprobs", "expected an integer, got a number"),
    ({"include": [None]}, "include[0]", "expected a string, got null"),
    ({"metadata": []}, "metadata", "expected an object, got an array"),
    ({"conversation": {}}, "conversation.id", "is required"),
]


@pytest.mark.parametrize(("body", "param", "message"), WHERE, ids=[param for _, param, _ in WHERE])
def test_a_decode_error_has_the_path_of_the_value(body: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(json.dumps(body), CreateResponse)
    assert caught.value.param == param
    assert message in caught.value.message
    assert str(caught.value) == f"{param}: {caught.value.message}"


@pytest.mark.parametrize("data", ["[]", "5", "null", '"x"', "true"])
def test_a_body_that_is_not_an_object_is_an_error_without_a_path(data: str) -> None:
    with pytest.raises(DecodeError, match="expected an object") as caught:
        decode(data, CreateResponse)
    assert caught.value.param == ""


def test_huge_numbers_and_names_pass() -> None:
    body = {"metadata": {"n": 10**400, "x" * 10_000: -(2**65)}, "y" * 10_000: 10**400}
    assert back(decode(json.dumps(body), CreateResponse)) == body
