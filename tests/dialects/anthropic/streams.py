"""Builders for the events of Anthropic's streams, and what is read from them."""

from __future__ import annotations

import json
from typing import Any

from penstock.dialects.anthropic import DIALECT
from penstock.stream.deltas import (
    Delta,
)
from tests.dialects.recording_checks import read, response

Chunk = dict[str, Any]


STOP: Chunk = {"type": "message_stop"}


def start(**message: Any) -> Chunk:
    return {"type": "message_start", "message": {"id": "msg_1", "content": [], **message}}


def block(index: int, content: Chunk, *deltas: Chunk, stop: bool = True) -> list[Chunk]:
    begin: Chunk = {"type": "content_block_start", "index": index, "content_block": content}
    middle: list[Chunk] = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
    return [begin, *middle, *([{"type": "content_block_stop", "index": index}] if stop else [])]


def text(index: int, *pieces: str, stop: bool = True) -> list[Chunk]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas, stop=stop)


def call(index: int, *pieces: str, input: Any = None, stop: bool = True) -> list[Chunk]:
    content = {"type": "tool_use", "id": f"toolu_{index}", "name": "get", "input": input or {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, content, *deltas, stop=stop)


def server_tool(index: int, name: str, input: Any, kind: str = "server_tool_use") -> list[Chunk]:
    content = {"type": kind, "id": f"srvtoolu_{index}", "name": name, "input": {}, "server_name": "docs"}
    return block(index, content, {"type": "input_json_delta", "partial_json": json.dumps(input)})


def result(index: int, of: int, kind: str, content: Any, **more: Any) -> list[Chunk]:
    content_block = {
        "type": f"{kind}_tool_result",
        "tool_use_id": f"srvtoolu_{of}",
        "content": content,
        **more,
    }
    return block(index, content_block)


def finish(reason: str | None = "end_turn", **more: Any) -> list[Chunk]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, **more}, STOP]


def deltas_of(chunks: list[Any]) -> list[Delta]:
    return read(DIALECT, chunks)


def output(*chunks: list[Chunk], status: str = "completed") -> list[dict[str, Any]]:
    """Return the items of a message with these blocks."""
    snapshot = response(DIALECT, [start(), *(each for group in chunks for each in group)])
    assert snapshot["status"] == status
    items: list[dict[str, Any]] = snapshot["output"]
    return items
