"""One answer in every dialect, written by hand: a short text, a tool call, and the usage."""

from __future__ import annotations

import json
from typing import Any

Chunk = dict[str, Any]

TEXT = "Hello, 水 🌊"
ARGUMENTS = {"city": "Oslo"}


def sse(chunks: list[Chunk], done: bool = False) -> bytes:
    """Encode as server-sent events, with the chunk's type as the event name."""
    text = "".join(
        (f"event: {chunk['type']}\n" if "type" in chunk else "") + f"data: {json.dumps(chunk)}\n\n"
        for chunk in chunks
    )
    return text.encode() + (b"data: [DONE]\n\n" if done else b"")


def lines(chunks: list[Chunk]) -> bytes:
    return "".join(json.dumps(chunk, ensure_ascii=False) + "\n" for chunk in chunks).encode()


def chat(finish: str = "tool_calls") -> list[Chunk]:
    def chunk(delta: Chunk, finish_reason: str | None = None) -> Chunk:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}

    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    usage = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hello, "}),
        chunk({"content": "水 🌊"}),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
        chunk({}, finish),
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": usage},
    ]


def anthropic() -> list[Chunk]:
    def delta(index: int, **fields: Any) -> Chunk:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    def start(index: int, **fields: Any) -> Chunk:
        return {"type": "content_block_start", "index": index, "content_block": fields}

    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "content": []}
    return [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 9, "output_tokens": 1}}},
        start(0, type="text", text=""),
        {"type": "ping"},
        delta(0, type="text_delta", text="Hello, "),
        delta(0, type="text_delta", text="水 🌊"),
        {"type": "content_block_stop", "index": 0},
        start(1, type="tool_use", id="call_1", name="look", input={}),
        delta(1, type="input_json_delta", partial_json=""),
        delta(1, type="input_json_delta", partial_json='{"city":"Oslo"}'),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}},
        {"type": "message_stop"},
    ]


def gemini() -> list[Chunk]:
    def chunk(part: Chunk, **fields: Any) -> Chunk:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        return {"candidates": [candidate | fields], "modelVersion": "gemini-1"}

    usage = {"promptTokenCount": 9, "candidatesTokenCount": 12, "totalTokenCount": 21}
    return [
        chunk({"text": "Hello, "}),
        chunk({"text": "水 🌊"}),
        chunk({"functionCall": {"name": "look", "args": ARGUMENTS}}, finishReason="STOP")
        | {"usageMetadata": usage},
    ]


def ai_sdk() -> list[Chunk]:
    return [
        {"type": "stream-start", "warnings": []},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Hello, "},
        {"type": "text-delta", "id": "0", "delta": "水 🌊"},
        {"type": "text-end", "id": "0"},
        {"type": "tool-input-start", "id": "call_1", "toolName": "look"},
        {"type": "tool-input-delta", "id": "call_1", "delta": '{"city":"Oslo"}'},
        {"type": "tool-input-end", "id": "call_1"},
        {"type": "tool-call", "toolCallId": "call_1", "toolName": "look", "input": '{"city":"Oslo"}'},
        {
            "type": "finish",
            "finishReason": {"unified": "tool-calls", "raw": "tool_calls"},
            "usage": {"inputTokens": {"total": 9}, "outputTokens": {"total": 12}},
        },
    ]


def ollama() -> list[Chunk]:
    def chunk(message: Chunk, **fields: Any) -> Chunk:
        return {"model": "qwen", "message": {"role": "assistant", **message}, "done": False} | fields

    call = {"function": {"name": "look", "arguments": ARGUMENTS}}
    counts = {"prompt_eval_count": 9, "eval_count": 12}
    return [
        chunk({"content": "Hello, "}),
        chunk({"content": "水 🌊"}),
        chunk({"content": "", "tool_calls": [call]}),
        chunk({"content": ""}, done=True, done_reason="stop", **counts),
    ]


def cohere() -> list[Chunk]:
    def event(type: str, message: Chunk) -> Chunk:
        return {"type": type, "index": 0, "delta": {"message": message}}

    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    usage = {"tokens": {"input_tokens": 9, "output_tokens": 12}}
    return [
        {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant"}}},
        event("content-start", {"content": {"type": "text", "text": ""}}),
        event("content-delta", {"content": {"text": "Hello, "}}),
        event("content-delta", {"content": {"text": "水 🌊"}}),
        {"type": "content-end", "index": 0},
        event("tool-call-start", {"tool_calls": call}),
        event("tool-call-delta", {"tool_calls": {"function": {"arguments": '{"city":"Oslo"}'}}}),
        {"type": "tool-call-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": usage}},
    ]


def bedrock() -> list[Chunk]:
    def delta(index: int, **fields: Any) -> Chunk:
        return {"contentBlockDelta": {"contentBlockIndex": index, "delta": fields}}

    start = {"toolUse": {"toolUseId": "call_1", "name": "look"}}
    return [
        {"messageStart": {"role": "assistant"}},
        delta(0, text="Hello, "),
        delta(0, text="水 🌊"),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"contentBlockStart": {"contentBlockIndex": 1, "start": start}},
        delta(1, toolUse={"input": '{"city":"Oslo"}'}),
        {"contentBlockStop": {"contentBlockIndex": 1}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": {"inputTokens": 9, "outputTokens": 12, "totalTokens": 21}}},
    ]


def responses() -> list[Chunk]:
    """As a careless endpoint sends it: no numbers, no parts, no `[DONE]`."""
    text = {"type": "output_text", "text": TEXT, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    call = {"id": "f", "type": "function_call", "call_id": "call_1", "name": "look"}
    called = {**call, "arguments": '{"city":"Oslo"}', "status": "completed"}
    usage = {"input_tokens": 9, "output_tokens": 12, "total_tokens": 21}
    response = {"id": "r", "object": "response", "model": "m-1", "status": "completed", "usage": usage}
    return [
        {"type": "response.created", "response": {**response, "status": "in_progress", "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**message, "content": []}},
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "Hello, "},
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "水 🌊"},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.output_item.added", "output_index": 1, "item": {**call, "arguments": ""}},
        {"type": "response.output_item.done", "output_index": 1, "item": called},
        {"type": "response.completed", "response": {**response, "output": [message, called]}},
    ]


STREAMS: dict[str, bytes] = {
    "chat": sse(chat(), done=True),
    "responses": sse(responses()),
    "anthropic": sse(anthropic()),
    "gemini": sse(gemini()),
    "ai_sdk": lines(ai_sdk()),
    "ollama": lines(ollama()),
    "cohere": sse(cohere()),
    "bedrock": lines(bedrock()),
}
"""The answer as each upstream sends it."""
