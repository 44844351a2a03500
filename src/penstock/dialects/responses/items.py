"""One item of the upstream's answer: what was received so far, and what its final versions still add.

A text is sent up to five times: as deltas, in `*.done`, in the part, in the item, in the terminal response.
The first is passed on; each later one adds only what is missing (decision 20, quirk R3, quirk R5).
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
    """The field with the index of the part; "" if there is only one part."""
    full_field: str
    """The field of `*.done`, the part and the item that has the full text."""
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
        self._received: dict[tuple[str, int], list[str]] = {}
        self._event_names: dict[str, str] = {}
        self._citations: Counter[bytes] = Counter()
        self._diagnosed: set[str] = set()

    def add_delta(self, channel: Channel, event: JSON, event_name: str) -> list[Delta]:
        """Read a delta. If one event arrives under two names, the item's first name is used (decision 20)."""
        text = text_of(event.get("delta"))
        if not text or self._event_names.setdefault(channel.name, event_name) != event_name:
            return []
        return self._emit(channel, _index(event, channel), text, event)

    def supply(self, channel: Channel, index: int, raw: JSON) -> list[Delta]:
        """Add what is missing from an object with the full text and its citations."""
        full = text_of(raw.get(channel.full_field))
        received = self.received(channel, index)
        deltas: list[Delta] = []
        if full.startswith(received):
            if len(full) > len(received):
                deltas += self._emit(channel, index, full[len(received) :], {} if received else raw)
        elif full:
            deltas += self.diagnose_once(
                "upstream_disagrees", f"the upstream's final {channel.name} differs from what it streamed"
            )
        if channel is TEXT:
            deltas += self._missing_citations(index, objects_of(raw.get("annotations")))
        return deltas

    def supply_parts(self, raw: JSON) -> list[Delta]:
        """Add what is missing from a complete message or reasoning item."""
        deltas: list[Delta] = []
        for index, part in _parts(raw.get("summary"), "summary_text"):
            deltas += self.supply_part(index, part)
        plain = "reasoning_text" if self.type == "reasoning" else "output_text"
        for index, part in _parts(raw.get("content"), plain):
            deltas += self.supply_part(index, part)
        return deltas

    def supply_part(self, index: int, part: JSON) -> list[Delta]:
        kind = text_of(part.get("type"))
        channel = PARTS.get((self.type, kind))
        if channel is None:
            return self.diagnose_once("part_left_out", f"a content part of type {kind[:80]!r} was left out")
        return self.supply(channel, index, part)

    def cite(self, index: int, raw: JSON) -> list[Delta]:
        """Return a citation as a delta."""
        self._citations[_canonical(raw)] += 1
        return [AnnotationDelta(_shifted(read_annotation(raw), self._offset(index)), self.key)]

    def received(self, channel: Channel, index: int = 0) -> str:
        """Return the text received so far."""
        pieces = self._received.get((channel.name, index), [])
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0] if pieces else ""

    def diagnose_once(self, code: str, message: str) -> list[Delta]:
        if message in self._diagnosed:
            return []
        self._diagnosed.add(message)
        return [DiagnosticDelta(code, message)]

    def _emit(self, channel: Channel, index: int, text: str, event: JSON) -> list[Delta]:
        self._received.setdefault((channel.name, index), []).append(text)
        if self.first is not None or self.is_hosted:
            return []  # whether it repeats a call is decided when it is complete
        if channel is TEXT and event.get("logprobs"):
            return [TextDelta(text, self.key, read_logprobs(event["logprobs"]))]
        return [channel.delta(text, self.key, index)]

    def _missing_citations(self, index: int, citations: list[JSON]) -> list[Delta]:
        """Return the citations of a part that no event had. They are counted: a source may be cited twice."""
        unmatched = self._citations.copy() if citations else self._citations
        deltas: list[Delta] = []
        for raw in citations:
            key = _canonical(raw)
            unmatched[key] -= 1
            if unmatched[key] < 0:
                deltas += self.cite(index, raw)
        return deltas

    def _offset(self, index: int) -> int:
        """Return the offset of a text part. Consecutive text parts become one, which shifts positions."""
        if any(name == REFUSAL.name for name, _ in self._received):
            return 0
        return sum(len(self.received(TEXT, each)) for name, each in self._received if each < index)


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


def _index(event: JSON, channel: Channel) -> int:
    index = event.get(channel.index_field)
    return index if index.__class__ is int else 0


def _parts(value: Any, plain: str) -> Iterator[tuple[int, JSON]]:
    """Yield the parts of a content or summary; some servers send plain text."""
    if isinstance(value, str):
        yield 0, {"type": plain, "text": value}
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield index, {"type": plain, "text": part} if isinstance(part, str) else object_of(part)


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
