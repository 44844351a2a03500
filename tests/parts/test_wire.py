"""Parts and messages as JSON, for the command line and the editor host."""

from __future__ import annotations

import argparse
import json
import re
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import parts as command
from penstock.errors import DecodeError, NetworkError, OpenResponsesError, RateLimitError
from penstock.parts.parts import (
    Audience,
    ChatMessage,
    DataPart,
    MessagePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.parts.result import StreamResult
from penstock.parts.wire import (
    decode_message,
    encode_line,
    error_to_json,
    message_from_json,
    message_to_json,
    part_from_json,
    part_to_json,
    result_to_json,
)
from penstock.protocol.content import UrlCitation
from penstock.protocol.errors import Diagnostic
from penstock.protocol.response import Usage

JSON = dict[str, Any]

SHAPES: dict[str, tuple[MessagePart, JSON]] = {
    "text": (TextPart("Hi"), {"type": "text", "value": "Hi"}),
    "text with an audience": (
        TextPart("Hi", (Audience.USER, Audience.EXTENSION)),
        {"type": "text", "value": "Hi", "audience": ["user", "extension"]},
    ),
    "thinking": (
        ThinkingPart("Hm", "rs_1"),
        {"type": "thinking", "value": "Hm", "id": "rs_1", "metadata": None},
    ),
    "thinking in pieces": (
        ThinkingPart(["H", "m"]),
        {"type": "thinking", "value": ["H", "m"], "id": None, "metadata": None},
    ),
    "the end of thinking": (
        ThinkingPart("", "rs_1", {"openresponses": {"model": "m"}}),
        {"type": "thinking", "value": "", "id": "rs_1", "metadata": {"openresponses": {"model": "m"}}},
    ),
    "a call": (
        ToolCallPart("gw-call_1", "add", {"a": 2}),
        {"type": "tool_call", "call_id": "gw-call_1", "name": "add", "input": {"a": 2}},
    ),
    "data": (
        DataPart(b"\x00\xff", "image/png"),
        {"type": "data", "mime": "image/png", "base64": b64encode(b"\x00\xff").decode()},
    ),
    "data with an audience": (
        DataPart(b"", "text/plain", (Audience.ASSISTANT,)),
        {"type": "data", "mime": "text/plain", "base64": "", "audience": ["assistant"]},
    ),
    "a result": (
        ToolResultPart("gw-call_1", [TextPart("5"), DataPart(b"x", "text/plain")]),
        {
            "type": "tool_result",
            "call_id": "gw-call_1",
            "content": [
                {"type": "text", "value": "5"},
                {"type": "data", "mime": "text/plain", "base64": b64encode(b"x").decode()},
            ],
            "is_error": False,
        },
    ),
    "a result that is an error": (
        ToolResultPart("gw-call_1", [], is_error=True),
        {"type": "tool_result", "call_id": "gw-call_1", "content": [], "is_error": True},
    ),
}


@pytest.mark.parametrize(("part", "shape"), SHAPES.values(), ids=SHAPES.keys())
def test_every_part_has_its_json_format_and_is_restored(part: MessagePart, shape: JSON) -> None:
    assert part_to_json(part) == shape
    assert part_from_json(json.loads(encode_line(shape))) == part


text = st.text(max_size=5)
values = st.recursive(
    st.none() | st.integers(-9, 9) | text, lambda inner: st.lists(inner, max_size=2), max_leaves=4
)
objects = st.dictionaries(text, values, max_size=2)
audiences = st.lists(st.sampled_from(Audience), max_size=2).map(tuple)
text_parts = st.builds(TextPart, text, audiences)
data_parts = st.builds(DataPart, st.binary(max_size=5), text, audiences)
parts: st.SearchStrategy[MessagePart] = st.one_of(
    text_parts,
    data_parts,
    st.builds(ThinkingPart, text | st.lists(text, max_size=2), st.none() | text, st.none() | objects),
    st.builds(ToolCallPart, text, text, objects),
    st.builds(ToolResultPart, text, st.lists(text_parts | data_parts, max_size=2), st.booleans()),
)


@given(st.builds(ChatMessage, st.integers(1, 3), st.lists(parts, max_size=3), st.none() | text))
def test_every_message_is_restored_from_one_line(message: ChatMessage) -> None:
    line = encode_line(message_to_json(message))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_message(line) == message


WRONG_PARTS: dict[str, tuple[Any, str]] = {
    "not an object": ("text", ""),
    "nothing": (None, ""),
    "no type": ({"value": "Hi"}, "type"),
    "an unknown type": ({"type": "image"}, "type"),
    "a type that is not a string": ({"type": 5}, "type"),
    "a type that is a list": ({"type": []}, "type"),
    "text without a value": ({"type": "text"}, "value"),
    "text that is a number": ({"type": "text", "value": 5}, "value"),
    "thinking without a value": ({"type": "thinking"}, "value"),
    "thinking with pieces that are not strings": ({"type": "thinking", "value": ["a", 5]}, "value"),
    "thinking with a number for its id": ({"type": "thinking", "value": "", "id": 5}, "id"),
    "thinking with a list for metadata": ({"type": "thinking", "value": "", "metadata": []}, "metadata"),
    "a call without an id": ({"type": "tool_call", "name": "add", "input": {}}, "call_id"),
    "a call without a name": ({"type": "tool_call", "call_id": "c", "input": {}}, "name"),
    "a call with a text for input": (
        {"type": "tool_call", "call_id": "c", "name": "n", "input": "{}"},
        "input",
    ),
    "a call with null for input": (
        {"type": "tool_call", "call_id": "c", "name": "n", "input": None},
        "input",
    ),
    "data without a type": ({"type": "data", "base64": ""}, "mime"),
    "data that is not base64": ({"type": "data", "mime": "x", "base64": "!"}, "base64"),
    "data that is not ASCII": ({"type": "data", "mime": "x", "base64": "é"}, "base64"),
    "data that is missing": ({"type": "data", "mime": "x"}, "base64"),
    "a result without an id": ({"type": "tool_result", "content": []}, "call_id"),
    "a result that is a text": ({"type": "tool_result", "call_id": "c", "content": "5"}, "content"),
    "a result with a call in it": (
        {
            "type": "tool_result",
            "call_id": "c",
            "content": [{"type": "tool_call", "call_id": "c", "name": "n"}],
        },
        "content",
    ),
    "a result with a broken part": (
        {
            "type": "tool_result",
            "call_id": "c",
            "content": [{"type": "text", "value": "a"}, {"type": "text"}],
        },
        "content[1].value",
    ),
    "an audience that is a text": ({"type": "text", "value": "", "audience": "user"}, "audience"),
    "an audience that is a number": ({"type": "text", "value": "", "audience": 1}, "audience"),
    "an audience that is an object": ({"type": "text", "value": "", "audience": {"user": 1}}, "audience"),
    "an unknown audience": ({"type": "text", "value": "", "audience": ["everybody"]}, "audience"),
    "an audience of numbers": ({"type": "data", "mime": "x", "base64": "", "audience": [1]}, "audience"),
    "an audience of lists": ({"type": "text", "value": "", "audience": [[]]}, "audience"),
}


@pytest.mark.parametrize(("raw", "field"), WRONG_PARTS.values(), ids=WRONG_PARTS.keys())
def test_an_invalid_part_is_rejected_with_its_invalid_field(raw: Any, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        part_from_json(raw)
    assert caught.value.param == field
    with pytest.raises(DecodeError) as caught:
        message_from_json({"role": 1, "content": [{"type": "text", "value": "fine"}, raw]})
    assert caught.value.param == (f"content[1].{field}" if field else "content[1]")


LENIENT: dict[str, tuple[JSON, MessagePart]] = {
    "a call without input": ({"type": "tool_call", "call_id": "c", "name": "n"}, ToolCallPart("c", "n", {})),
    "a result without content": ({"type": "tool_result", "call_id": "c"}, ToolResultPart("c", [])),
    "a result whose content is null": (
        {"type": "tool_result", "call_id": "c", "content": None, "is_error": None},
        ToolResultPart("c", []),
    ),
    "an audience that is null": ({"type": "text", "value": "a", "audience": None}, TextPart("a")),
    "an audience in capitals": (
        {"type": "text", "value": "a", "audience": ["User"]},
        TextPart("a", (Audience.USER,)),
    ),
    "an audience that is empty": ({"type": "text", "value": "a", "audience": []}, TextPart("a")),
    "unknown fields": ({"type": "text", "value": "a", "color": "blue"}, TextPart("a")),
}


@pytest.mark.parametrize(("raw", "part"), LENIENT.values(), ids=LENIENT.keys())
def test_optional_fields_may_be_missing(raw: JSON, part: MessagePart) -> None:
    assert part_from_json(raw) == part


# Messages


def test_the_json_format_of_a_message() -> None:
    message = ChatMessage(Role.SYSTEM, [TextPart("Hi")], "host")
    assert message_to_json(message) == {
        "role": 3,
        "content": [{"type": "text", "value": "Hi"}],
        "name": "host",
    }
    assert "name" not in message_to_json(ChatMessage(1, []))


def test_the_content_of_a_message_may_be_a_string() -> None:
    assert decode_message('{"role":1,"content":"Hi","name":"me"}') == ChatMessage(1, [TextPart("Hi")], "me")


WRONG_MESSAGES: dict[str, tuple[str, str]] = {
    "no JSON": ("{", ""),
    "no object": ("[]", ""),
    "no role": ('{"content":[]}', "role"),
    "a role that is a text": ('{"role":"user","content":[]}', "role"),
    "a role that is true": ('{"role":true,"content":[]}', "role"),
    "no content": ('{"role":1}', "content"),
    "content that is an object": ('{"role":1,"content":{}}', "content"),
    "a name that is a number": ('{"role":1,"content":[],"name":5}', "name"),
}


@pytest.mark.parametrize(("line", "field"), WRONG_MESSAGES.values(), ids=WRONG_MESSAGES.keys())
def test_an_invalid_message_is_rejected_with_its_invalid_field(line: str, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_message(line)
    assert caught.value.param == field


# Errors and results


ERRORS: dict[str, tuple[OpenResponsesError, JSON]] = {
    "bare": (
        NetworkError("gone", phase="cut"),
        {"type": "error", "code": "network_error", "message": "gone"},
    ),
    "with all that is known": (
        RateLimitError(
            "slow",
            code="slow_down",
            status=429,
            param="model",
            request_id="req_1",
            retry_after=1.5,
            limit_tokens=10,
            used_tokens=0,
        ),
        {
            "type": "error",
            "code": "slow_down",
            "message": "slow",
            "status": 429,
            "param": "model",
            "request_id": "req_1",
            "retry_after": 1.5,
            "limit_tokens": 10,
            "used_tokens": 0,
        },
    ),
}


@pytest.mark.parametrize(("error", "shape"), ERRORS.values(), ids=ERRORS.keys())
def test_the_json_format_of_an_error(error: OpenResponsesError, shape: JSON) -> None:
    assert error_to_json(error) == shape


def test_the_json_format_of_a_result() -> None:
    result = StreamResult(
        response_id="resp_1",
        model="m",
        usage=Usage(input_tokens=1, output_tokens=2, total_tokens=3),
        finish="stop",
        status="completed",
        refused=True,
        annotations=[UrlCitation(url="https://example.com")],
        diagnostics=[Diagnostic(code="unknown_event", message="odd", count=2)],
    )
    assert result_to_json(result) == {
        "type": "result",
        "response_id": "resp_1",
        "model": "m",
        "status": "completed",
        "finish": "stop",
        "usage": {
            "input_tokens": 1,
            "output_tokens": 2,
            "total_tokens": 3,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
        "refused": True,
        "annotations": [
            {
                "type": "url_citation",
                "url": "https://example.com",
                "start_index": 0,
                "end_index": 0,
                "title": "",
            }
        ],
        "diagnostics": [{"code": "unknown_event", "message": "odd", "count": 2}],
    }


def test_an_empty_result_is_converted() -> None:
    shape = result_to_json(StreamResult())
    assert (shape["response_id"], shape["usage"], shape["finish"], shape["status"]) == (
        None,
        None,
        "error",
        "",
    )
    assert json.loads(encode_line(shape)) == shape


# The command line's own words


def documented() -> dict[str, list[str]]:
    """Return the fields of each line in `penstock parts --help`, by type."""
    parser = argparse.ArgumentParser()
    command.configure(parser)
    lines = re.findall(r'^  \{"type":"(\w+)",(.*?)\}', parser.epilog or "", re.MULTILINE)
    return {type: re.findall(r'"(\w+)"', fields) for type, fields in lines}


WRITTEN: dict[str, JSON] = {
    "text": part_to_json(TextPart("")),
    "thinking": part_to_json(ThinkingPart("")),
    "tool_call": part_to_json(ToolCallPart("", "", {})),
    "data": part_to_json(DataPart(b"", "")),
    "error": error_to_json(OpenResponsesError("")),
    "result": result_to_json(StreamResult()),
}


def test_the_help_lists_every_type_of_line() -> None:
    assert documented().keys() == WRITTEN.keys()


@pytest.mark.parametrize("type", WRITTEN)
def test_a_line_has_the_fields_in_the_help(type: str) -> None:
    names = [name for name in WRITTEN[type] if name != "type"]
    assert WRITTEN[type]["type"] == type
    # The help lists only the first fields of a result.
    assert documented()[type] == (names[:5] if type == "result" else names)
