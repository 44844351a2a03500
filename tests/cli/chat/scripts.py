"""Scripts of a server for the chat: its list of models, and streams with thinking and tool calls."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from tests.cli import streams
from tests.client.server import Script, answer, streamed

MODEL = "test-model"
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

TOOLS = '''\
"""Tools for the tests."""


def weather(city: str, days: int = 1) -> str:
    """What the weather is in a city."""
    print("looking out of the window")
    return f"{city}: 3 degrees, rain for {days} day"
'''


def listed(*models: str | dict[str, Any]) -> Script:
    """Script `GET /models` with these models, or with one."""
    entries = [each if isinstance(each, dict) else {"id": each} for each in models or (MODEL,)]
    return [answer(200, {"object": "list", "data": entries})]


def said(*texts: str) -> Script:
    return streamed(streams.hello([*texts]))


def called(city: str = "Oslo", text: str = "") -> Script:
    """Script a turn that calls `weather`, after `text` if that is given."""
    events: list[streams.Event] = []
    output: list[streams.Event] = []
    if text:
        message, item = streams.message("msg_1", 0, [text])
        events, output = [*message], [item]
    call_events, call = streams.call("fc_1", len(output), "weather", ['{"city":', f'"{city}"}}'])
    return streamed(streams.response([*events, *call_events], [*output, call]))


def thought(thinking: list[str], texts: list[str]) -> Script:
    """Script a turn that thinks before it answers."""
    place = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    part = {"type": "reasoning_text", "text": "".join(thinking)}
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "content": [part], "status": "completed"}
    added = {**item, "content": [], "status": "in_progress"}
    thoughts: list[streams.Event] = [
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        *({"type": "response.reasoning.delta", **place, "delta": text} for text in thinking),
        {"type": "response.reasoning.done", **place, "text": part["text"]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    events, message = streams.message("msg_1", 1, texts)
    return streamed(streams.response([*thoughts, *events], [item, message]))


def refused(status: int, message: str, code: str = "", **headers: str) -> Script:
    return [answer(status, {"error": {"message": message, "code": code or None}}, **headers)]
