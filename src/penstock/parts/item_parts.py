"""Convert the items of a response to parts: text, thinking, citations and data.

A text may arrive several times: in deltas, in `*.done`, in its part, in its item, in the terminal response.
The first copy is shown; later copies only add what is missing (decision 20).
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from penstock.lenient import objects_of, text_of
from penstock.parts.citations import CitationList, Citations, link_to
from penstock.parts.data import data_of
from penstock.parts.fences import closing_fence
from penstock.parts.items import (
    CONTENT,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT,
    OutputItem,
    full_texts_of,
    texts_of,
)
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart
from penstock.parts.reasoning import METADATA
from penstock.protocol.content import Annotation, JsonObject
from penstock.protocol.events import read_annotation
from penstock.protocol.wire import to_builtins
from penstock.stream.diagnostics import Report

Thinking = Literal["part", "text", "none"]
"""How reasoning is reported: as thinking parts, as text, or not at all (decision 24)."""

DATA_PARTS = frozenset(("output_image", "image", "output_file", "file", "input_image", "input_file"))
"""Types of content parts that contain data."""


class ItemParts:
    """The parts of one response."""

    def __init__(self, thinking: Thinking, citations: Citations, report: Report) -> None:
        self._thinking = thinking
        self._citations = citations
        self._report = report
        self._sources = CitationList()
        self._links: dict[int, Part] = {}
        self._texts: list[str] | None = [] if citations == "end" else None
        """The text so far, if a list of citations may follow it."""
        self._last_block = ""
        self._data: set[DataPart] = set()
        self.has_answer = False
        """Whether there was text or data. Thinking alone is not an answer."""
        self.has_thinking = False
        self.refused = False
        self.annotations: list[Annotation] = []

    def emit(self, item: OutputItem, channel: str, index: int, text: str) -> list[Part]:
        """Report new text of an item."""
        if channel == SUMMARY and item.has(CONTENT):
            return []  # show the summary only if there is no content (decision 20)
        item.add_text(channel, index, text)
        if channel in (CONTENT, SUMMARY):
            return self._think(item, text, index if channel == SUMMARY else 0)
        self.refused = self.refused or channel == REFUSAL
        self.has_answer = self.has_answer or not text.isspace()
        return self._as_text(text, TEXT)

    def _think(self, item: OutputItem, text: str, index: int) -> list[Part]:
        self.has_thinking = True
        block = item.id or f"reasoning_{item.number}"
        block = f"{block}:{index}" if index else block  # the parts of a summary are paragraphs
        if self._thinking == "part":
            return [ThinkingPart(text, block)]
        return self._as_text(text, block) if self._thinking == "text" else []

    def _as_text(self, text: str, block: str) -> list[Part]:
        """Separate thinking from other text with a blank line, if both are reported as text."""
        if self._thinking == "text":
            previous, self._last_block = self._last_block, block
            text = f"\n\n{text}" if previous not in ("", block) else text
        if self._texts is not None:
            self._texts.append(text)
        return [TextPart(text)]

    def complete_text(self, item: OutputItem, channel: str, index: int, full_text: str) -> list[Part]:
        """Report what the deltas lack of the full text of a part."""
        streamed, total = item.text(channel, index), item.received_length(channel, full_text)
        received = len(streamed) if full_text.startswith(streamed) else None
        if total is not None and (item.has_several_indexes(channel) or total == len(full_text)):
            received = total  # the deltas had different indexes, or one each (ask A4)
        if received is not None:
            return self.emit(item, channel, index, full_text[received:]) if len(full_text) > received else []
        if full_text and not (channel == SUMMARY and item.has(CONTENT)):
            self._report("text_disagrees", f"the final {channel} of an item differs from its deltas")
        return []

    def complete_part(self, item: OutputItem, field: str, index: int, part: JsonObject) -> list[Part]:
        """Report what the deltas lack of a part. `field` is its place in the item: `content` or `summary`."""
        parts: list[Part] = []
        for each in texts_of({"type": item.kind, field: [part]}):
            parts += self.complete_text(item, each.channel, index, each.text)
            parts += self._add_missing_citations(item, each.part, Counter())
        return parts + self._data_parts([part])

    def complete_item(self, item: OutputItem, raw: JsonObject) -> list[Part]:
        """Report what the deltas lack of an item. The indexes of its parts may differ from the deltas."""
        parts: list[Part] = []
        texts = texts_of(raw)
        if any(each.channel == CONTENT and each.text for each in texts):
            texts = [each for each in texts if each.channel != SUMMARY]
        received = {
            channel: item.received_length(channel, full_text)
            for channel, full_text in full_texts_of(texts).items()
        }
        seen: Counter[bytes] = Counter()
        for channel, index, text, part in texts:
            length = received[channel]
            if length is None:
                parts += self.complete_text(item, channel, index, text)
            else:
                parts += self.emit(item, channel, index, text[length:]) if len(text) > length else []
                received[channel] = max(length - len(text), 0)
            parts += self._add_missing_citations(item, part, seen)
        return parts + self._data_parts(objects_of(raw.get("content")))

    def _add_missing_citations(self, item: OutputItem, part: JsonObject, seen: Counter[bytes]) -> list[Part]:
        """Add the citations of a part that are still missing. `seen` counts those of the parts before it."""
        parts: list[Part] = []
        for annotation in objects_of(part.get("annotations")):
            identity = _identity(annotation)
            seen[identity] += 1
            if seen[identity] > item.citations[identity]:
                parts += self.add_citation(item, annotation)
        return parts

    def _data_parts(self, content: list[JsonObject]) -> list[Part]:
        data_parts = [part for part in content if text_of(part.get("type")) in DATA_PARTS]
        return [each for part in data_parts for each in self.add_data(data_of(part))]

    def add_citation(self, item: OutputItem, raw: JsonObject) -> list[Part]:
        item.citations[_identity(raw)] += 1
        annotation = read_annotation(raw)
        self.annotations.append(annotation)
        if self._citations == "end":
            self._sources.add(annotation)
        return self._linked(link_to(annotation)) if self._citations == "inline" else []

    def list_citations(self) -> list[Part]:
        """Return the list of sources, for the end of the answer. An open code block is closed first."""
        sources = self._sources.markdown
        return self._linked(closing_fence("".join(self._texts or ())) + sources) if sources else []

    def _linked(self, markdown: str) -> list[Part]:
        if not markdown:
            return []
        part = TextPart(markdown)
        self._links[id(part)] = part
        return [part]

    def is_link(self, part: Part) -> bool:
        """Return whether a part is made of citations: the model did not generate its text."""
        return id(part) in self._links

    def end_thinking(self, item: OutputItem, raw: JsonObject, model: str) -> list[Part]:
        """Return the last part of a thinking block: the metadata that the model needs back (ask N3)."""
        if self._thinking != "part":
            return []
        reasoning = {name: value for name, value in raw.items() if name != "status"}
        metadata = {METADATA: {REASONING: reasoning, "model": model}}
        return [ThinkingPart("", item.id or f"reasoning_{item.number}", metadata)]

    def add_data(self, part: DataPart | None) -> list[Part]:
        if part is None or part in self._data:
            return []
        self._data.add(part)
        self.has_answer = True
        return [part]


def _identity(annotation: JsonObject) -> bytes:
    """Return a key that is equal for equal citations, whether or not default values are spelled out."""
    return msgspec.json.encode(to_builtins(read_annotation(annotation)), order="deterministic")
