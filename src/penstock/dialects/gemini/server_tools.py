"""Tools that Gemini runs itself (quirk G9), as the closest OpenAI items; never calls for the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.gemini.grounding import open_page_item, search_item
from penstock.lenient import camel_field, text_of
from penstock.protocol.items import Item, UnknownItem
from penstock.stream.deltas import Delta, DiagnosticDelta, ItemDelta

SEARCHES: dict[str, str] = {
    "GOOGLE_SEARCH": "web_search_call",
    "GOOGLE_SEARCH_WEB": "web_search_call",
    "GOOGLE_SEARCH_IMAGE": "web_search_call",
    "FILE_SEARCH": "file_search_call",
}
"""The search tools, and the item type for each."""


class RunningServerTool(Struct):
    key: int
    id: str
    item: Item


class GeminiServerTools:
    """The vendor's tools in one answer: a call announces an item, and its result completes it."""

    PARTS: ClassVar = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")

    def __init__(self, keys: Iterator[int]) -> None:
        self._keys = keys
        self._running: list[RunningServerTool] = []

    def read(self, part: str, value: dict[str, Any]) -> list[Delta]:
        match part:
            case "executableCode":
                return self._start(_code(text_of(value.get("code"))), text_of(value.get("id")))
            case "codeExecutionResult":
                return self._code_result(value)
            case "toolCall":
                return self._tool_call(value)
            case _:
                return self._tool_response(value)

    def _start(self, item: Item, id: str) -> list[Delta]:
        running = RunningServerTool(next(self._keys), id, item)
        self._running.append(running)
        return [ItemDelta(running.key, item, done=False)]

    def _finish(self, id: str, type: str) -> RunningServerTool | None:
        """Remove and return the call that a result belongs to: by its id, else the latest of its type."""
        for running in reversed(self._running):
            if running.id == id if id and running.id else running.item.type == type:
                self._running.remove(running)
                return running
        return None

    def _code_result(self, result: dict[str, Any]) -> list[Delta]:
        running = self._finish(text_of(result.get("id")), "code_interpreter_call")
        running = running or RunningServerTool(next(self._keys), "", _code(""))
        outcome = result.get("outcome")
        status = "completed" if outcome in ("OUTCOME_OK", 1) else "failed"
        logs = [{"type": "logs", "logs": text_of(result.get("output"))}]
        item = replace(running.item, status=status, extra={**(running.item.extra or {}), "outputs": logs})
        return [ItemDelta(running.key, item, done=True)]

    def _tool_call(self, call: dict[str, Any]) -> list[Delta]:
        type = text_of(camel_field(call, "toolType"))
        arguments = call.get("args")
        values = arguments if isinstance(arguments, dict) else {}
        if type in SEARCHES:
            item = search_item(SEARCHES[type], _texts(values, "queries", "query"), "in_progress")
        elif type == "URL_CONTEXT":
            item = open_page_item("".join(_texts(values, "urls", "url")[:1]), "in_progress")
        else:
            return [
                DiagnosticDelta(
                    "left_out", f"the upstream's own tool {type[:100] or 'without a type'} was left out"
                )
            ]
        return self._start(item, text_of(call.get("id")))

    def _tool_response(self, response: dict[str, Any]) -> list[Delta]:
        type = text_of(camel_field(response, "toolType"))
        running = self._finish(text_of(response.get("id")), SEARCHES.get(type, "web_search_call"))
        if running is None:
            message = f"a result of the upstream's own tool {type[:100] or 'without a type'} was left out"
            return [DiagnosticDelta("left_out", message)]
        return [ItemDelta(running.key, replace(running.item, status="completed"), done=True)]


def image(data: dict[str, Any]) -> Item | None:
    """Return the item for a generated image; None for any other data."""
    kind, _, format = text_of(camel_field(data, "mimeType")).partition("/")
    content = text_of(data.get("data"))
    if kind != "image" or not content:
        return None
    fields = {"result": content, "output_format": format}
    return UnknownItem(type="image_generation_call", status="completed", extra=fields)


def _code(code: str) -> Item:
    fields = {"code": code, "container_id": "", "outputs": None}
    return UnknownItem(type="code_interpreter_call", status="in_progress", extra=fields)


def _texts(arguments: dict[str, Any], plural: str, singular: str) -> list[str]:
    """Return the texts of the list field `plural`, or the text of the field `singular`."""
    values = arguments.get(plural)
    texts = values if isinstance(values, list) else [arguments.get(singular)]
    return [text for text in texts if isinstance(text, str) and text]
