"""The HTTP tests of the official compliance suite, as our own (notes/spec (f)): the demo model passes them.

Where the suite looks at shapes alone, every answer here is also judged by the checker and both schemas.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest

from tests.gateway.running import Reply, Running


def png(width: int = 2, height: int = 2) -> str:
    """A small picture as a data URL."""

    def block(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * width) * height
    data = b"\x89PNG\r\n\x1a\n" + block(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data += block(b"IDAT", zlib.compress(rows)) + block(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def message(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **fields}


WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}

REQUESTS: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [message("user", "Say hello in exactly 3 words.")]},
    "assistant-phase": {
        "input": [
            message("user", "What is 6 times 7?"),
            message("assistant", "Let me work that out.", phase="commentary"),
            message("assistant", "It is 42.", phase="final_answer"),
            message("user", "And plus one?"),
        ]
    },
    "system-prompt": {
        "input": [message("system", "You speak like a pirate."), message("user", "Say hello.")],
    },
    "image-input": {
        "input": [
            message(
                "user",
                [
                    {"type": "input_text", "text": "What is in this picture?"},
                    {"type": "input_image", "image_url": png()},
                ],
            )
        ]
    },
    "multi-turn": {
        "input": [
            message("user", "My name is Ada."),
            message("assistant", "Hello Ada, nice to meet you."),
            message("user", "What is my name?"),
        ]
    },
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_whole_and_completed(penstock: Running, name: str, stream: bool) -> None:
    reply = penstock.ask({"model": "demo", "stream": stream, **REQUESTS[name]})
    assert reply.status == 200
    assert completed(reply)["output"]


def test_streaming(penstock: Running) -> None:
    reply = penstock.stream("demo", "Count from 1 to 5.")
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.types[:2] == ["response.created", "response.in_progress"]
    assert reply.types[-1] == "response.completed"
    deltas = [event["delta"] for event in reply.events if event["type"] == "response.output_text.delta"]
    assert len(deltas) > 3
    assert "".join(deltas) == reply.text
    for number in "12345":
        assert number in reply.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called(penstock: Running, stream: bool) -> None:
    prompt = "What's the weather like in San Francisco?"
    reply = penstock.ask({"model": "demo", "input": prompt, "tools": [WEATHER], "stream": stream})
    calls = [item for item in completed(reply)["output"] if item["type"] == "function_call"]
    assert [call["name"] for call in calls] == ["get_weather"]
    assert completed(reply)["tools"][0]["strict"] is not None or "strict" in completed(reply)["tools"][0]


def completed(reply: Reply) -> dict[str, Any]:
    assert reply.last["status"] == "completed"
    return reply.last
