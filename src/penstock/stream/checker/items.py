"""Checks item events: each item is added once, closed once, under one id, and closed with what was streamed.

An item that was never added is reported once and then adopted, so that one fault gives one violation.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from penstock.stream.checker.names import (
    CALLS,
    NAMED_CALLS,
    SPECIFIED_ITEMS,
    DeclaredTools,
    Names,
    has_slug,
)
from penstock.stream.checker.shapes import ITEM, ITEMS_BY_TYPE, Shape, faults
from penstock.stream.checker.state import (
    ARGUMENTS,
    FLOWS,
    REASONING,
    Event,
    Findings,
    ItemState,
    PartState,
    same,
    show,
    string,
)

V = TypeVar("V", str, int, dict[str, Any])

ID_LENGTH = 64
STREAMED = frozenset({"message", "function_call", "reasoning", "custom_tool_call"})
CONTENT_HOLDERS = frozenset({"message", "reasoning"})
CONSTANT = ("type", "role", "name", "call_id", "namespace", "phase")
_FILLED = ("arguments", "input", "content", "summary")


class Items:
    """All items of one response."""

    def __init__(self, findings: Findings, names: Names) -> None:
        self.is_resumed = False
        """The stream was resumed after its beginning: items that were added before it are not reported."""
        self.tools: DeclaredTools | None = None
        """The tools of the request; None if they are unknown, or if the client gets items of other tools."""
        self.strict = not findings.tolerant
        self.response_id = ""
        self._all: list[ItemState] = []
        self._ordered: list[ItemState] = []
        """The same in the order of their indexes, which is that of their events in a lawful stream."""
        self._findings = findings
        self._report = findings.report
        self._names = names
        self._by_id: dict[str, ItemState] = {}
        self._by_index: dict[int, ItemState] = {}
        self._calls: dict[str, ItemState] = {}
        self._next_index = 0
        self._truncated = ""

    def in_order(self) -> list[ItemState]:
        if len(self._ordered) < len(self._all):
            self._ordered = sorted(self._all, key=lambda item: item.index)
        return self._ordered

    def with_id(self, id: str) -> ItemState | None:
        return self._by_id.get(id)

    # --- events

    def added(self, event: Event) -> None:
        index = self.field(event, "output_index", int)
        value = self._value(event)
        id, type = (string(value, "id"), string(value, "type")) if value else ("", "")
        known = self._by_id.get(id)
        if known is not None and index in (None, known.index):
            self._report("item.added-twice", f"{known} was already added")
            return
        if known is not None:
            self._report(
                "item.id-reused", f"{known} at index {known.index} and the item at index {index} share an id"
            )
        twin = self._twin(value, id, type)
        if twin is not None and index == twin.index:
            self._by_id[id] = twin  # the same position again: do not report it under other rules too
            return
        if index is not None and index != self._next_index and not (self.is_resumed and not self._all):
            self._report("item.index-order", f"output_index is {index}, expected {self._next_index}")
        item = self._enter(id, type, index)
        if value is not None:
            item.announced = value
            self._check_announced(item, value)

    def done(self, event: Event) -> None:
        before = self._findings.count
        index = self.field(event, "output_index", int)
        value = self._value(event)
        id, type = (string(value, "id"), string(value, "type")) if value else ("", "")
        item = self._find(id if value else None, index, type)
        if item is None:
            return
        if item.final is not None:
            self._report("item.done-twice", f"{item} was already done", item.number)
            return
        item.final = value or {}
        item.type = item.type or type
        if value is not None:
            self._check_value(item, value)
            self._check_constant(item, value)
            self._check_done_status(item, value)
            if not self._was_not_streamed(item):
                self._check_content(item, value)
                self._check_flow(item, value)
        item.disputed = item.disputed or self._findings.count > before or id != item.id

    def tool_event(self, event: Event) -> None:
        """Check the item of a tool's sub-event. Shell command events have no item id (quirk R15)."""
        index = self.field(event, "output_index", int)
        id = self.field(event, "item_id", str) if "item_id" in event else None
        self._require_open(self._find(id, index, ""), event)

    # --- finding the item

    def open_item(self, event: Event, type: str) -> ItemState | None:
        """Return the item that an event refers to, or None if it is closed. `type` is the expected type."""
        id = self.field(event, "item_id", str)
        index = self.field(event, "output_index", int)
        return self._require_open(self._find(id, index, type), event)

    def _require_open(self, item: ItemState | None, event: Event) -> ItemState | None:
        if item is not None and item.final is not None:
            self._report("item.closed", f"{event['type']} after the end of {item}", item.number)
            return None
        return item

    def _find(self, id: str | None, index: int | None, type: str) -> ItemState | None:
        """Find an item by index and id (None if the event has none); adopt it if it was never added."""
        here = self._by_index.get(index) if index is not None else None
        if here is not None and id in (here.id, None):
            return here
        id = id or ""
        named = self._by_id.get(id)
        if named is not None:
            if index is not None and index != named.index:
                self._report(
                    "item.index-changed", f"{named} is at index {named.index}, not {index}", named.number
                )
            return named
        caller = self._calls.get(id)
        if caller is not None:
            self._report(
                "item.id-is-call-id", f"{caller} is addressed by its call id {show(id)}", caller.number
            )
            return caller
        if here is not None:
            if here.id:
                self._report("item.id-changed", f"the id of {here} changed to {show(id)}", here.number)
            else:
                self._rename(here, id)  # it was added without an id, which is already reported
            return here
        if not id and index is None:
            return None
        item = self._enter(id, type, index)
        item.adopted = True
        if not self.is_resumed:
            self._report("item.added-missing", f"{item} was never added")
        return item

    def _enter(self, id: str, type: str, index: int | None) -> ItemState:
        item = ItemState(len(self._all), self._next_index if index is None else index, id, type)
        self._all.append(item)
        self._by_index[item.index] = item
        self._rename(item, id)
        self._next_index = item.index + 1
        return item

    def _rename(self, item: ItemState, id: str) -> None:
        item.id = id
        if id:
            self._by_id[id] = item

    def _twin(self, value: dict[str, Any] | None, id: str, type: str) -> ItemState | None:
        """Return another item with the same call id, and report it (ask B4)."""
        call_id = string(value, "call_id") if value and type in CALLS else ""
        twin = self._calls.get(call_id)
        if twin is None or twin.id == id:
            return None
        self._report(
            "call.duplicate", f"two items have call id {show(call_id)}: {show(twin.id)} and {show(id)}"
        )
        return twin

    def _was_not_streamed(self, item: ItemState) -> bool:
        """Return whether the events of the item were not in the stream, so that nothing can be compared."""
        if self.is_resumed and item.adopted:
            return True
        return (
            item.announced is None and not item.flow_done and not item.flow and not any(item.parts.values())
        )

    # --- fields of an item

    def _value(self, event: Event) -> dict[str, Any] | None:
        value = event.get("item")
        if isinstance(value, dict):
            return value
        if "item" in event:
            self._report("item.null", f"the item of {event['type']} is not an object")
        else:
            self._report("event.fields", f"{event['type']} has no `item`", (event["type"], "item"))
        return None

    def _check_announced(self, item: ItemState, value: dict[str, Any]) -> None:
        if not item.id:
            self._report("item.id", f"{item} is added without an id")
        elif len(item.id) > ID_LENGTH:
            self._report("item.id-length", f"the id of {item} has {len(item.id)} characters")
        if item.id and item.id == self.response_id:
            self._report("item.id-reused", f"{item} has the id of the response")
        if self._truncated:
            self._report(
                "item.after-incomplete", f"{item} is added after {self._truncated} ended incomplete", ""
            )
        self._check_value(item, value)
        if item.type not in STREAMED:
            return
        status = value.get("status")
        if isinstance(status, str) and status != "in_progress":
            self._report("item.added-status", f"{item} is added with status {show(status)}")
        item.prefilled = any(value.get(field) for field in _FILLED)
        if item.prefilled and self.strict:
            self._report("item.prefilled", f"{item} is added with content", item.number)

    def _check_value(self, item: ItemState, value: dict[str, Any]) -> None:
        """Check what holds for an item both when it is added and when it is done."""
        if item.type and not self._names.allows_item(item.type, value.get("execution")):
            self._report("name.item", f"item type {show(item.type)} is outside the specification", item.type)
        elif self.tools is not None and not self.tools.ask_for(value):
            self._report(
                "name.undeclared", f"{item} belongs to a tool that the request does not declare", item.number
            )
        self.check_shape("item.fields", value, ITEM, str(item), item.number)
        role = value.get("role")
        if item.type == "message" and isinstance(role, str) and role != "assistant":
            self._report("item.role", f"{item} has the role {show(role)}", item.number)
        if item.type == "reasoning" and value.get("content") and not self._names.reads_reasoning_text:
            self._report(
                "name.accent",
                f"{item} has text, but clients of the `{self._names.accent}` accent read only summaries",
                REASONING.part,
            )
        if item.id and value.get("call_id") == item.id:
            self._report("call.id-is-item-id", f"the call id of {item} is its item id", item.number)
        if item.type in CALLS:
            self._check_call(item, value)

    def _check_call(self, item: ItemState, value: dict[str, Any]) -> None:
        call_id = value.get("call_id")
        if isinstance(call_id, str) and call_id:
            self._calls.setdefault(call_id, item)
            if len(call_id) > ID_LENGTH:
                self._report(
                    "call.id-length", f"the call id of {item} has {len(call_id)} characters", item.number
                )
        elif item.type != "tool_search_call":
            reported_by_shape = self.strict and item.type in ITEMS_BY_TYPE and call_id != ""
            if not reported_by_shape:
                self._report("call.id", f"{item} has no call id", item.number)
        name = value.get("name")
        if item.type in NAMED_CALLS and (name == "" or (not isinstance(name, str) and not self.strict)):
            self._report("call.name", f"{item} has no name", item.number)

    def _check_constant(self, item: ItemState, value: dict[str, Any]) -> None:
        if item.announced is None:
            return
        for field in CONSTANT:
            before, now = item.announced.get(field), value.get(field)
            if not same(before, now):
                self._report(
                    "item.changed",
                    f"the {field} of {item} changed from {show(before)} to {show(now)}",
                    item.number,
                )

    def check_name(self, item: ItemState, event: Event) -> None:
        """Check the name at the end of the arguments, where OpenAI repeats it."""
        before = (item.announced or {}).get("name")
        if "name" in event and before and not same(before, event["name"]):
            now = show(event["name"])
            self._report(
                "item.changed", f"the name of {item} changed from {show(before)} to {now}", item.number
            )

    def _check_done_status(self, item: ItemState, value: dict[str, Any]) -> None:
        status = value.get("status")
        if not isinstance(status, str):
            return
        if status == "incomplete":
            self._truncated = str(item)
        lawful = status in ("completed", "incomplete")
        if item.type not in SPECIFIED_ITEMS and item.type not in STREAMED:
            lawful = lawful or status == "failed" or (has_slug(item.type) and status != "in_progress")
        if not lawful:
            self._report("item.done-status", f"{item} is done with status {show(status)}")

    # --- streamed content against the closed item

    def _check_content(self, item: ItemState, value: dict[str, Any]) -> None:
        for where in item.parts:
            parts = item.parts_in_order(where)
            for part in parts:
                if not part.done:
                    self._report("part.done-missing", f"{part.label} was not closed")
            final = value.get(where, [])
            if item.prefilled or not isinstance(final, list) or not (parts or item.type in CONTENT_HOLDERS):
                continue
            if len(final) != len(parts):
                self._report(
                    "item.content-differs",
                    f"{item} has {len(final)} {where} parts, but {len(parts)} were streamed",
                )
                continue
            for part, member in zip(parts, final, strict=True):
                if not self._is_part(part, member):
                    self._report(
                        "item.content-differs", f"{part.label} differs from what was streamed", item.number
                    )

    def _is_part(self, part: PartState, final: Any) -> bool:
        if part.final is None or part.disputed or not self.strict:
            return part.matches(final)
        return same(part.final, final)

    def _check_flow(self, item: ItemState, value: dict[str, Any]) -> None:
        flow = FLOWS.get(item.type)
        final = value.get(flow.field) if flow else None
        if flow is None or not isinstance(final, str):
            return
        if not item.flow_done:
            self._report("arguments.done-missing", f"`{flow.field}` of {item} has no `.done` event")
        if final and not item.flow and not item.flow_done and not item.prefilled:
            self._report("arguments.no-delta", f"`{flow.field}` of {item} has no deltas", item.number)
        elif not item.prefilled and not item.disputed and not item.flow.equals(final):
            self._report(
                "arguments.item-differs", f"the final `{flow.field}` of {item} differs from what was streamed"
            )
        if flow is ARGUMENTS and value.get("status") != "incomplete" and not _is_json(final):
            self._report("arguments.json", f"the arguments of {item} are not JSON")

    # --- fields

    def field(self, event: Event, name: str, kind: type[V]) -> V | None:
        """Return a required field of an event; report it and return None if it is absent or invalid."""
        value = event.get(name)
        if value.__class__ is kind:
            found: V = value
            return found
        problem = f"has an invalid `{name}`: {show(value)}" if name in event else f"has no `{name}`"
        self._report("event.fields", f"{event['type']} {problem}", (event["type"], name))
        return None

    def check_shape(self, rule: str, value: Any, shape: Shape, label: str, about: object) -> bool:
        """Return whether the value has this shape; report its faults. Tolerant mode skips the check."""
        valid = True
        if self.strict:
            for fault in faults(value, shape, label):
                valid = False
                self._report(rule, fault.message, (about, fault.path))
        return valid


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True
