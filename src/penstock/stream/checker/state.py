"""The checker's state: items, their parts, the streamed texts, and the violations found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from penstock.stream.checker.rules import RULES, Violation

Event = Mapping[str, Any]


class PartKind(Struct, frozen=True):
    """A text that is streamed into a part."""

    part: str
    """The type of the part."""
    field: str
    """The field with the text, in the part and in the `.done` event."""
    item: str
    """The type of item that contains such parts."""
    where: str = "content"
    """The item's list that contains them."""


OUTPUT_TEXT = PartKind("output_text", "text", "message")
REFUSAL = PartKind("refusal", "refusal", "message")
REASONING = PartKind("reasoning_text", "text", "reasoning")
SUMMARY = PartKind("summary_text", "text", "reasoning", "summary")
_KINDS = {kind.part: kind for kind in (OUTPUT_TEXT, REFUSAL, REASONING, SUMMARY)}


def kind_of(part_type: object) -> PartKind | None:
    """Return the kind of text in a part of this type, if it is known."""
    return _KINDS.get(part_type) if isinstance(part_type, str) else None


class TextFlow(Struct, frozen=True):
    """A text that is streamed into the item itself."""

    item: str
    field: str


ARGUMENTS = TextFlow("function_call", "arguments")
INPUT = TextFlow("custom_tool_call", "input")
FLOWS = {flow.item: flow for flow in (ARGUMENTS, INPUT)}


class Text:
    """The deltas of one text, joined."""

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
        """Compare with a text. Join only if the lengths are equal, so that a different length is cheap."""
        if not isinstance(text, str) or len(text) != self._length:
            return False
        self._chunks = ["".join(self._chunks)]
        return text == self._chunks[0]


class PartState:
    """A part of an item, open or closed."""

    __slots__ = (
        "annotation_index",
        "annotations",
        "disputed",
        "done",
        "final",
        "label",
        "logprobs",
        "text",
        "text_done",
        "type",
    )

    def __init__(self, type: object, label: str) -> None:
        self.type = type
        self.label = label
        """Describes the part in messages."""
        self.text = Text()
        self.text_done = False
        self.done = False
        self.final: dict[str, Any] | None = None
        self.annotations: list[Any] = []
        self.annotation_index = 0
        self.logprobs: list[Any] | None = []
        """The log probabilities of its deltas; None if they are invalid or not checked."""
        self.disputed = False
        """A fault in its text was reported: consequences of that are not reported again."""

    def matches(self, value: Any) -> bool:
        """Return whether `value` has the type and the text that were streamed."""
        if self.disputed:
            return True
        if not isinstance(value, dict) or not same(value.get("type"), self.type):
            return False
        kind = kind_of(self.type)
        return kind is None or self.text.equals(value.get(kind.field))


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
        """Identifies the item among the violations that were already reported."""
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
        """It was never added, but accepted when an event first referred to it."""
        self.prefilled = False
        """It was added with content, so the expected sum of its deltas is unknown."""
        self.disputed = False
        """A fault in its content was reported: consequences of that are not reported again."""

    def __str__(self) -> str:
        type = self.type[:40] or "item"
        return f"{type} {self.id[:80]!r}" if self.id else f"{type} at {self.index}"

    def dispute(self, part: PartState) -> None:
        part.disputed = self.disputed = True

    def parts_in_order(self, where: str) -> list[PartState]:
        return [part for _, part in sorted(self.parts[where].items())]


class Findings:
    """The violations of the current event. Each fault is reported once, and only by the rules of the mode."""

    def __init__(self, *, tolerant: bool) -> None:
        self.tolerant = tolerant
        self.position = 0
        """The position of the current event in the stream."""
        self.count = 0
        self._new: list[Violation] = []
        self._reported: set[tuple[str, object]] = set()

    def report(self, rule: str, message: str, about: object = None) -> None:
        """Record a violation of `rule`. With `about`, only the first report about that thing counts."""
        if self.tolerant and not RULES[rule].tolerant:
            return
        if about is not None:
            if (rule, about) in self._reported:
                return
            self._reported.add((rule, about))
        self.count += 1
        self._new.append(Violation(rule, self.position, message))

    def take(self) -> list[Violation]:
        """Return the violations since the last call."""
        if not self._new:
            return []
        violations, self._new = self._new, []
        return violations


def string(value: Any, name: str) -> str:
    """Return a field that should be a string, or "" if it is not."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def show(value: Any) -> str:
    """Format a value for a message: a shortened string, or a type name."""
    return repr(value[:80]) if isinstance(value, str) else type(value).__name__


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON: `true` is not 1. Too deeply nested values are unequal."""
    try:
        return bool(one == other) and _have_equal_booleans(one, other)
    except RecursionError:
        return False


def _have_equal_booleans(one: Any, other: Any) -> bool:
    """Return whether two values that are equal in Python have booleans in the same places."""
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
