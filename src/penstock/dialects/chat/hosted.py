"""What a vendor did itself: tools that it ran, images that it generated (quirk C31).

They become items for information only, never calls that the client would run.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.dialects.chat.citations import Citations
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.items import Item, UnknownItem, WebSearchCall
from penstock.stream.deltas import Delta, DiagnosticDelta, ItemDelta

HOSTED_FIELDS = frozenset({"executed_tools", "images"})


class Hosted:
    """Announces each tool when it first appears and ends it with its output; later entries are repeats."""

    __slots__ = ("_done", "_images", "citations")

    def __init__(self) -> None:
        self.citations = Citations()
        self._done: set[str] = set()
        self._images: set[str] = set()

    def read(self, delta: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        for position, tool in enumerate(objects_of(delta.get("executed_tools"))):
            deltas += self._read_tool(tool, position)
        for image in objects_of(delta.get("images")):
            deltas += self._read_image(text_of(object_of(image.get("image_url")).get("url")))
        return deltas

    def _read_tool(self, tool: dict[str, Any], position: int) -> list[Delta]:
        index, kind = tool.get("index"), text_of(tool.get("type"))
        key = f"executed_tool {index if isinstance(index, int | str) else position}"
        make = _MAKERS.get(kind)
        if key in self._done:
            return []
        if make is None:
            self._done.add(key)
            message = f"the vendor ran a tool of the unknown type {kind[:64]!r}; it was left out"
            return [DiagnosticDelta("executed_tool_left_out", message)]
        done = "output" in tool
        if done:
            self._done.add(key)
        deltas: list[Delta] = [ItemDelta(key, make(tool), done=done)]
        for result in _results(tool):
            deltas += self.citations.cite(result)
        return deltas

    def _read_image(self, url: str) -> list[Delta]:
        if url in self._images:
            return []
        self._images.add(url)
        head, _, data = url.partition(";base64,")
        if not (head.startswith("data:image/") and data):
            return [DiagnosticDelta("image_left_out", "an image was left out: it is not a base64 data URL")]
        item = UnknownItem(type="image_generation_call", extra={"result": data})
        return [ItemDelta(f"image {len(self._images)}", item, done=True)]


def _results(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return objects_of(object_of(tool.get("search_results")).get("results"))


def _arguments(tool: dict[str, Any]) -> dict[str, Any]:
    try:
        return object_of(msgspec.json.decode(text_of(tool.get("arguments"))))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _search(tool: dict[str, Any]) -> Item:
    query = text_of(_arguments(tool).get("query"))
    sources = [{"type": "url", "url": url} for each in _results(tool) if (url := text_of(each.get("url")))]
    action: dict[str, Any] = {"type": "search", "query": query}
    return WebSearchCall(action=action | ({"sources": sources} if sources else {}))


def _visit(tool: dict[str, Any]) -> Item:
    return WebSearchCall(action={"type": "open_page", "url": text_of(_arguments(tool).get("url"))})


def _code(tool: dict[str, Any]) -> Item:
    output = text_of(tool.get("output"))
    return UnknownItem(
        type="code_interpreter_call",
        extra={
            "code": text_of(_arguments(tool).get("code")),
            "container_id": "",
            "outputs": [{"type": "logs", "logs": output}] if output else [],
        },
    )


_MAKERS = {
    "search": _search,
    "browser_search": _search,
    "browser.search": _search,
    "visit": _visit,
    "browser.open": _visit,
    "python": _code,
    "code_interpreter": _code,
}
"""The closest OpenAI item for each type of tool."""
