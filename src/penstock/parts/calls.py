"""Tool calls of a response, each delivered once, when it is first whole.

There are three moments at which a call can be whole: its arguments are done, its item is done, the response
is completed (editor 14). Whole means: it has a name, an id, and arguments that are one JSON object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.lenient import object_of, parse_json, text_of
from penstock.parts.exchanges import to_editor
from penstock.parts.items import OutputItem, OutputItems
from penstock.parts.parts import ToolCallPart
from penstock.protocol.content import JsonObject
from penstock.stream.diagnostics import Tell
from penstock.tools.custom import RUN_BY_SERVER
from penstock.tools.jsontext import SPACE

FUNCTION, CUSTOM = "function_call", "custom_tool_call"

TYPED: dict[str, tuple[str, Callable[[JsonObject], Any]]] = {
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

    def __init__(self, items: OutputItems, tell: Tell, offered: Collection[str] | None) -> None:
        self._items = items
        self._tell = tell
        self._offered = offered
        self._delivered: set[str] = set()
        self.flawed = ""
        """The name of a tool that was called with arguments that are no object."""

    def announce(self, item: OutputItem, type: str, raw: JsonObject) -> None:
        item.type = type
        item.name = item.name or text_of(raw.get("name"))
        if type not in TYPED:  # those may have a provisional id until they are done
            self._items.name_call(item, text_of(raw.get("call_id")))

    def take(self, item: OutputItem, type: str, fragment: str) -> None:
        item.type = item.type or type
        item.fragments.append(fragment)

    def arguments_done(self, item: OutputItem, type: str, whole: Any, name: str) -> list[ToolCallPart]:
        """The first moment. Empty arguments are no proof of a whole call: the item will tell.

        Neither is a custom tool's text, which may have been cut off anywhere: half a patch is a text too.
        """
        item.type = item.type or type
        item.name = item.name or name
        item.final = "" if whole is None else whole
        if item.delivered or item.type == CUSTOM or not item.name or not item.call_id:
            return []
        input = _input(item, None) if _tellings(item, None) else None
        return [] if input is None else self._deliver(item, input)

    def item_done(self, item: OutputItem, type: str, raw: JsonObject) -> list[ToolCallPart]:
        """The second moment, and the third for an item that only the terminal response has."""
        self.announce(item, type, raw)
        item.name = text_of(raw.get("name")) or item.name
        item.done = True
        if item.delivered or raw.get("status") == "incomplete" or self._runs_elsewhere(item, raw):
            return []
        # A server without call ids knows its call by the id of the item.
        call_id = text_of(raw.get("call_id")) or item.id or f"call_{item.number}"
        self._items.name_call(item, call_id)
        if type in TYPED:
            item.name = TYPED[type][0]
            return self._deliver(item, _input_of(type, raw) or {})
        return self._deliver_or_tell(item, _input(item, raw.get(WHOLE_FIELDS[type])))

    def leave(self) -> list[ToolCallPart]:
        """The response is completed: a call that has its arguments is whole, though its item never ended."""
        parts: list[ToolCallPart] = []
        for item in self._items.all:
            if not item.is_open or item.type not in CALL_TYPES or self._is_accounted_for(item):
                continue
            has_arguments = item.final is not None or _tellings(item, None)
            if item.type in WHOLE_FIELDS and item.name and has_arguments:
                self._items.name_call(item, item.id or f"call_{item.number}")
                parts += self._deliver_or_tell(item, _input(item, None))
            else:
                self._tell_flawed(item, "ended without its arguments")
        return parts

    def is_same(self, item: OutputItem, raw: JsonObject) -> bool:
        """Is a call under other ids the one that this item is: to the same tool, with the same input?"""
        type = text_of(raw.get("type")).removeprefix("openai:")
        name = TYPED[type][0] if type in TYPED else text_of(raw.get("name"))
        if item.type not in ("", type) or item.name not in ("", name):
            return False
        return not item.delivered or item.input == _input_of(type, raw)

    def _is_accounted_for(self, item: OutputItem) -> bool:
        """Was an open call delivered as another item, or is it none for us?"""
        return item.call_id in self._delivered or self._runs_elsewhere(item, item.announced)

    def _deliver_or_tell(self, item: OutputItem, input: JsonObject | None) -> list[ToolCallPart]:
        if input is None:
            self._tell_flawed(item, "has arguments that are no JSON object")
            return []
        return self._deliver(item, input)

    def _deliver(self, item: OutputItem, input: JsonObject) -> list[ToolCallPart]:
        item.delivered = True
        if not item.name:
            self._tell_flawed(item, "does not say which tool it is to")
            return []
        if item.call_id in self._delivered:  # announced twice, under two item ids (ask B4)
            self._tell("repeated_call", f"the call {item.call_id!r} came more than once")
            return []
        self._delivered.add(item.call_id)
        item.input = input
        if self._offered is not None and item.name not in self._offered:
            self._tell("undeclared_tool", f"the model called {item.name!r}, which was not offered")
        return [ToolCallPart(to_editor(item.call_id), item.name, input)]

    def _tell_flawed(self, item: OutputItem, flaw: str) -> None:
        if not item.flawed:  # which the item tells, and the terminal response once more
            item.flawed = True
            self.flawed = item.name or "a tool without a name"
            self._tell("malformed_tool_call", f"a call to {self.flawed!r} {flaw}")

    def _runs_elsewhere(self, item: OutputItem, raw: JsonObject) -> bool:
        """Is this a call that the vendor runs itself, although it looks like one for us (quirk R6, quirk R14,
        quirk R16)?"""
        if item.type == CUSTOM:
            return item.name in RUN_BY_SERVER and item.name not in (self._offered or ())
        if item.type == "shell_call":
            return text_of(object_of(raw.get("environment")).get("type")).startswith("container")
        return item.type == "tool_search_call" and (
            raw.get("execution") == "server" or not raw.get("call_id")
        )

    @property
    def any_delivered(self) -> bool:
        return bool(self._delivered)


def _tellings(item: OutputItem, told: Any) -> list[Any]:
    """The arguments of a call: of its item, their `done` event, their deltas; else as it was announced."""
    announced = item.announced.get(WHOLE_FIELDS.get(item.type, ""))
    later = _not_blank(item.type, [told, item.final, item.arguments])
    return later or _not_blank(item.type, [announced])


def _not_blank(type: str, tellings: list[Any]) -> list[Any]:
    space = "" if type == CUSTOM else SPACE
    told = [each for each in tellings if each is not None]
    return [each for each in told if not isinstance(each, str) or each.strip(space)]


def _input(item: OutputItem, told: Any) -> JsonObject | None:
    """The input, from the telling that is whole. None where there are arguments and none are an object."""
    return _first_whole(item.type, _tellings(item, told))


def _input_of(type: str, raw: JsonObject) -> JsonObject | None:
    """The input that the item of a call has."""
    if type in TYPED:
        return object_of(TYPED[type][1](raw))
    return _first_whole(type, _not_blank(type, [raw.get(WHOLE_FIELDS[type])]))


def _first_whole(type: str, tellings: list[Any]) -> JsonObject | None:
    if type == CUSTOM and not any(isinstance(each, dict) for each in tellings):
        return {"input": next((each for each in tellings if isinstance(each, str)), "")}
    objects = (each if isinstance(each, dict) else _object(text_of(each)) for each in tellings)
    return next((each for each in objects if each is not None), None if tellings else {})


def _object(text: str) -> JsonObject | None:
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
