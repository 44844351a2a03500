"""One item of the upstream's answer: what was told of it so far, and what its ends still add.

Text comes in up to five tellings: deltas, `*.done`, the part, the item, the terminal response. The first is
passed on; each later one adds only what is missing (decision 20, quirk R3, quirk R5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.content import Annotation, LogProb, TopLogProb, UrlCitation
from penstock.protocol.events import read_annotation
from penstock.stream.deltas import (
    AnnotationDelta,
    Delta,
    DiagnosticDelta,
    Key,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
)

JSON = dict[str, Any]


class Channel(Struct, frozen=True):
    """A kind of text that an item streams."""

    name: str
    item_type: str
    index_field: str
    """The field that numbers its parts; "" where there is only one."""
    whole_field: str
    """Where `*.done`, the part and the item have the whole text."""
    delta: Callable[[str, Key, int], Delta]


TEXT = Channel("text", "message", "content_index", "text", lambda text, key, _: TextDelta(text, key))
REFUSAL = Channel(
    "refusal", "message", "content_index", "refusal", lambda text, key, _: RefusalDelta(text, key)
)
REASONING = Channel(
    "reasoning", "reasoning", "content_index", "text", lambda text, key, _: ReasoningDelta(text, key)
)
SUMMARY = Channel(
    "summary", "reasoning", "summary_index", "text", lambda text, key, part: SummaryDelta(text, part, key)
)
ARGUMENTS = Channel(
    "arguments", "function_call", "", "arguments", lambda text, key, _: ToolCallDelta(key, arguments=text)
)
INPUT = Channel(
    "input",
    "custom_tool_call",
    "",
    "input",
    lambda text, key, _: ToolCallDelta(key, type="custom", arguments=text),
)

CALLS: dict[str, Channel] = {channel.item_type: channel for channel in (ARGUMENTS, INPUT)}

PARTS: dict[tuple[str, str], Channel] = {
    ("message", "output_text"): TEXT,
    ("message", "text"): TEXT,
    ("message", "refusal"): REFUSAL,
    ("reasoning", "reasoning_text"): REASONING,
    ("reasoning", "text"): REASONING,
    ("reasoning", "summary_text"): SUMMARY,
}
"""What the parts of an item are, by the type of both."""


class UpstreamItem:
    """An item under the key that it has in our deltas."""

    def __init__(self, key: Key, type: str, index: int | None, id: str) -> None:
        self.key = key
        self.type = type
        self.index = index
        self.ids = {id} if id else set()
        self.call_id = ""
        self.announced: JSON = {}
        """The item as `added` had it."""
        self.done = False
        self.is_hosted = False
        """It has the type of a client's call, but the vendor runs it."""
        self.first: UpstreamItem | None = None
        """The call that this one repeats."""
        self.waiting: list[Delta] = []
        """What repeats of this call said before it was done."""
        self._heard: dict[tuple[str, int], list[str]] = {}
        self._spellings: dict[str, str] = {}
        self._citations: Counter[bytes] = Counter()
        self._told: set[str] = set()

    def take(self, channel: Channel, event: JSON, spelling: str) -> list[Delta]:
        """A delta. Of two spellings of one event, the first that came for the item counts (decision 20)."""
        text = text_of(event.get("delta"))
        if not text or self._spellings.setdefault(channel.name, spelling) != spelling:
            return []
        return self._say(channel, _index(event, channel), text, event)

    def supply(self, channel: Channel, index: int, told: JSON) -> list[Delta]:
        """Something that has the whole text, and its citations: add what is missing."""
        whole = text_of(told.get(channel.whole_field))
        heard = self.heard(channel, index)
        deltas: list[Delta] = []
        if whole.startswith(heard):
            if len(whole) > len(heard):
                deltas += self._say(channel, index, whole[len(heard) :], {} if heard else told)
        elif whole:
            deltas += self.tell_once(
                "upstream_disagrees", f"the upstream's {channel.name} ended otherwise than it was streamed"
            )
        if channel is TEXT:
            deltas += self._missing_citations(index, objects_of(told.get("annotations")))
        return deltas

    def supply_parts(self, told: JSON) -> list[Delta]:
        """A whole message or reasoning item."""
        deltas: list[Delta] = []
        for index, part in _parts(told.get("summary"), "summary_text"):
            deltas += self.supply_part(index, part)
        plain = "reasoning_text" if self.type == "reasoning" else "output_text"
        for index, part in _parts(told.get("content"), plain):
            deltas += self.supply_part(index, part)
        return deltas

    def supply_part(self, index: int, part: JSON) -> list[Delta]:
        kind = text_of(part.get("type"))
        channel = PARTS.get((self.type, kind))
        if channel is None:
            return self.tell_once("part_left_out", f"a content part of type {kind[:80]!r} was left out")
        return self.supply(channel, index, part)

    def cite(self, index: int, raw: JSON) -> list[Delta]:
        """A citation, as it happens."""
        self._citations[_canonical(raw)] += 1
        return [AnnotationDelta(_moved(read_annotation(raw), self._offset(index)), self.key)]

    def heard(self, channel: Channel, index: int = 0) -> str:
        pieces = self._heard.get((channel.name, index), [])
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0] if pieces else ""

    def tell_once(self, code: str, message: str) -> list[Delta]:
        if message in self._told:
            return []
        self._told.add(message)
        return [DiagnosticDelta(code, message)]

    def _say(self, channel: Channel, index: int, text: str, event: JSON) -> list[Delta]:
        self._heard.setdefault((channel.name, index), []).append(text)
        if self.first is not None or self.is_hosted:
            return []  # a repeat is judged when it is whole
        if channel is TEXT and event.get("logprobs"):
            return [TextDelta(text, self.key, read_logprobs(event["logprobs"]))]
        return [channel.delta(text, self.key, index)]

    def _missing_citations(self, index: int, told: list[JSON]) -> list[Delta]:
        """Those of a whole part that no event had. They are counted: one source may be cited twice."""
        left = self._citations.copy() if told else self._citations
        deltas: list[Delta] = []
        for raw in told:
            name = _canonical(raw)
            left[name] -= 1
            if left[name] < 0:
                deltas += self.cite(index, raw)
        return deltas

    def _offset(self, index: int) -> int:
        """Where a text part begins. Parts of text that follow each other become one part, so places move."""
        if any(name == REFUSAL.name for name, _ in self._heard):
            return 0
        return sum(len(self.heard(TEXT, each)) for name, each in self._heard if each < index)


def read_logprobs(raw: Any) -> list[LogProb]:
    """Log probabilities with every field that the schema wants; what is none is left out."""
    return [
        LogProb(
            **_logprob(each), top_logprobs=[_logprob(top) for top in _logprobs_in(each.get("top_logprobs"))]
        )
        for each in _logprobs_in(raw)
    ]


def _logprobs_in(value: Any) -> list[JSON]:
    return [
        each
        for each in objects_of(value)
        if isinstance(each.get("token"), str)
        and isinstance(each.get("logprob"), int | float)
        and not isinstance(each["logprob"], bool)
    ]


def _logprob(raw: JSON) -> TopLogProb:
    given = raw.get("bytes")
    return TopLogProb(
        token=raw["token"],
        logprob=raw["logprob"],
        bytes=given if isinstance(given, list) else list(raw["token"].encode()),
    )


def _index(event: JSON, channel: Channel) -> int:
    index = event.get(channel.index_field)
    return index if index.__class__ is int else 0


def _parts(value: Any, plain: str) -> Iterator[tuple[int, JSON]]:
    """The parts of a content or summary; sloppy servers send a bare text."""
    if isinstance(value, str):
        yield 0, {"type": plain, "text": value}
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield index, {"type": plain, "text": part} if isinstance(part, str) else object_of(part)


def _canonical(raw: JSON) -> bytes:
    return msgspec.json.encode(raw, order="deterministic")


def _moved(annotation: Annotation, offset: int) -> Annotation:
    if not offset or not isinstance(annotation, UrlCitation):
        return annotation
    return msgspec.structs.replace(
        annotation,
        start_index=annotation.start_index + offset,
        end_index=annotation.end_index + offset,
    )
