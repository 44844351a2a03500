"""Twenty Chat Completions streams on which other gateways were measured, and what must come of each."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.protocol.tools import CustomTool, FunctionTool, Tool
from tests.dialects.chat_streams import calls, chunk

USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


USAGE_CHUNK = {"choices": [], "usage": USAGE}


TOOLS: list[Tool] = [FunctionTool(name="read"), FunctionTool(name="write"), CustomTool(name="apply_patch")]


class Scenario(Struct):
    """Chunks, and the response that they give: items as (type, text or (name, arguments), status)."""

    chunks: list[dict[str, Any]]
    output: list[tuple[str, Any, str]]
    status: str = "completed"
    reason: str = ""
    ends: bool = True
    """False: the upstream stops without a finish reason, usage or [DONE]."""


def text(*pieces: str) -> list[dict[str, Any]]:
    return [chunk({"content": piece}) for piece in pieces]


def call(index: int, id: str | None = None, name: str | None = None, arguments: str | None = None) -> Any:
    entry: dict[str, Any] = {"index": index, "function": {}}
    if id is not None:
        entry |= {"id": id, "type": "function"}
    if name is not None:
        entry["function"]["name"] = name
    if arguments is not None:
        entry["function"]["arguments"] = arguments
    return entry


ROLE = chunk({"role": "assistant", "content": ""})


STOP, TOOL_CALLS = chunk(finish="stop"), chunk(finish="tool_calls")


HELLO = ("message", "Hello there", "completed")


THOUGHT = ("reasoning", "Let me see", "completed")


READ = ("function_call", ("read", '{"x":1}'), "completed")


WRITE = ("function_call", ("write", '{"y":2}'), "completed")


READ_CHUNKS = [
    calls(call(0, "a", "read", "")),
    calls(call(0, arguments='{"x"')),
    calls(call(0, arguments=":1}")),
]


THINKING = [chunk({"reasoning_content": "Let me"}), chunk({"reasoning_content": " see"})]


SCENARIOS: dict[str, Scenario] = {
    "text": Scenario([ROLE, *text("Hello", " there"), STOP], [HELLO]),
    "reasoning then text": Scenario([ROLE, *THINKING, *text("Hello there"), STOP], [THOUGHT, HELLO]),
    "text then tool": Scenario([ROLE, *text("Hello there"), *READ_CHUNKS, TOOL_CALLS], [HELLO, READ]),
    "reasoning then tool": Scenario([*THINKING, *READ_CHUNKS, TOOL_CALLS], [THOUGHT, READ]),
    "parallel, interleaved indexes": Scenario(
        [
            calls(call(0, "a", "read", "")),
            calls(call(1, "b", "write", "")),
            calls(call(0, arguments='{"x":')),
            calls(call(1, arguments='{"y":')),
            calls(call(0, arguments="1}"), call(1, arguments="2}")),
            TOOL_CALLS,
        ],
        [READ, WRITE],
    ),
    "parallel, one chunk": Scenario(
        [calls(call(0, "a", "read", '{"x":1}'), call(1, "b", "write", '{"y":2}')), TOOL_CALLS], [READ, WRITE]
    ),
    "later chunks repeat empty id and name": Scenario(
        [READ_CHUNKS[0], calls(call(0, "", "", '{"x"')), calls(call(0, "", "", ":1}")), TOOL_CALLS], [READ]
    ),
    "later chunks have null id and name": Scenario(
        [
            READ_CHUNKS[0],
            calls({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": '{"x":1}'}}),
            TOOL_CALLS,
        ],
        [READ],
    ),
    "name after arguments": Scenario(
        [calls(call(0, "a", None, '{"x":')), calls(call(0, None, "read", "1}")), TOOL_CALLS], [READ]
    ),
    "content and tool in one chunk": Scenario(
        [
            chunk({"content": "Hello there", "tool_calls": [call(0, "a", "read", '{"x":1}')]}),
            TOOL_CALLS,
        ],
        [HELLO, READ],
    ),
    "text, tool, text": Scenario(
        [*text("Hello there"), *READ_CHUNKS, *text("Bye"), STOP],
        [HELLO, READ, ("message", "Bye", "completed")],
    ),
    "tool without arguments": Scenario(
        [calls(call(0, "a", "read")), TOOL_CALLS], [("function_call", ("read", "{}"), "completed")]
    ),
    "finish length": Scenario(
        [*text("Hello there"), chunk(finish="length")],
        [("message", "Hello there", "incomplete")],
        "incomplete",
        "max_output_tokens",
    ),
    "length in the middle of a tool call": Scenario(
        [*READ_CHUNKS[:2], chunk(finish="length")],
        [("function_call", ("read", '{"x"'), "incomplete")],
        "incomplete",
        "max_output_tokens",
    ),
    "content_filter": Scenario(
        [*text("Hello there"), chunk(finish="content_filter")],
        [("message", "Hello there", "incomplete")],
        "incomplete",
        "content_filter",
    ),
    "upstream ends without finish_reason": Scenario(
        text("Hello there"), [("message", "Hello there", "incomplete")], "failed", "upstream_truncated", False
    ),
    "upstream sends nothing": Scenario([], [], "failed", "upstream_empty", False),
    "error object mid-stream": Scenario(
        [*text("Hello there"), USAGE_CHUNK, {"error": {"message": "The engine is on fire", "code": 503}}],
        [("message", "Hello there", "incomplete")],
        "failed",
        "server_is_overloaded",
    ),
    "first chunk without role": Scenario([*text("Hello", " there"), STOP], [HELLO]),
    "custom tool": Scenario(
        [
            calls(call(0, "a", "apply_patch", "")),
            calls(call(0, arguments='{"input": "*** Begin')),
            calls(call(0, arguments=' Patch\\n+\\u00e9"}')),
            TOOL_CALLS,
        ],
        [("custom_tool_call", ("apply_patch", "*** Begin Patch\n+é"), "completed")],
    ),
}
