"""What the checker remembers of a stream: items, their parts, the texts that stream in them, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from penstock.stream.checker.rules import RULES, Violation

Event = Mapping[str, Any]


class PartKind(Struct, frozen=True):
    """A text that streams inside a part."""

    part: str
    """The type of the part."""
    field: str
    """The field that has the text, in the part and in `.done`."""
    item: str
    """The type of item that holds such parts."""
    where: str = "content"
    """The list of the item that holds them."""


OUTPUT_TEXT = PartKind("output_text", "text", "message")
REFUSAL = PartKind("refusal", "refusal", "message")
REASONING = PartKind("reasoning_text", "text", "reasoning")
SUMMARY = PartKind("summary_text", "text", "reasoning", "summary")
_KINDS = {kind.part: kind for kind in (OUTPUT_TEXT, REFUSAL, REASONING, SUMMARY)}


def kind_of(part_type: object) -> PartKind | None:
    """The kind of text in a part of this type, if we know it."""
    return _KINDS.get(part_type) if isinstance(part_type, str) else None


class TextFlow(Struct, frozen=True):
    """A text that streams in the item itself."""

    item: str
    field: str


ARGUMENTS = TextFlow("function_call", "arguments")
INPUT = TextFlow("custom_tool_call", "input")
FLOWS = {flow.item: flow for flow in (ARGUMENTS, INPUT)}


class Text:
    """The deltas of one text."""

    __slots__ = ("_chunks", "_length")

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._length = 0

    def __bool__(self) -> bool:
        return self._length > 0

    def add(self, chunk: str) -> None:
        self._chunks.append(chunk)
        self._length += len(chunk)

    def equals(self, text: object) -> bool:
        """Joins only when the lengths agree, so that a short lie about a long text is cheap."""
        if not isinstance(text, str) or len(text) != self._length:
            return False
        self._chunks = ["".join(self._chunks)]
        return text == self._chunks[0]


class PartState:
    """A part of an item, open or closed."""

    __slots__ = (
        "annotation_index",
        "annotations",
        "called",
        "disputed",
        "done",
        "final",
        "logprobs",
        "text",
        "text_done",
        "type",
    )

    def __init__(self, type: object, called: str) -> None:
        self.type = type
        self.called = called
        """Its place, in words."""
        self.text = Text()
        self.text_done = False
        self.done = False
        self.final: dict[str, Any] | None = None
        self.annotations: list[Any] = []
        self.annotation_index = 0
        self.logprobs: list[Any] | None = []
        """Those of its deltas; None when they were found at fault, or nobody asks."""
        self.disputed = False
        """Its text was found at fault: what follows from that is not reported again."""

    def shows(self, told: Any) -> bool:
        """Does `told` have the type and the text that were streamed?"""
        if self.disputed:
            return True
        if not isinstance(told, dict) or not same(told.get("type"), self.type):
            return False
        kind = kind_of(self.type)
        return kind is None or self.text.equals(told.get(kind.field))


class ItemState:
    """An item, from the event that announced it to the one that closed it."""

    __slots__ = (
        "adopted",
        "announced",
        "disputed",
        "final",
        "flow",
        "flow_done",
        "id",
        "index",
        "next_part",
        "number",
        "parts",
        "prefilled",
        "type",
    )

    def __init__(self, number: int, index: int, id: str, type: str) -> None:
        self.number = number
        """Tells it from other items in the memory of findings."""
        self.index = index
        self.id = id
        self.type = type
        self.announced: dict[str, Any] | None = None
        self.final: dict[str, Any] | None = None
        self.parts: dict[str, dict[int, PartState]] = {"content": {}, "summary": {}}
        self.next_part = {"content": 0, "summary": 0}
        self.flow = Text()
        self.flow_done = False
        self.adopted = False
        """It was never announced, and taken on when first heard of."""
        self.prefilled = False
        """It was announced with content: it cannot be said what its deltas should add up to."""
        self.disputed = False
        """Its content was found at fault: what follows from that is not reported again."""

    def __str__(self) -> str:
        called = self.type[:40] or "item"
        return f"{called} {self.id[:80]!r}" if self.id else f"{called} at {self.index}"

    def dispute(self, part: PartState) -> None:
        part.disputed = self.disputed = True

    def parts_in_order(self, where: str) -> list[PartState]:
        return [part for _, part in sorted(self.parts[where].items())]


class Findings:
    """The violations of the event at hand. Each fault is reported once, and only by the rules of the mode."""

    def __init__(self, *, tolerant: bool) -> None:
        self.tolerant = tolerant
        self.position = 0
        """Where the event at hand stands in the stream."""
        self.count = 0
        self._fresh: list[Violation] = []
        self._reported: set[tuple[str, object]] = set()

    def report(self, rule: str, message: str, about: object = None) -> None:
        """Note that `rule` is broken. With `about`, only the first report about that thing counts."""
        if self.tolerant and not RULES[rule].tolerant:
            return
        if about is not None:
            if (rule, about) in self._reported:
                return
            self._reported.add((rule, about))
        self.count += 1
        self._fresh.append(Violation(rule, self.position, message))

    def take(self) -> list[Violation]:
        """What was found since the last time."""
        if not self._fresh:
            return []
        fresh, self._fresh = self._fresh, []
        return fresh


def string(value: Any, name: str) -> str:
    """A field that should be a string, or nothing."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def show(value: Any) -> str:
    """A value in a message, cut short."""
    return repr(value[:80]) if isinstance(value, str) else type(value).__name__


def same(one: Any, other: Any) -> bool:
    """Equal as JSON, where `true` is not 1. What is nested too deep for Python to compare is different."""
    try:
        return bool(one == other) and _have_the_same_flags(one, other)
    except RecursionError:
        return False


def _have_the_same_flags(one: Any, other: Any) -> bool:
    """Of values that Python calls equal: do booleans stand opposite booleans?"""
    pending = [(one, other)]
    while pending:
        one, other = pending.pop()
        kind = one.__class__
        if kind is str:
            continue
        if kind is dict:
            pending.extend((value, other[name]) for name, value in one.items())
        elif kind is list or kind is tuple:
            pending.extend(zip(one, other, strict=True))
        elif (kind is bool) != (other.__class__ is bool):
            return False
    return True
