"""Checks the events inside an item: parts, streamed texts and arguments, annotations.

Text is stored in chunks and joined once, at its end, so the cost of an event depends on its own size.
"""

from __future__ import annotations

from typing import Any

from penstock.stream.checker.items import CONTENT_HOLDERS, STREAMED, Items
from penstock.stream.checker.names import CALLS, SPECIFIED_ITEMS, Names, has_slug
from penstock.stream.checker.shapes import ANNOTATION, LOGPROBS, PART
from penstock.stream.checker.state import (
    OUTPUT_TEXT,
    REASONING,
    Event,
    Findings,
    ItemState,
    PartKind,
    PartState,
    TextFlow,
    kind_of,
    same,
    show,
    string,
)

_INDEX = {"content": "content_index", "summary": "summary_index"}
_CONTENTLESS = (SPECIFIED_ITEMS | CALLS) - CONTENT_HOLDERS


class Contents:
    """The contents of the items of one response."""

    def __init__(self, findings: Findings, names: Names, items: Items) -> None:
        self._findings = findings
        self._report = findings.report
        self._strict = not findings.tolerant
        self._names = names
        self._items = items

    # --- parts

    def part_added(self, event: Event, where: str) -> None:
        place = self._place(event, where)
        value = self._items.field(event, "part", dict)
        if place is None:
            return
        item, index = place
        type = value.get("type") if value is not None else None
        if value is not None and not self._may_hold(item, where, type, event):
            return
        if index in item.parts[where]:
            self._report("part.added-twice", f"{item.parts[where][index].label} was already opened")
            return
        if index != item.next_part[where] and not (self._items.is_resumed and item.adopted):
            self._report(
                "part.index", f"`{_INDEX[where]}` of {item} is {index}, expected {item.next_part[where]}"
            )
        part = self._enter(item, where, index, type)
        if value is not None:
            self._items.check_shape("part.fields", value, PART, part.label, id(part))
            kind = kind_of(type)
            if value.get("annotations") or value.get("logprobs") or (kind and value.get(kind.field)):
                self._report("part.prefilled", f"{part.label} is opened with content")
                item.dispute(part)

    def part_done(self, event: Event, where: str) -> None:
        before = self._findings.count
        place = self._place(event, where)
        value = self._items.field(event, "part", dict)
        if place is None:
            return
        item, index = place
        type = value.get("type") if value is not None else None
        if value is not None and not self._may_hold(item, where, type, event):
            return
        part = self._part_at(item, where, index, type)
        if part.done:
            self._report("part.closed", f"{part.label} has already ended", id(part))
            return
        part.done = True
        part.final = value
        if value is not None:
            self._check_end(item, part, value)
        if self._findings.count > before:
            item.dispute(part)

    def _check_end(self, item: ItemState, part: PartState, value: dict[str, Any]) -> None:
        type = value.get("type")
        if not same(type, part.type):
            self._report(
                "part.type",
                f"{part.label} was opened as {show(part.type)} but ends as {show(type)}",
                item.number,
            )
            return
        valid = part.disputed or self._items.check_shape("part.fields", value, PART, part.label, id(part))
        if kind_of(type) is not None and not part.text_done:
            self._report("part.text-done-missing", f"the text of {part.label} has no `.done` event")
        if not part.matches(value):
            self._report("part.done-differs", f"the final text of {part.label} differs from its deltas")
        annotations = value.get("annotations", [])
        comparable = type == OUTPUT_TEXT.part and isinstance(annotations, list) and not part.disputed
        if comparable and not same(annotations, part.annotations):
            self._report(
                "annotation.differs", f"the final annotations of {part.label} differ from those added"
            )
        if type == OUTPUT_TEXT.part and valid:
            self._compare_logprobs(part, value.get("logprobs", []), f"the end of {part.label}")

    def _may_hold(self, item: ItemState, where: str, type: object, event: Event) -> bool:
        """Return whether the item can have parts in this list; report a part of the wrong type."""
        if item.type in _CONTENTLESS or (where == "summary" and item.type == "message"):
            self._report(
                "item.event-kind", f"{item} cannot have a {event['type']} event", (item.number, where)
            )
            return False
        if type == REASONING.part and not self._names.reads_reasoning_text:
            self._report(
                "name.accent",
                f"{item} has text, but clients of the `{self._names.accent}` accent read only summaries",
                REASONING.part,
            )
        kind = kind_of(type)
        if item.type in CONTENT_HOLDERS and (kind is None or (kind.item, kind.where) != (item.type, where)):
            self._report(
                "part.type", f"the {where} of {item} cannot contain a part of type {show(type)}", item.number
            )
        return True

    def _place(self, event: Event, where: str) -> tuple[ItemState, int] | None:
        item = self._items.open_item(event, "reasoning" if where == "summary" else "")
        index = self._items.field(event, _INDEX[where], int)
        return None if item is None or index is None else (item, index)

    def _enter(self, item: ItemState, where: str, index: int, type: object) -> PartState:
        part = item.parts[where][index] = PartState(type, f"{where} part {index} of {item}")
        item.next_part[where] = index + 1
        return part

    def _part_at(self, item: ItemState, where: str, index: int, type: object) -> PartState:
        """Return the part that an event refers to; adopt it if it was never opened."""
        part = item.parts[where].get(index)
        if part is None:
            part = self._enter(item, where, index, type)
            raw_reasoning = type == REASONING.part and not self._strict  # quirk R10
            if not item.adopted and not raw_reasoning:
                self._report("part.added-missing", f"{part.label} was never opened")
            part.disputed = self._items.is_resumed and item.adopted
        return part

    # --- texts

    def text_delta(self, event: Event, kind: PartKind) -> None:
        found = self._text_part(event, kind)
        delta = self._items.field(event, "delta", str)
        logprobs = self._logprobs(event)
        if found is None or delta is None:
            return
        item, part = found
        if item.prefilled:
            self._report("item.prefilled", f"{item} was added with content, but also has deltas", item.number)
        if part.text_done or part.done:
            self._report("part.closed", f"{event['type']} after the end of {part.label}", id(part))
            item.dispute(part)
            return
        if not delta and not event.get("logprobs"):
            self._report("delta.empty", f"{event['type']} of {item} is empty")
        part.text.add(delta)
        if logprobs is None:
            part.logprobs = None
        elif part.logprobs is not None:
            part.logprobs.extend(logprobs)

    def text_done(self, event: Event, kind: PartKind) -> None:
        found = self._text_part(event, kind)
        text = self._items.field(event, kind.field, str)
        logprobs = self._logprobs(event)
        if found is None:
            return
        item, part = found
        if part.text_done or part.done:
            self._report("part.closed", f"{event['type']} after the end of {part.label}", id(part))
            return
        part.text_done = True
        if text is not None and not part.disputed and not part.text.equals(text):
            self._report("part.text-differs", f"{event['type']} of {item} differs from its deltas")
            item.dispute(part)
        self._compare_logprobs(part, logprobs, f"{event['type']} of {item}")

    def _logprobs(self, event: Event) -> list[Any] | None:
        """Return the log probabilities of a text event; None if they are invalid or not checked."""
        logprobs = event.get("logprobs", [])
        if logprobs.__class__ is not list or logprobs:  # an empty list, the usual case, is valid
            valid = self._items.check_shape("event.logprobs", logprobs, LOGPROBS, "logprobs", event["type"])
            return logprobs if valid and self._strict else None
        return [] if self._strict else None

    def _compare_logprobs(self, part: PartState, logprobs: list[Any] | None, label: str) -> None:
        """Compare log probabilities at the end with those of the deltas. Absent counts as empty."""
        if part.disputed or part.logprobs is None or logprobs is None or same(logprobs, part.logprobs):
            return
        self._report("part.logprobs", f"the log probabilities in {label} differ from those of the deltas")
        part.logprobs = None

    def _text_part(self, event: Event, kind: PartKind) -> tuple[ItemState, PartState] | None:
        """Return the open part that a text event refers to."""
        item = self._items.open_item(event, kind.item)
        index = self._items.field(event, _INDEX[kind.where], int)
        if item is None or index is None:
            return None
        if item.type in STREAMED and item.type != kind.item:
            self._report(
                "item.event-kind", f"{item} cannot have a {event['type']} event", (item.number, kind.part)
            )
            return None
        part = self._part_at(item, kind.where, index, kind.part)
        if part.type is None:
            part.type = kind.part  # it was opened without a type, which is already reported
        if part.type != kind.part:
            self._report(
                "part.type",
                f"{event['type']} does not match {part.label}, which has type {show(part.type)}",
                item.number,
            )
            item.dispute(part)
        return item, part

    def annotation(self, event: Event, kind: PartKind) -> None:
        found = self._text_part(event, kind)
        index = self._items.field(event, "annotation_index", int)
        value = event.get("annotation")
        if "annotation" not in event or not (value is None or isinstance(value, dict)):
            self._report(
                "event.fields", f"{event['type']} has no `annotation`", (event["type"], "annotation")
            )
        if found is None:
            return
        item, part = found
        if part.done:
            self._report("part.closed", f"{event['type']} after the end of {part.label}", id(part))
            return
        if index is not None and index != part.annotation_index:
            self._report(
                "annotation.index",
                f"`annotation_index` of {item} is {index}, expected {part.annotation_index}",
            )
        part.annotation_index = (part.annotation_index if index is None else index) + 1
        if isinstance(value, dict):  # a null counts for the index, but adds nothing
            part.annotations.append(value)
            before = self._findings.count
            self._check_annotation(item, value)
            if self._findings.count > before:
                item.dispute(part)

    def _check_annotation(self, item: ItemState, value: dict[str, Any]) -> None:
        self._items.check_shape("part.fields", value, ANNOTATION, f"annotation of {item}", item.number)
        type = string(value, "type")
        if type and type != "url_citation" and not self._names.knows_openai and not has_slug(type):
            self._report("name.annotation", f"an annotation of type {show(type)} in {item}", type)

    # --- arguments and input

    def flow_delta(self, event: Event, flow: TextFlow) -> None:
        item = self._flowing_item(event, flow)
        delta = self._items.field(event, "delta", str)
        if item is None or delta is None:
            return
        if item.prefilled:
            self._report(
                "item.prefilled", f"{item} was added with `{flow.field}`, but also has deltas", item.number
            )
        if item.flow_done:
            self._report(
                "arguments.closed",
                f"{event['type']} after the end of `{flow.field}` of {item}",
                item.number,
            )
            item.disputed = True
            return
        if not delta:
            self._report("delta.empty", f"{event['type']} of {item} is empty")
        item.flow.add(delta)

    def flow_done(self, event: Event, flow: TextFlow) -> None:
        item = self._flowing_item(event, flow)
        text = self._items.field(event, flow.field, str)
        if item is None:
            return
        if item.flow_done:
            self._report("arguments.closed", f"{event['type']} of {item} is repeated", item.number)
            return
        item.flow_done = True
        self._items.check_name(item, event)
        if text is None or item.prefilled or (self._items.is_resumed and item.adopted):
            return
        if text and not item.flow:
            self._report("arguments.no-delta", f"`{flow.field}` of {item} has no deltas", item.number)
            item.flow.add(text)
        elif not item.flow.equals(text):
            self._report("arguments.differs", f"{event['type']} of {item} differs from its deltas")
            item.disputed = True

    def _flowing_item(self, event: Event, flow: TextFlow) -> ItemState | None:
        item = self._items.open_item(event, flow.item)
        if item is not None and item.type and item.type != flow.item:
            self._report(
                "item.event-kind", f"{item} cannot have a {event['type']} event", (item.number, flow.field)
            )
            return None
        return item
