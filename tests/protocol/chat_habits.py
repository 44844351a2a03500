"""Requests for Responses that were written as for Chat Completions: one for each habit."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

Json = dict[str, Any]


class Habit(Struct, frozen=True):
    """Fields of a request, the `param` of the error, and a field that the error tells to write."""

    fields: Json
    param: str
    write: str


_FUNCTION = {"name": "add", "parameters": {"type": "object"}}
_FLAT = {"type": "function", **_FUNCTION}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
_ASKED = {"role": "user", "content": "Hello!"}


def _input(*items: Json) -> Json:
    return {"input": [_ASKED, *items]}


def _part(part: Json) -> Json:
    return {"input": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}]}


HABITS: dict[str, Habit] = {
    "messages": Habit({"messages": [_ASKED]}, "messages", "input"),
    "max_tokens": Habit({"input": "Hi", "max_tokens": 9}, "max_tokens", "max_output_tokens"),
    "max_completion_tokens": Habit(
        {"input": "Hi", "max_completion_tokens": 9}, "max_completion_tokens", "max_output_tokens"
    ),
    "response_format with a schema": Habit(
        {"input": "Hi", "response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
        "response_format",
        "text",
    ),
    "response_format without a schema": Habit(
        {"input": "Hi", "response_format": {"type": "json_object"}}, "response_format", "text"
    ),
    "json_schema inside text.format": Habit(
        {"input": "Hi", "text": {"format": {"type": "json_schema", "json_schema": {"name": "a"}}}},
        "text.format.json_schema",
        "text",
    ),
    "reasoning_effort": Habit({"input": "Hi", "reasoning_effort": "low"}, "reasoning_effort", "reasoning"),
    "verbosity": Habit({"input": "Hi", "verbosity": "low"}, "verbosity", "text"),
    "a nested function tool": Habit(
        {"input": "Hi", "tools": [_FLAT, {"type": "function", "function": _FUNCTION}]},
        "tools[1].function",
        "tools",
    ),
    "a nested function tool without a type": Habit(
        {"input": "Hi", "tools": [{"function": _FUNCTION}]}, "tools[0].function", "tools"
    ),
    "functions": Habit({"input": "Hi", "functions": [_FUNCTION]}, "functions", "tools"),
    "function_call": Habit(
        {"input": "Hi", "tools": [_FLAT], "function_call": "none"}, "function_call", "tool_choice"
    ),
    "a nested custom tool": Habit(
        {"input": "Hi", "tools": [{"type": "custom", "custom": {"name": "sql"}}]}, "tools[0].custom", "tools"
    ),
    "a nested tool_choice": Habit(
        {"input": "Hi", "tools": [_FLAT], "tool_choice": {"type": "function", "function": {"name": "add"}}},
        "tool_choice.function",
        "tool_choice",
    ),
    "nested allowed_tools": Habit(
        {
            "input": "Hi",
            "tools": [_FLAT],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [_FLAT]}},
        },
        "tool_choice.allowed_tools",
        "tool_choice",
    ),
    "a message of a tool": Habit(
        _input({"role": "tool", "tool_call_id": "call_1", "content": "5"}), "input[1].role", "input"
    ),
    "a message of a function": Habit(
        _input({"type": "message", "role": "function", "name": "add", "content": "5"}),
        "input[1].role",
        "input",
    ),
    "tool_calls in a message": Habit(
        _input({"role": "assistant", "content": None, "tool_calls": [_CALL]}), "input[1].tool_calls", "input"
    ),
    "function_call in a message": Habit(
        _input({"type": None, "role": "assistant", "function_call": _CALL["function"]}),
        "input[1].function_call",
        "input",
    ),
    "a part image_url": Habit(
        _part({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
        "input[0].content[1].type",
        "input",
    ),
    "an object as image_url": Habit(
        _part({"type": "input_image", "image_url": {"url": "https://example.com/a.png"}}),
        "input[0].content[1].image_url",
        "input",
    ),
    "a part file": Habit(
        _part({"type": "file", "file": {"file_data": "SGk="}}), "input[0].content[1].type", "input"
    ),
}

BOTH_FORMS: dict[str, Json] = {
    "messages": {"input": "Hi", "messages": [_ASKED]},
    "max_tokens": {"input": "Hi", "max_output_tokens": 50, "max_tokens": 50},
    "max_completion_tokens": {"input": "Hi", "max_output_tokens": 50, "max_completion_tokens": 50},
    "response_format": {
        "input": "Hi",
        "text": {"format": {"type": "json_object"}},
        "response_format": {"type": "json_object"},
    },
    "reasoning_effort": {"input": "Hi", "reasoning": {"effort": "low"}, "reasoning_effort": "low"},
    "verbosity": {"input": "Hi", "text": {"verbosity": "low"}, "verbosity": "low"},
    "functions": {"input": "Hi", "tools": [_FLAT], "functions": [_FUNCTION]},
    "function_call": {"input": "Hi", "tools": [_FLAT], "tool_choice": "none", "function_call": "none"},
}
"""A field of Chat Completions, and a request that has its Responses form as well."""

HARMLESS: dict[str, Json] = {
    "null": {"input": "Hi", "max_tokens": None, "messages": None, "tools": None, "response_format": None},
    "a part of the type text": _part({"type": "text", "text": "A cat."}),
    "no calls in a message": _input({"role": "assistant", "content": "Hello.", "tool_calls": []}),
    "null in a message": _input({"role": "assistant", "content": "Hello.", "function_call": None}),
    "both forms of a tool": {"input": "Hi", "tools": [{**_FLAT, "function": _FUNCTION}]},
    "stream options": {"input": "Hi", "stream": True, "stream_options": {"include_usage": True}},
    "one answer": {"input": "Hi", "n": 1},
    "the default format": {"input": "Hi", "response_format": {"type": "text"}},
    "no functions": {"input": "Hi", "functions": [], "function_call": "auto"},
    "no messages": {"input": "Hi", "messages": []},
    "stop": {"input": "Hi", "stop": ["END"], "seed": 7},
}
"""Requests that real clients may send, and that mean the same in both APIs."""


def written(message: str) -> list[Json]:
    """Return the examples in an error message: every JSON object in it."""
    decoder, found, place = json.JSONDecoder(), list[Json](), message.find("{")
    while place >= 0:
        example, end = decoder.raw_decode(message, place)
        found.append(example)
        place = message.find("{", end)
    return found
