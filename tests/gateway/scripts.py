"""Answers of upstreams in each dialect, written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.cli import streams
from tests.client.server import Script, chunk, head, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, frames

Json = dict[str, Any]

ANTHROPIC, RESPONSES, HASTY = "over-anthropic", "over-responses", "over-hasty"
"""Models of the shared gateway whose target is not the one for Chat Completions."""


def body(data: bytes, content_type: str = "text/event-stream") -> Script:
    """These bytes as a streamed answer that ends properly."""
    return [send(head(200, content_type, transfer_encoding="chunked") + chunk(data) + LAST_CHUNK)]


def pieces(parts: list[bytes]) -> Script:
    """The same, each part in a write of its own."""
    return [send(SSE_HEAD), *(send(chunk(part)) for part in parts if part), send(LAST_CHUNK)]


# Chat Completions


def text(*parts: str) -> list[Json]:
    return [chat_chunk({"content": part}) for part in parts]


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: str | None = None
) -> Json:
    """One entry of `tool_calls`, with the fields that are given."""
    function = {"name": name, "arguments": arguments}
    entry: Json = {"function": {field: value for field, value in function.items() if value is not None}}
    if index is not None:
        entry["index"] = index
    return entry if id is None else {**entry, "id": id, "type": "function"}


def calls(*entries: Json) -> Json:
    return chat_chunk({"tool_calls": list(entries)})


STOP, TOOL_CALLS = chat_chunk(finish="stop"), chat_chunk(finish="tool_calls")


# Anthropic


def typed(events: list[Json]) -> bytes:
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)


def message_start(**usage: int) -> Json:
    reported = usage or {"input_tokens": 11, "output_tokens": 1}
    message = {"id": "msg_u", "type": "message", "role": "assistant", "model": "claude", "content": []}
    return {"type": "message_start", "message": {**message, "usage": reported}}


def block(index: int, content: Json, *deltas: Json, stop: bool = True) -> list[Json]:
    begin: Json = {"type": "content_block_start", "index": index, "content_block": content}
    middle: list[Json] = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
    return [begin, *middle, *([{"type": "content_block_stop", "index": index}] if stop else [])]


def text_block(index: int, *parts: str, stop: bool = True) -> list[Json]:
    deltas = [{"type": "text_delta", "text": part} for part in parts]
    return block(index, {"type": "text", "text": ""}, *deltas, stop=stop)


def tool_block(index: int, id: str, name: str, *parts: str, stop: bool = True) -> list[Json]:
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block(index, {"type": "tool_use", "id": id, "name": name, "input": {}}, *deltas, stop=stop)


def message_end(reason: str = "end_turn", **usage: int) -> list[Json]:
    reported = usage or {"output_tokens": 7}
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": reported}, MESSAGE_STOP]


MESSAGE_STOP: Json = {"type": "message_stop"}


# One answer with everything in it, in each dialect

WORDS = 'Ein Stück Käse 🧀, 水の流れ und \\u00e9 "quoted"\n\tzwei Zeilen'
THOUGHT = "Denk nach: 思考 🤔"
READ_ARGUMENTS = '{"path": "/tmp/ä 文.txt", "deep": {"a": [1, 2, {"b": "}{"}]}}'
WRITE_ARGUMENTS = '{"text": "🌊 }{ \\\\ \\u00e9"}'


def split(whole: str, size: int = 7) -> list[str]:
    return [whole[i : i + size] for i in range(0, len(whole), size)]


def rich_chat() -> list[Json]:
    return [
        chat_chunk({"role": "assistant", "content": ""}, id="chatcmpl-1", model="m-1"),
        *(chat_chunk({"reasoning_content": part}) for part in split(THOUGHT)),
        *text(*split(WORDS)),
        calls(call(0, "call_r", "read", "")),
        calls(call(1, "call_w", "write", "")),
        *(calls(call(0, arguments=part)) for part in split(READ_ARGUMENTS)),
        *(calls(call(1, arguments=part)) for part in split(WRITE_ARGUMENTS)),
        TOOL_CALLS,
        USAGE,
    ]


def rich_anthropic() -> list[Json]:
    thoughts = [{"type": "thinking_delta", "thinking": part} for part in split(THOUGHT)]
    return [
        message_start(input_tokens=6, cache_read_input_tokens=5, output_tokens=1),
        {"type": "ping"},
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *thoughts),
        *text_block(1, *split(WORDS)),
        *tool_block(2, "call_r", "read", "", *split(READ_ARGUMENTS)),
        *tool_block(3, "call_w", "write", "", *split(WRITE_ARGUMENTS)),
        *message_end("tool_use", output_tokens=7),
    ]


def rich_responses() -> list[Json]:
    text, message = streams.message("msg_1", 0, split(WORDS))
    reading, read = streams.call("fc_1", 1, "read", split(READ_ARGUMENTS))
    writing, write = streams.call("fc_2", 2, "write", split(WRITE_ARGUMENTS))
    return streams.response([*text, *reading, *writing], [message, read, write])


RICH: dict[str, Callable[[], bytes]] = {
    "chat": lambda: frames(*rich_chat()),
    ANTHROPIC: lambda: typed(rich_anthropic()),
    RESPONSES: lambda: typed(rich_responses()),
}
"""The whole answer as bytes, by the model that it is played for (`chat` stands for any other name)."""

TOOLS: list[Json] = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("read", "write")
]
