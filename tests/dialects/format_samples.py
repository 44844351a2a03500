"""Answers in every API format that is recognised: a stream's frames, and a whole body."""

from __future__ import annotations

import json
from typing import Any

from penstock.sse import Frame

Json = dict[str, Any]

STREAMS: dict[str, list[Json]] = {
    "chat": [
        {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hi"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
    "responses": [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": "Hi"},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]},
    ],
    "ai_sdk": [
        {"type": "stream-start", "warnings": []},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Hi"},
        {"type": "text-end", "id": "0"},
        {"type": "finish", "finishReason": "stop", "usage": {"inputTokens": 1, "outputTokens": 1}},
    ],
    "ollama": [
        {"model": "m", "created_at": "", "message": {"role": "assistant", "content": "Hi"}, "done": False},
        {"model": "m", "created_at": "", "message": {"role": "assistant", "content": ""}, "done": True},
    ],
    "cohere": [
        {"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant"}}},
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi"}}}},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    ],
    "bedrock": [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}},
        {"messageStop": {"stopReason": "end_turn"}},
    ],
    "ai_sdk_ui": [
        {"type": "start", "messageId": "m"},
        {"type": "start-step"},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Hi"},
        {"type": "text-end", "id": "0"},
        {"type": "finish-step"},
        {"type": "finish"},
    ],
    "gemini_interactions": [
        {"event_type": "interaction.created", "interaction": {"id": "v1", "object": "interaction"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Hi"}},
        {"event_type": "interaction.completed", "interaction": {"id": "v1", "status": "completed"}},
    ],
}

BODIES: dict[str, list[Any]] = {
    "chat": [
        {
            "object": "chat.completion",
            "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        },
    ],
    "responses": [
        {
            "object": "response",
            "status": "completed",
            "output": [
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
                }
            ],
        }
    ],
    "anthropic": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "Hi"}],
            "stop_reason": "end_turn",
        }
    ],
    "gemini": [STREAMS["gemini"][0], STREAMS["gemini"]],
    "ai_sdk": [{"content": [{"type": "text", "text": "Hi"}], "finishReason": "stop", "usage": {}}],
    "ollama": [
        {"model": "m", "message": {"role": "assistant", "content": "Hi"}, "done": True},
        {"model": "m", "response": "Hi", "done": True},
    ],
    "cohere": [
        {
            "id": "c",
            "finish_reason": "COMPLETE",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        }
    ],
    "bedrock": [
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1},
        }
    ],
    "gemini_interactions": [{"id": "v1", "object": "interaction", "status": "completed", "outputs": []}],
}

AWS_EVENT = (
    b"\x00\x00\x00\x6b\x00\x00\x00\x40\x12\x34\x56\x78\x0b:event-type\x07\x00\x0cmessageStart"
    b'\x0d:content-type\x07\x00\x10application/json\x0d:message-type\x07\x00\x05event{"role":"assistant"}\x9a'
)
"""An event in the framing of AWS: lengths, a checksum, headers, JSON, another checksum."""


def frames(name: str) -> list[Frame]:
    return [Frame(None, json.dumps(each)) for each in STREAMS[name]]


def sse(name: str, *, done: bool = False) -> bytes:
    data = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in STREAMS[name])
    return data + b"data: [DONE]\n\n" if done else data
