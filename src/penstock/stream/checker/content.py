"""Events inside an item: parts that open and close, texts and arguments that stream, annotations.

Text is kept as the chunks that came and joined once, at its end: an event costs what it weighs.
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
    """What the items of one response hold."""

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
            self._report("part.added-twice", f"{item.parts[where][index].called} was opened before")
            return
        if index != item.next_part[where] and not (self._items.midway and item.adopted):
            self._report("part.index", f"{where} part {index} of {item}, expected {item.next_part[where]}")
        part = self._enter(item, where, index, type)
        if value is not None:
            self._items.check_shape("part.fields", value, PART, part.called, id(part))
            kind = kind_of(type)
            if value.get("annotations") or value.get("logprobs") or (kind and value.get(kind.field)):
                self._report("part.prefilled", f"{part.called} is opened with content")
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
            self._report("part.closed", f"{part.called} ended before", id(part))
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
                "part.type", f"{part.called} was {show(part.type)}, ends as {show(type)}", item.number
            )
            return
        sound = part.disputed or self._items.check_shape("part.fields", value, PART, part.called, id(part))
        if kind_of(type) is not None and not part.text_done:
            self._report("part.text-done-missing", f"the text of {part.called} has no end of its own")
        if not part.shows(value):
            self._report("part.done-differs", f"{part.called} ends with another text than was streamed")
        told = value.get("annotations", [])
        comparable = type == OUTPUT_TEXT.part and isinstance(told, list) and not part.disputed
        if comparable and not same(told, part.annotations):
            self._report("annotation.differs", f"{part.called} ends with other annotations than were added")
        if type == OUTPUT_TEXT.part and sound:
            self._compare_logprobs(part, value.get("logprobs", []), f"the end of {part.called}")

    def _may_hold(self, item: ItemState, where: str, type: object, event: Event) -> bool:
        """Does a part of this type belong into this list of this item?"""
        if item.type in _CONTENTLESS or (where == "summary" and item.type == "message"):
            self._report("item.event-kind", f"{event['type']} for {item}", (item.number, where))
            return False
        if type == REASONING.part and not self._names.reads_reasoning_text:
            self._report("name.accent", f"{item} has text, and this client reads summaries", REASONING.part)
        kind = kind_of(type)
        if item.type in CONTENT_HOLDERS and (kind is None or (kind.item, kind.where) != (item.type, where)):
            self._report("part.type", f"a part of type {show(type)} in the {where} of {item}", item.number)
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
        """The part that an event speaks of, adopted if it was never opened."""
        part = item.parts[where].get(index)
        if part is None:
            part = self._enter(item, where, index, type)
            raw_reasoning = type == REASONING.part and not self._strict  # quirk R10
            if not item.adopted and not raw_reasoning:
                self._report("part.added-missing", f"{part.called} was never opened")
            part.disputed = self._items.midway and item.adopted
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
            self._report("item.prefilled", f"{item} was added with content, and has deltas", item.number)
        if part.text_done or part.done:
            self._report("part.closed", f"{event['type']} after the end of {part.called}", id(part))
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
            self._report("part.closed", f"{event['type']} after the end of {part.called}", id(part))
            return
        part.text_done = True
        if text is not None and not part.disputed and not part.text.equals(text):
            self._report("part.text-differs", f"{event['type']} of {item} is not what its deltas say")
            item.dispute(part)
        self._compare_logprobs(part, logprobs, f"{event['type']} of {item}")

    def _logprobs(self, event: Event) -> list[Any] | None:
        """What a text event has of them, maybe nothing; None when they are at fault, or nobody asks."""
        told = event.get("logprobs", [])
        if told.__class__ is not list or told:  # an empty list, as most are, has no fault
            sound = self._items.check_shape("event.logprobs", told, LOGPROBS, "logprobs", event["type"])
            return told if sound and self._strict else None
        return [] if self._strict else None

    def _compare_logprobs(self, part: PartState, told: list[Any] | None, called: str) -> None:
        """Absent ones are none: who reads the end must find what the deltas had."""
        if part.disputed or part.logprobs is None or told is None or same(told, part.logprobs):
            return
        self._report("part.logprobs", f"{called} has other log probabilities than the deltas")
        part.logprobs = None

    def _text_part(self, event: Event, kind: PartKind) -> tuple[ItemState, PartState] | None:
        """The open part that a text event speaks of."""
        item = self._items.open_item(event, kind.item)
        index = self._items.field(event, _INDEX[kind.where], int)
        if item is None or index is None:
            return None
        if item.type in STREAMED and item.type != kind.item:
            self._report("item.event-kind", f"{event['type']} for {item}", (item.number, kind.part))
            return None
        part = self._part_at(item, kind.where, index, kind.part)
        if part.type is None:
            part.type = kind.part  # it was opened without saying what it is, which is reported
        if part.type != kind.part:
            self._report("part.type", f"{event['type']} in a part of type {show(part.type)}", item.number)
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
            self._report("part.closed", f"{event['type']} after the end of {part.called}", id(part))
            return
        if index is not None and index != part.annotation_index:
            self._report(
                "annotation.index", f"annotation {index} of {item}, expected {part.annotation_index}"
            )
        part.annotation_index = (part.annotation_index if index is None else index) + 1
        if isinstance(value, dict):  # a null holds a place in the count and adds nothing
            part.annotations.append(value)
            before = self._findings.count
            self._check_annotation(item, value)
            if self._findings.count > before:
                item.dispute(part)

    def _check_annotation(self, item: ItemState, value: dict[str, Any]) -> None:
        self._items.check_shape("part.fields", value, ANNOTATION, f"annotation of {item}", item.number)
        type = string(value, "type")
        if type and type != "url_citation" and not self._names.knows_openai and not has_slug(type):
            self._report("name.annotation", f"an annotation of type {show(type)}, in {item}", type)

    # --- arguments and input

    def flow_delta(self, event: Event, flow: TextFlow) -> None:
        item = self._flowing_item(event, flow)
        delta = self._items.field(event, "delta", str)
        if item is None or delta is None:
            return
        if item.prefilled:
            self._report("item.prefilled", f"{item} was added with {flow.field}, and has deltas", item.number)
        if item.flow_done:
            self._report("arguments.closed", f"{event['type']} after the end, in {item}", item.number)
            item.disputed = True
            return
        if not delta:
            self._report("delta.empty", f"{event['type']} of {item} is empty")
        item.flow.add(delta)

    def flow_done(self, event: Event, flow: TextFlow) -> None:
        item = self._flowing_item(event, flow)
        told = self._items.field(event, flow.field, str)
        if item is None:
            return
        if item.flow_done:
            self._report("arguments.closed", f"{event['type']} comes again, in {item}", item.number)
            return
        item.flow_done = True
        self._items.check_name(item, event)
        if told is None or item.prefilled or (self._items.midway and item.adopted):
            return
        if told and not item.flow:
            self._report("arguments.no-delta", f"the {flow.field} of {item} were never streamed", item.number)
            item.flow.add(told)
        elif not item.flow.equals(told):
            self._report("arguments.differs", f"{event['type']} of {item} is not what its deltas say")
            item.disputed = True

    def _flowing_item(self, event: Event, flow: TextFlow) -> ItemState | None:
        item = self._items.open_item(event, flow.item)
        if item is not None and item.type and item.type != flow.item:
            self._report("item.event-kind", f"{event['type']} for {item}", (item.number, flow.field))
            return None
        return item
