"""Scripts of a server for the tests of the chat: its list of models, and streams with thinking and tools."""

from __future__ import annotations

from typing import Any

from tests.cli import streams
from tests.client.server import Script, answer, streamed

MODEL = "test-model"

TOOLS = '''\
"""Tools for the tests."""


def weather(city: str, days: int = 1) -> str:
    """What the weather is in a city."""
    print("looking out of the window")
    return f"{city}: 3 degrees, rain for {days} day"
'''


def listed(*models: str | dict[str, Any]) -> Script:
    """`GET /models`, with these models or with one."""
    entries = [each if isinstance(each, dict) else {"id": each} for each in models or (MODEL,)]
    return [answer(200, {"object": "list", "data": entries})]


def said(*texts: str) -> Script:
    return streamed(streams.hello([*texts]))


def called(city: str = "Oslo", text: str = "") -> Script:
    """A turn that calls `weather`, perhaps with some words before it."""
    events: list[streams.Event] = []
    output: list[streams.Event] = []
    if text:
        said, item = streams.message("msg_1", 0, [text])
        events, output = [*said], [item]
    told, call = streams.call("fc_1", len(output), "weather", ['{"city":', f'"{city}"}}'])
    return streamed(streams.response([*events, *told], [*output, call]))


def thought(thinking: list[str], texts: list[str]) -> Script:
    """A turn that thinks before it answers."""
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
    told, message = streams.message("msg_1", 1, texts)
    return streamed(streams.response([*thoughts, *told], [item, message]))


def refused(status: int, message: str, code: str = "", **headers: str) -> Script:
    return [answer(status, {"error": {"message": message, "code": code or None}}, **headers)]
