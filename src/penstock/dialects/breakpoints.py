"""Cache breakpoints: marks in a request after which the upstream should cache the prompt.

OpenAI's clients set `prompt_cache_breakpoint` on content parts; it is also accepted on whole items and on
tools. Upstreams that have such marks get them; for others they are dropped with a diagnostic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from penstock.protocol.content import ContentPart, InputText
from penstock.protocol.items import Item, Message
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import NamespaceTool, Tool
from penstock.protocol.wire import Wire

BREAKPOINT = "prompt_cache_breakpoint"

_CONTENT = ("content", "output")
"""Fields of an item that may hold content parts."""


def has_breakpoint(value: Wire) -> bool:
    """Return whether a part, an item or a tool itself has a mark."""
    return bool(value.extra and value.extra.get(BREAKPOINT))


def any_breakpoint(request: CreateResponse) -> bool:
    """Return whether anything in a request has a mark."""
    items = request.input if isinstance(request.input, list) else []
    return any(map(_item_has_breakpoint, items)) or _tools_have_breakpoint(request.tools or ())


def marked_parts(item: Item, content: str | list[ContentPart]) -> str | list[ContentPart]:
    """Return the content of an item. A mark on the item itself is moved to its last part."""
    if not has_breakpoint(item) or not content:
        return content
    parts: list[ContentPart] = [InputText(text=content)] if isinstance(content, str) else content
    extra: dict[str, Any] = {**(parts[-1].extra or {}), BREAKPOINT: (item.extra or {})[BREAKPOINT]}
    return [*parts[:-1], replace(parts[-1], extra=extra)]


def is_marked(message: Message) -> bool:
    """Return whether a message, or a part of it, has a mark."""
    parts = message.content if isinstance(message.content, list) else []
    return has_breakpoint(message) or any(map(has_breakpoint, parts))


def _item_has_breakpoint(item: Item) -> bool:
    if has_breakpoint(item):
        return True
    for name in _CONTENT:
        parts = getattr(item, name, None)
        if isinstance(parts, list) and any(isinstance(part, Wire) and has_breakpoint(part) for part in parts):
            return True
    return False


def _tools_have_breakpoint(tools: Iterable[Tool]) -> bool:
    return any(
        has_breakpoint(tool) or (isinstance(tool, NamespaceTool) and _tools_have_breakpoint(tool.tools))
        for tool in tools
    )
