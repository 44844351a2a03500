"""One item of the upstream's answer: what was received so far, and what its final versions still add.

A text is sent up to five times: as deltas, in `*.done`, in the part, in the item, in the terminal response.
The first is passed on; each later one adds only what is missing (decision 20, quirk R3, quirk R5). The parts
of an item stay separate, and a citation keeps the offsets that it has in its part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.dialects.responses.received_parts import (
    FullTextMatch,
    ReceivedPart,
    ReceivedParts,
)
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
    """The field with the index of the part; "" if there are no parts."""
    full_field: str
    """The field of `*.done`, the part and the item that has the full text."""
    delta: Callable[[str, Key, int], Delta]
    """Creates the delta from a text, the key of its block and the key of its part."""


TEXT = Channel(
    "text", "message", "content_index", "text", lambda text, key, part: TextDelta(text, key, None, part)
)
REFUSAL = Channel("refusal", "message", "content_index", "refusal", RefusalDelta)
REASONING = Channel("reasoning", "reasoning", "content_index", "text", ReasoningDelta)
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
"""The channel of a part, by the types of item and part."""


class UpstreamItem:
    """An item under the key that it has in our deltas."""

    def __init__(self, key: Key, type: str, index: int | None, id: str) -> None:
        self.key = key
        self.type = type
        self.index = index
        self.ids = {id} if id else set()
        self.call_id = ""
        self.announced: JSON = {}
        """The item in its `added` event."""
        self.done = False
        self.is_hosted = False
        """Whether the vendor runs this call, although it has the type of a client's call."""
        self.first: UpstreamItem | None = None
        """The call that this one repeats."""
        self.pending: list[Delta] = []
        """Deltas of repeats of this call, held back until the call is done."""
        self._content, self._summary = ReceivedParts(), ReceivedParts()
        self._arguments: list[str] = []
        self._event_names: dict[str, str] = {}
        self._citations: Counter[tuple[int | None, bytes]] = Counter()
        """The citations passed on: in each part, by its key, and under None in the whole item."""
        self._diagnosed: set[str] = set()

    def add_delta(self, channel: Channel, event: JSON, event_name: str) -> list[Delta]:
        """Read a delta. If one event arrives under two names, the item's first name is used (decision 20)."""
        text = text_of(event.get("delta"))
        logprobs = read_logprobs(event["logprobs"]) if channel is TEXT and event.get("logprobs") else None
        return self.add_text(channel, text, _index(event, channel), event_name, logprobs)

    def add_text(
        self,
        channel: Channel,
        text: str,
        index: int | None,
        event_name: str,
        logprobs: list[LogProb] | None = None,
    ) -> list[Delta]:
        """Add the text of a delta to the part with this index."""
        if not text or self._event_names.setdefault(channel.name, event_name) != event_name:
            return []
        if not channel.index_field:
            return self._add_arguments(channel, text)
        part = self._list(channel).extend(channel.name, index, text)
        if logprobs is not None:
            return [TextDelta(text, self.key, logprobs, part.key)]
        return [channel.delta(text, self.key, part.key)]

    def diagnose_once(self, code: str, message: str) -> list[Delta]:
        if message in self._diagnosed:
            return []
        self._diagnosed.add(message)
        return [DiagnosticDelta(code, message)]

    # The arguments of a call

    @property
    def arguments(self) -> str:
        """The arguments received so far."""
        if len(self._arguments) > 1:
            self._arguments = ["".join(self._arguments)]
        return self._arguments[0] if self._arguments else ""

    def supply_arguments(self, raw: JSON) -> list[Delta]:
        """Add what is missing from an object with the complete arguments."""
        channel = CALLS[self.type]
        full, received = text_of(raw.get(channel.full_field)), self.arguments
        if full and not full.startswith(received):
            return self._disagreement(channel)
        return self._add_arguments(channel, full[len(received) :]) if len(full) > len(received) else []

    def _add_arguments(self, channel: Channel, text: str) -> list[Delta]:
        self._arguments.append(text)
        if self.first is not None or self.is_hosted:
            return []  # whether it repeats a call is decided when it is complete
        return [channel.delta(text, self.key, 0)]

    # The parts of a message or of reasoning

    def texts(self, channel: Channel) -> list[str]:
        """Return the text of each part that was received."""
        return self._list(channel).texts(channel.name)

    def begin_part(self, part: JSON) -> None:
        """Read the announcement of a part."""
        channel = self._channel(part)
        if channel is not None:
            self._list(channel).announce()

    def supply_text(self, channel: Channel, event: JSON, event_name: str) -> list[Delta]:
        """Add what is missing from an event with the full text of a part."""
        return self._supply(channel, event, event, event_name)

    def supply_part(self, event: JSON, part: JSON, event_name: str) -> list[Delta]:
        """Add what is missing from an event with a complete part."""
        channel = self._channel(part)
        if channel is None:
            return self._left_out(part)
        return self._supply(channel, event, part, event_name)

    def supply_parts(self, raw: JSON) -> list[Delta]:
        """Add what is missing from a complete message or reasoning item."""
        plain = "reasoning_text" if self.type == "reasoning" else "output_text"
        parts = [*_parts(raw.get("summary"), "summary_text"), *_parts(raw.get("content"), plain)]
        known = [(channel, part) for part in parts if (channel := self._channel(part)) is not None]
        deltas = [delta for part in parts for delta in self._left_out(part)]
        for received in (self._summary, self._content):
            deltas += self._complete(received, [each for each in known if self._list(each[0]) is received])
        return deltas

    def cite(self, event: JSON, raw: JSON) -> list[Delta]:
        """Return a citation as a delta."""
        key = self._content.key_of(TEXT.name, _index(event, TEXT))
        return [self._citation(raw, read_annotation(raw), key)]

    def _channel(self, part: JSON) -> Channel | None:
        return PARTS.get((self.type, text_of(part.get("type"))))

    def _list(self, channel: Channel) -> ReceivedParts:
        return self._summary if channel is SUMMARY else self._content

    def _supply(self, channel: Channel, event: JSON, raw: JSON, event_name: str) -> list[Delta]:
        full = text_of(raw.get(channel.full_field))
        match = self._list(channel).settle(channel.name, _index(event, channel), full, event_name)
        return self._add_missing(channel, raw, match, Counter())

    def _complete(self, received: ReceivedParts, parts: list[tuple[Channel, JSON]]) -> list[Delta]:
        texts = [(channel.name, text_of(raw.get(channel.full_field))) for channel, raw in parts]
        seen: Counter[tuple[int, bytes]] = Counter()
        return [
            delta
            for position, match in received.complete(texts)
            for delta in self._add_missing(*parts[position], match, seen)
        ]

    def _add_missing(
        self, channel: Channel, raw: JSON, match: FullTextMatch, seen: Counter[tuple[int, bytes]]
    ) -> list[Delta]:
        """Return what a full text adds. `seen` counts the citations of the object that it is in."""
        deltas = [] if match.agrees else self._disagreement(channel)
        if match.missing:
            part = match.parts[-1]
            is_whole = part.length == len(match.missing)
            deltas.append(self._delta(channel, part, match.missing, raw if is_whole else {}))
        if channel is TEXT and raw.get("annotations"):
            deltas += self._missing_citations(match, objects_of(raw["annotations"]), seen)
        return deltas

    def _missing_citations(
        self, match: FullTextMatch, citations: list[JSON], seen: Counter[tuple[int, bytes]]
    ) -> list[Delta]:
        """Return the citations that no event had. They are counted: a source may be cited twice."""
        first = match.parts[0].key if match.parts else self._content.key_of(TEXT.name, None)
        starts = match.starts()
        deltas: list[Delta] = []
        for raw in citations:
            annotation, identity = read_annotation(raw), _canonical(raw)
            seen[first, identity] += 1
            if seen[first, identity] <= self._citations[first if len(match.parts) < 2 else None, identity]:
                continue
            if not match.parts:
                deltas.append(self._citation(raw, annotation, first))
                continue
            number = len(starts) - 1
            if isinstance(annotation, UrlCitation):
                number = max(bisect_right(starts, annotation.start_index) - 1, 0)
            deltas.append(self._citation(raw, _shifted(annotation, -starts[number]), match.parts[number].key))
        return deltas

    def _citation(self, raw: JSON, annotation: Annotation, part: int) -> Delta:
        identity = _canonical(raw)
        self._citations[part, identity] += 1
        self._citations[None, identity] += 1
        return AnnotationDelta(annotation, self.key, part)

    def _delta(self, channel: Channel, part: ReceivedPart, text: str, event: JSON) -> Delta:
        if channel is TEXT and event.get("logprobs"):
            return TextDelta(text, self.key, read_logprobs(event["logprobs"]), part.key)
        return channel.delta(text, self.key, part.key)

    def _left_out(self, part: JSON) -> list[Delta]:
        if self._channel(part) is not None:
            return []
        type = text_of(part.get("type"))
        return self.diagnose_once("part_left_out", f"a content part of type {type[:80]!r} was left out")

    def _disagreement(self, channel: Channel) -> list[Delta]:
        return self.diagnose_once(
            "upstream_disagrees", f"the upstream's final {channel.name} differs from what it streamed"
        )


def read_logprobs(raw: Any) -> list[LogProb]:
    """Return the log probabilities with every field that the schema requires, without invalid entries."""
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
    token_bytes = raw.get("bytes")
    return TopLogProb(
        token=raw["token"],
        logprob=raw["logprob"],
        bytes=token_bytes if isinstance(token_bytes, list) else list(raw["token"].encode()),
    )


def _index(event: JSON, channel: Channel) -> int | None:
    index = event.get(channel.index_field)
    return index if index.__class__ is int else None


def _parts(value: Any, plain: str) -> list[JSON]:
    """Return the parts of a content or summary; some servers send plain text."""
    parts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [{"type": plain, "text": part} if isinstance(part, str) else object_of(part) for part in parts]


def _canonical(raw: JSON) -> bytes:
    return msgspec.json.encode(raw, order="deterministic")


def _shifted(annotation: Annotation, offset: int) -> Annotation:
    if not offset or not isinstance(annotation, UrlCitation):
        return annotation
    return msgspec.structs.replace(
        annotation,
        start_index=annotation.start_index + offset,
        end_index=annotation.end_index + offset,
    )
