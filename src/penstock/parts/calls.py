"""Tool calls of a response, each delivered once, when it is first whole.

There are three moments at which a call can be whole: its arguments are done, its item is done, the response
is completed (seed 000). Whole means: it has a name, an id, and arguments that are one JSON object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.dialects.frames import object_of, text_of
from penstock.dialects.responses.reader import XAI_TOOLS
from penstock.parts.call_ids import to_editor
from penstock.parts.fields import JSON
from penstock.parts.items import OutputItem, OutputItems
from penstock.parts.parts import ToolCallPart
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.jsontext import SPACE, parse

FUNCTION, CUSTOM = "function_call", "custom_tool_call"

TYPED: dict[str, tuple[str, Callable[[JSON], Any]]] = {
    "local_shell_call": ("local_shell", lambda raw: raw.get("action")),
    "shell_call": ("shell", lambda raw: raw.get("action")),
    "apply_patch_call": ("apply_patch", lambda raw: raw.get("operation")),
    "tool_search_call": ("tool_search", lambda raw: raw.get("arguments")),
    "computer_call": ("computer", lambda raw: raw.get("action") or {"actions": raw.get("actions")}),
}
"""Calls to tools that have a type instead of a name: the name they go by here, and what their input is."""

WHOLE_FIELDS = {FUNCTION: "arguments", CUSTOM: "input"}
CALL_TYPES = frozenset({*WHOLE_FIELDS, *TYPED})


class Calls:
    """The calls of one response. `offered` are the names of the tools that the request had, if known."""

    def __init__(self, items: OutputItems, told: Diagnostics, offered: Collection[str] | None) -> None:
        self._items = items
        self._told = told
        self._offered = offered
        self._delivered: set[str] = set()
        self.flawed = ""
        """The name of a tool that was called with arguments that are no object."""

    def announce(self, item: OutputItem, type: str, raw: JSON) -> None:
        item.type = type
        item.name = item.name or text_of(raw.get("name"))
        if type not in TYPED:  # those may have a provisional id until they are done
            self._items.name_call(item, text_of(raw.get("call_id")))

    def take(self, item: OutputItem, type: str, fragment: str) -> None:
        item.type = item.type or type
        item.fragments.append(fragment)

    def arguments_done(self, item: OutputItem, type: str, whole: Any, name: str) -> list[ToolCallPart]:
        """The first moment. Empty arguments are no proof of a whole call: the item will tell."""
        item.type = item.type or type
        item.name = item.name or name
        item.final = whole if isinstance(whole, str) else ""
        input = self._input(item, None)
        is_whole = input is not None and item.name and item.call_id and not _is_blank(item)
        if input is None or not is_whole or self._runs_elsewhere(item, item.announced):
            return []
        return self._deliver(item, input)

    def item_done(self, item: OutputItem, type: str, raw: JSON) -> list[ToolCallPart]:
        """The second moment, and the third for an item that only the terminal response has."""
        self.announce(item, type, raw)
        item.done = True
        if item.delivered or raw.get("status") == "incomplete" or self._runs_elsewhere(item, raw):
            return []
        # A server without call ids knows its call by the id of the item.
        call_id = text_of(raw.get("call_id")) or item.id or f"call_{item.number}"
        self._items.name_call(item, call_id)
        if type in TYPED:
            item.name, read = TYPED[type]
            return self._deliver(item, object_of(read(raw)))
        return self._deliver_or_tell(item, self._input(item, raw.get(WHOLE_FIELDS[type])))

    def leave(self) -> list[ToolCallPart]:
        """The response is completed: a call whose arguments ended is whole, though its item never did."""
        parts: list[ToolCallPart] = []
        for item in self._items.all:
            if item.type in WHOLE_FIELDS and item.is_open and item.final is not None and item.name:
                self._items.name_call(item, item.id or f"call_{item.number}")
                parts += self._deliver_or_tell(item, self._input(item, None))
            elif item.type in CALL_TYPES and item.is_open:
                self._tell_flawed(item, "ended without its arguments")
        return parts

    def _deliver_or_tell(self, item: OutputItem, input: JSON | None) -> list[ToolCallPart]:
        if input is None:
            self._tell_flawed(item, "has arguments that are no JSON object")
            return []
        return self._deliver(item, input)

    def _deliver(self, item: OutputItem, input: JSON) -> list[ToolCallPart]:
        item.delivered = True
        if not item.name:
            self._tell_flawed(item, "does not say which tool it is to")
            return []
        if item.call_id in self._delivered:  # announced twice, under two item ids (seed 002)
            self._told.tell("repeated_call", f"the call {item.call_id!r} came more than once")
            return []
        self._delivered.add(item.call_id)
        if self._offered is not None and item.name not in self._offered:
            self._told.tell("undeclared_tool", f"the model called {item.name!r}, which was not offered")
        return [ToolCallPart(to_editor(item.call_id), item.name, input)]

    def _tell_flawed(self, item: OutputItem, flaw: str) -> None:
        self.flawed = item.name or "a tool without a name"
        self._told.tell("malformed_tool_call", f"a call to {self.flawed!r} {flaw}")

    def _runs_elsewhere(self, item: OutputItem, raw: JSON) -> bool:
        """Is this a call that the vendor runs itself, although it looks like one for us (R6, R14, R16)?"""
        if item.type == CUSTOM:
            return item.name in XAI_TOOLS and item.name not in (self._offered or ())
        if item.type == "shell_call":
            return text_of(object_of(raw.get("environment")).get("type")).startswith("container")
        return item.type == "tool_search_call" and (
            raw.get("execution") == "server" or not raw.get("call_id")
        )

    def _input(self, item: OutputItem, told: Any) -> JSON | None:
        """The input, from the telling that is whole: the item's, its `done` event's, its deltas'."""
        if isinstance(told, dict):
            return told
        tellings = [text_of(told), item.final or "", "".join(item.fragments)]
        if item.type == CUSTOM:
            return {"input": next(filter(None, tellings), "")}
        tellings = [telling for telling in tellings if telling.strip(SPACE)]
        for telling in tellings:
            input = _object(telling)
            if input is not None:
                return input
        return None if tellings else {}

    @property
    def any_delivered(self) -> bool:
        return bool(self._delivered)


def _is_blank(item: OutputItem) -> bool:
    return not (item.final or "").strip(SPACE) and not "".join(item.fragments).strip(SPACE)


def _object(text: str) -> JSON | None:
    try:
        value = parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
