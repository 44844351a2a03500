"""Stream parts of the AI SDK, written by hand."""

from __future__ import annotations

from typing import Any

from penstock.protocol.tools import CustomTool, FunctionTool, Tool

FINISH = {"type": "finish", "finishReason": {"unified": "stop"}, "usage": {}}


CALLS = {"type": "finish", "finishReason": "tool-calls", "usage": {"inputTokens": 1, "outputTokens": 2}}


TOOLS: list[Tool] = [FunctionTool(name="get_weather"), CustomTool(name="patch")]


def start(id: str = "call_123", **fields: Any) -> dict[str, Any]:
    return {"type": "tool-input-start", "id": id, "toolName": "get_weather", **fields}


def delta(text: str, id: str = "call_123") -> dict[str, Any]:
    return {"type": "tool-input-delta", "id": id, "delta": text}


def end(id: str = "call_123") -> dict[str, Any]:
    return {"type": "tool-input-end", "id": id}


def call(input: Any = '{"location":"NYC"}', id: str = "call_123", **fields: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": id, "toolName": "get_weather", "input": input, **fields}


def text(content: str, id: str = "0") -> list[dict[str, Any]]:
    return [
        {"type": "text-start", "id": id},
        {"type": "text-delta", "id": id, "delta": content},
        {"type": "text-end", "id": id},
    ]


SIGNED = {"anthropic": {"signature": "c2ln"}}


URL = {"type": "source", "sourceType": "url", "id": "s", "url": "https://a", "title": "A"}
