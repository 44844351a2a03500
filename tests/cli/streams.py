"""Hand-written streams: events, and the same as bytes."""

from __future__ import annotations

import copy
import json
from typing import Any

Event = dict[str, Any]


def snapshot(status: str, output: list[Event]) -> Event:
    """A response resource with every field that the specification requires."""
    done = status == "completed"
    usage = {
        "input_tokens": 9,
        "output_tokens": 12,
        "total_tokens": 21,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": 1_700_000_002 if done else None,
        "status": status,
        "incomplete_details": None,
        "model": "test-model",
        "previous_response_id": None,
        "instructions": None,
        "output": copy.deepcopy(output),
        "error": None,
        "tools": [],
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "top_logprobs": 0,
        "temperature": 1,
        "reasoning": None,
        "usage": usage if done else None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "store": True,
        "background": False,
        "service_tier": "default",
        "metadata": {},
        "safety_identifier": None,
        "prompt_cache_key": None,
    }


def numbered(events: list[Event]) -> list[Event]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def message(id: str, index: int, texts: list[str]) -> tuple[list[Event], Event]:
    """Return the events of one message, and the final message."""
    place = {"item_id": id, "output_index": index, "content_index": 0}
    part = {"type": "output_text", "text": "".join(texts), "annotations": [], "logprobs": []}
    item = {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    added = {**item, "status": "in_progress", "content": []}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": added},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": text, "logprobs": []} for text in texts),
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ], item


def call(id: str, index: int, name: str, fragments: list[str]) -> tuple[list[Event], Event]:
    """Return the events of one function call, and the final call."""
    place = {"item_id": id, "output_index": index}
    item = {
        "id": id,
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{id}",
        "name": name,
        "arguments": "".join(fragments),
    }
    return [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, "status": "in_progress", "arguments": ""},
        },
        *({"type": "response.function_call_arguments.delta", **place, "delta": each} for each in fragments),
        {
            "type": "response.function_call_arguments.done",
            **place,
            "arguments": item["arguments"],
            "name": name,
        },
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ], item


def response(events: list[Event], output: list[Event]) -> list[Event]:
    """Return a complete response with the events of its items."""
    return numbered(
        [
            {"type": "response.created", "response": snapshot("in_progress", [])},
            {"type": "response.in_progress", "response": snapshot("in_progress", [])},
            *events,
            {"type": "response.completed", "response": snapshot("completed", output)},
        ]
    )


def hello(texts: list[str] | None = None) -> list[Event]:
    """A lawful stream with one message."""
    events, item = message("msg_1", 0, texts or ["Hello, ", "water ", "水 🌊"])
    return response(events, [item])


def interleaved() -> list[Event]:
    """A lawful stream: a message, then two calls whose arguments are interleaved."""
    written, text = message("msg_1", 0, ["Looking ", "both ", "up."])
    left, weather = call("fc_1", 1, "get_weather", ['{"city"', ":", '"Oslo"', "}"])
    right, time = call("fc_2", 2, "get_time", ['{"zone"', ":", '"CET"', "}"])
    turns = [event for pair in zip(left, right, strict=True) for event in pair]
    return response([*written, *turns], [text, weather, time])


def announced_twice() -> list[Event]:
    """A stream in which one call is announced twice, under two ids."""
    events, item = call("fc_1", 0, "get_weather", ['{"city":', '"Oslo"}'])
    again = copy.deepcopy(events[0])
    again["item"]["id"], again["output_index"] = "fc_2", 1
    return response([*events[:2], again, *events[2:]], [item])


def as_sse(events: list[Event], done: bool = True) -> bytes:
    frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join(frames).encode() + (b"data: [DONE]\n\n" if done else b"")


def as_lines(events: list[Event]) -> bytes:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events).encode()
