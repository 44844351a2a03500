"""What a stream may contain in each accent: items, events of hosted tools, and citations (decision 1).

Each accent permits what the accents before it in `ORDER` permit, and more. So a stream that was made for one
accent can be read in it and in every later one.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocol.content import Annotation
from penstock.protocol.events import (
    AnnotationAddedEvent,
    Event,
    HostedToolEvent,
    OutputItemEvent,
    UnknownEvent,
)
from penstock.protocol.items import CustomToolCall, Item
from penstock.protocol.tools import CustomTool, Tool
from penstock.stream.accents import PORTABLE_EVENTS
from penstock.tools.identity import flat

ORDER = ("openresponses", "copilot", "openai")
"""The accents, the strictest first."""

_ALWAYS = frozenset(
    {
        # the specification's own
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
        "compaction",
        # The only form of an image, which a model may also create without a tool.
        "image_generation_call",
    }
)

_TOOLS: dict[str, tuple[str, ...]] = {
    "web_search": ("web_search", "web_fetch"),
    "code_interpreter": ("code_interpreter", "code_execution"),
    "mcp_list_tools": ("mcp",),
    "mcp_approval_request": ("mcp",),
    "mcp_approval_response": ("mcp",),
}
"""How the type of a declared tool may begin, by the kind of item. Any other item is called like its tool."""

_SUFFIXES = ("_call_output", "_output", "_call")

OPENAI_CITATIONS = frozenset({"url_citation", "file_citation", "container_file_citation", "file_path"})
_CITATIONS = {"openresponses": frozenset({"url_citation"})}


class Permissions:
    """What the stream of one request may contain. `tools` are the tools that the request declares."""

    __slots__ = ("_citations", "_custom", "_gets_sub_events", "_types", "is_strict")

    def __init__(self, accent: str, tools: Iterable[Tool]) -> None:
        self.is_strict = accent == "openresponses"
        self._gets_sub_events = accent == "openai"
        self._citations = _CITATIONS.get(accent, OPENAI_CITATIONS)
        declared = [tool for _, tool in flat(tools)]
        self._types = {tool.type.rpartition(":")[2] for tool in declared}
        self._custom = {tool.name for tool in declared if isinstance(tool, CustomTool)}

    def item(self, item: Item) -> bool:
        """Return whether the client gets this item: in the strict accent it must be in the specification, or
        the request must declare its tool."""
        if not self.is_strict or item.type in _ALWAYS:
            return True
        if isinstance(item, CustomToolCall):
            return self.custom_call(item.name)
        kind = item.type.rpartition(":")[2]
        kind = next((kind.removesuffix(each) for each in _SUFFIXES if kind.endswith(each)), kind)
        return any(type.startswith(_TOOLS.get(kind, (kind,))) for type in self._types)

    def custom_call(self, name: str) -> bool:
        """Return whether the client gets a call of this name as a `custom_tool_call`."""
        return not self.is_strict or name in self._custom

    def sub_event(self, type: str) -> bool:
        """Return whether the client gets an event of an item that it gets."""
        return self._gets_sub_events or type.rpartition(".")[0] in PORTABLE_EVENTS

    def citation(self, annotation: Annotation) -> bool:
        return annotation.type in self._citations

    def event(self, event: Event) -> bool:
        """Return whether an event of the state machine, or of its log, is permitted."""
        if isinstance(event, OutputItemEvent):
            return self.item(event.item)
        if isinstance(event, AnnotationAddedEvent):
            return event.annotation is not None and self.citation(event.annotation)
        if isinstance(event, HostedToolEvent):
            return self.sub_event(event.type)
        if isinstance(event, UnknownEvent):
            return "output_index" not in (event.extra or {}) or self.sub_event(event.type)
        return True


def includes(accent: str, other: str) -> bool:
    """Return whether `accent` permits everything that `other` permits."""
    return ORDER.index(accent) >= ORDER.index(other)
