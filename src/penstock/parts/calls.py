"""Deliver each tool call of a response once, as soon as it is complete.

A call can become complete at three moments: its arguments are done, its item is done, the response is
completed (editor 14). A complete call has a name, an id, and arguments that are one JSON object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.lenient import object_of, parse_json, text_of
from penstock.parts.exchanges import to_editor
from penstock.parts.items import OutputItem, OutputItems
from penstock.parts.parts import ToolCallPart
from penstock.protocol.content import JsonObject
from penstock.stream.diagnostics import Report
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
"""Calls to tools that have a type instead of a name: the name used here, and how to get the input."""

ARGUMENT_FIELDS = {FUNCTION: "arguments", CUSTOM: "input"}
CALL_TYPES = frozenset({*ARGUMENT_FIELDS, *TYPED})


class Calls:
    """The calls of one response. `offered` are the tool names in the request, if known."""

    def __init__(self, items: OutputItems, report: Report, offered: Collection[str] | None) -> None:
        self._items = items
        self._report = report
        self._offered = offered
        self._delivered: set[str] = set()
        self.malformed = ""
        """The name of a tool that was called with malformed arguments; "" if there is none."""

    def announce(self, item: OutputItem, type: str, raw: JsonObject) -> None:
        item.type = type
        item.name = item.name or text_of(raw.get("name"))
        if type not in TYPED:  # typed calls may have a provisional id until they are done
            self._items.name_call(item, text_of(raw.get("call_id")))

    def add_fragment(self, item: OutputItem, type: str, fragment: str) -> None:
        item.type = item.type or type
        item.fragments.append(fragment)

    def arguments_done(self, item: OutputItem, type: str, arguments: Any, name: str) -> list[ToolCallPart]:
        """Handle the end of the arguments, the first moment.

        Empty arguments do not prove that the call is complete, so wait for the item. The same goes for the
        text of a custom tool: it may be cut off anywhere, and half a patch is still text.
        """
        item.type = item.type or type
        item.name = item.name or name
        item.final = "" if arguments is None else arguments
        if item.delivered or item.type == CUSTOM or not item.name or not item.call_id:
            return []
        input = _input(item, None) if _candidates(item, None) else None
        return [] if input is None else self._deliver(item, input)

    def item_done(self, item: OutputItem, type: str, raw: JsonObject) -> list[ToolCallPart]:
        """Handle the end of the item, the second moment; the third if only the terminal response has it."""
        self.announce(item, type, raw)
        item.name = text_of(raw.get("name")) or item.name
        item.done = True
        if item.delivered or raw.get("status") == "incomplete" or self._is_run_by_server(item, raw):
            return []
        # A server without call ids identifies a call by the id of its item.
        call_id = text_of(raw.get("call_id")) or item.id or f"call_{item.number}"
        self._items.name_call(item, call_id)
        if type in TYPED:
            item.name = TYPED[type][0]
            return self._deliver(item, _input_of(type, raw) or {})
        return self._deliver_or_report(item, _input(item, raw.get(ARGUMENT_FIELDS[type])))

    def deliver_remaining(self) -> list[ToolCallPart]:
        """Deliver the calls that have arguments although their item never ended (third moment)."""
        parts: list[ToolCallPart] = []
        for item in self._items.all:
            if not item.is_open or item.type not in CALL_TYPES or self._is_accounted_for(item):
                continue
            has_arguments = item.final is not None or _candidates(item, None)
            if item.type in ARGUMENT_FIELDS and item.name and has_arguments:
                self._items.name_call(item, item.id or f"call_{item.number}")
                parts += self._deliver_or_report(item, _input(item, None))
            else:
                self._report_malformed(item, "ended without its arguments")
        return parts

    def is_same_call(self, item: OutputItem, raw: JsonObject) -> bool:
        """Return whether a call with other ids is this item: same tool, same input."""
        type = text_of(raw.get("type")).removeprefix("openai:")
        name = TYPED[type][0] if type in TYPED else text_of(raw.get("name"))
        if item.type not in ("", type) or item.name not in ("", name):
            return False
        return not item.delivered or item.input == _input_of(type, raw)

    def _is_accounted_for(self, item: OutputItem) -> bool:
        """Return whether an open call was delivered as another item, or is run by the server."""
        return item.call_id in self._delivered or self._is_run_by_server(item, item.announced)

    def _deliver_or_report(self, item: OutputItem, input: JsonObject | None) -> list[ToolCallPart]:
        if input is None:
            self._report_malformed(item, "has arguments that are not a JSON object")
            return []
        return self._deliver(item, input)

    def _deliver(self, item: OutputItem, input: JsonObject) -> list[ToolCallPart]:
        item.delivered = True
        if not item.name:
            self._report_malformed(item, "has no tool name")
            return []
        if item.call_id in self._delivered:  # announced twice, under two item ids (ask B4)
            self._report("repeated_call", f"the call {item.call_id!r} was sent more than once")
            return []
        self._delivered.add(item.call_id)
        item.input = input
        if self._offered is not None and item.name not in self._offered:
            self._report("undeclared_tool", f"the model called {item.name!r}, which was not offered")
        return [ToolCallPart(to_editor(item.call_id), item.name, input)]

    def _report_malformed(self, item: OutputItem, flaw: str) -> None:
        if not item.malformed:  # the terminal response repeats the item
            item.malformed = True
            self.malformed = item.name or "an unnamed tool"
            self._report("malformed_tool_call", f"a call to {self.malformed!r} {flaw}")

    def _is_run_by_server(self, item: OutputItem, raw: JsonObject) -> bool:
        """Return whether the vendor runs this call itself (quirk R6, quirk R14, quirk R16)."""
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


def _candidates(item: OutputItem, from_item: Any) -> list[Any]:
    """Return the arguments in the item, its `done` event and its deltas, or else in its announcement."""
    announced = item.announced.get(ARGUMENT_FIELDS.get(item.type, ""))
    later = _not_blank(item.type, [from_item, item.final, item.arguments])
    return later or _not_blank(item.type, [announced])


def _not_blank(type: str, candidates: list[Any]) -> list[Any]:
    space = "" if type == CUSTOM else SPACE
    present = [each for each in candidates if each is not None]
    return [each for each in present if not isinstance(each, str) or each.strip(space)]


def _input(item: OutputItem, from_item: Any) -> JsonObject | None:
    """Return the first complete input; None if there are arguments but no JSON object."""
    return _first_object(item.type, _candidates(item, from_item))


def _input_of(type: str, raw: JsonObject) -> JsonObject | None:
    """Return the input in the item of a call."""
    if type in TYPED:
        return object_of(TYPED[type][1](raw))
    return _first_object(type, _not_blank(type, [raw.get(ARGUMENT_FIELDS[type])]))


def _first_object(type: str, candidates: list[Any]) -> JsonObject | None:
    if type == CUSTOM and not any(isinstance(each, dict) for each in candidates):
        return {"input": next((each for each in candidates if isinstance(each, str)), "")}
    objects = (each if isinstance(each, dict) else _parse_object(text_of(each)) for each in candidates)
    return next((each for each in objects if each is not None), None if candidates else {})


def _parse_object(text: str) -> JsonObject | None:
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
