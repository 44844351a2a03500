"""What the upstream of the soak answers: a turn's directions stand in its prompt, in every API format."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

Json = dict[str, Any]

TOOL = "look"
DIALECTS = ("chat", "anthropic", "gemini", "responses")
LAWFUL = ("text", "call", "reasoning", "drip")
"""Answers that end well."""
FAULTS = (
    *("status-400", "status-401", "status-429", "status-500", "status-503"),
    *("error-frame", "reset", "reset-at-once", "truncated", "garbage", "broken-json", "stall", "silence"),
    *("wrong-dialect", "html", "empty", "huge-error", "huge-frame"),
)
"""Answers that fail, each in its own way."""

_DIRECTIONS = re.compile(rb"soak:([\w-]+):([\w-]+):(\d+):(\d+);")


class Directions(Struct, frozen=True):
    """What a turn asks its upstream for."""

    name: str
    how: str
    words: int
    gap_ms: int
    """Between two words."""

    @property
    def prompt(self) -> str:
        return f"soak:{self.name}:{self.how}:{self.words}:{self.gap_ms};"

    @property
    def text(self) -> str:
        """What the model says."""
        return "".join(self.pieces)

    @property
    def pieces(self) -> list[str]:
        return [f"{self.name}/{number} " for number in range(self.words)]

    @property
    def arguments(self) -> Json:
        return {"place": self.name, "words": [*range(self.words)]}


def directions_in(body: bytes) -> Directions | None:
    """Return the directions of the newest turn of a request, whatever its API format."""
    found = _DIRECTIONS.findall(body)
    if not found:
        return None
    name, how, words, gap = found[-1]
    return Directions(name.decode(), how.decode(), int(words), int(gap))


def frames(dialect: str, asked: Directions) -> list[bytes]:
    """Return the frames of a whole lawful answer."""
    return [_frame(each) for each in _CHUNKS[dialect](asked)] + ([b"data: [DONE]\n\n"] * (dialect == "chat"))


def error_frame(dialect: str) -> bytes:
    error = {"type": "server_error", "code": "server_error", "message": "the model has crashed"}
    if dialect == "responses":
        return _frame({"type": "error", "error": error})
    if dialect == "anthropic":
        return _frame({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}})
    if dialect == "gemini":
        return _frame({"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}})
    return _frame({"error": error})


def _frame(chunk: Json) -> bytes:
    name = f"event: {chunk['type']}\n" if "type" in chunk else ""
    return f"{name}data: {json.dumps(chunk)}\n\n".encode()


def _fragments(asked: Directions) -> Sequence[str]:
    """Return the arguments of a call in pieces."""
    text = json.dumps(asked.arguments)
    return [text[start : start + 12] for start in range(0, len(text), 12)]


def _chat(asked: Directions) -> list[Json]:
    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": f"c-{asked.name}", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}

    usage = {"prompt_tokens": 9, "completion_tokens": asked.words, "total_tokens": 9 + asked.words}
    end = {"id": f"c-{asked.name}", "object": "chat.completion.chunk", "choices": [], "usage": usage}
    if asked.how == "call":
        first = {"index": 0, "id": f"call-{asked.name}", "type": "function"}
        calls = [{**first, "function": {"name": TOOL, "arguments": ""}}]
        calls += [{"index": 0, "function": {"arguments": each}} for each in _fragments(asked)]
        return [*(chunk({"tool_calls": [each]}) for each in calls), chunk({}, "tool_calls"), end]
    thinking = [chunk({"reasoning_content": "Hm. "})] * 3 if asked.how == "reasoning" else []
    said = [chunk({"content": piece}) for piece in asked.pieces]
    return [chunk({"role": "assistant", "content": ""}), *thinking, *said, chunk({}, "stop"), end]


def _anthropic(asked: Directions) -> list[Json]:
    def block(index: int, content: Json, deltas: Sequence[Json]) -> list[Json]:
        return [
            {"type": "content_block_start", "index": index, "content_block": content},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    message = {"id": f"msg-{asked.name}", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 9, "output_tokens": 1}
    chunks: list[Json] = [{"type": "message_start", "message": {**message, "usage": usage}}]
    if asked.how == "reasoning":
        thought = [{"type": "thinking_delta", "thinking": "Hm. "}] * 3
        signature = {"type": "signature_delta", "signature": f"signed-{asked.name}"}
        chunks += block(0, {"type": "thinking", "thinking": "", "signature": ""}, [*thought, signature])
    index = 1 if asked.how == "reasoning" else 0
    if asked.how == "call":
        content = {"type": "tool_use", "id": f"toolu_{asked.name}", "name": TOOL, "input": {}}
        pieces = [{"type": "input_json_delta", "partial_json": each} for each in _fragments(asked)]
    else:
        content = {"type": "text", "text": ""}
        pieces = [{"type": "text_delta", "text": piece} for piece in asked.pieces]
    reason = "tool_use" if asked.how == "call" else "end_turn"
    chunks += block(index, content, pieces)
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": asked.words}}
    return [*chunks, end, {"type": "message_stop"}]


def _gemini(asked: Directions) -> list[Json]:
    def chunk(part: Json, **fields: Any) -> Json:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **fields}
        return {"candidates": [candidate], "modelVersion": "m"}

    usage = {"promptTokenCount": 9, "candidatesTokenCount": asked.words, "totalTokenCount": 9 + asked.words}
    if asked.how == "call":
        call = {"functionCall": {"name": TOOL, "args": asked.arguments}}
        return [chunk(call, finishReason="STOP") | {"usageMetadata": usage}]
    thinking = [chunk({"text": "Hm. ", "thought": True})] * 3 if asked.how == "reasoning" else []
    said = [chunk({"text": piece}) for piece in asked.pieces]
    return [*thinking, *said, chunk({"text": ""}, finishReason="STOP") | {"usageMetadata": usage}]


def _responses(asked: Directions) -> list[Json]:
    response: Json = {"id": f"resp-{asked.name}", "object": "response", "model": "m", "output": []}
    usage = {"input_tokens": 9, "output_tokens": asked.words, "total_tokens": 9 + asked.words}
    events: list[Json] = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
    output: list[Json] = []

    def add(item: Json, middle: Sequence[Json], done: Json) -> None:
        place = {"output_index": len(output)}
        events.append({"type": "response.output_item.added", **place, "item": item})
        events.extend({**each, **place, "item_id": item["id"]} for each in middle)
        events.append({"type": "response.output_item.done", **place, "item": done})
        output.append(done)

    if asked.how == "reasoning":
        item = {"type": "reasoning", "id": f"rs-{asked.name}", "summary": []}
        add(item, [], {**item, "encrypted_content": f"sealed-{asked.name}"})
    if asked.how == "call":
        item = {"type": "function_call", "id": f"fc-{asked.name}", "call_id": f"call-{asked.name}"}
        item |= {"name": TOOL, "arguments": "", "status": "in_progress"}
        arguments = json.dumps(asked.arguments)
        part = "response.function_call_arguments"
        deltas = [{"type": f"{part}.delta", "delta": each} for each in _fragments(asked)]
        done = {**item, "arguments": arguments, "status": "completed"}
        add(item, [*deltas, {"type": f"{part}.done", "arguments": arguments}], done)
    else:
        item = {"type": "message", "id": f"msg-{asked.name}", "role": "assistant", "status": "in_progress"}
        place = {"content_index": 0}
        whole: Json = {"type": "output_text", "text": asked.text, "annotations": []}
        middle = [
            {"type": "response.content_part.added", **place, "part": {**whole, "text": ""}},
            *({"type": "response.output_text.delta", **place, "delta": piece} for piece in asked.pieces),
            {"type": "response.output_text.done", **place, "text": asked.text},
            {"type": "response.content_part.done", **place, "part": whole},
        ]
        add({**item, "content": []}, middle, {**item, "status": "completed", "content": [whole]})
    ended = {**response, "status": "completed", "output": output, "usage": usage}
    return [*events, {"type": "response.completed", "response": ended}]


_CHUNKS = {"chat": _chat, "anthropic": _anthropic, "gemini": _gemini, "responses": _responses}
