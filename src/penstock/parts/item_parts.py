"""What the items of a response say, as parts: text, thinking, citations, and what they carry.

Every text may be told several times over: by deltas, by `*.done`, by its part, by its item, by the terminal
response. The first telling is shown, each later one adds what is missing (decision 20).
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from penstock.lenient import objects_of, text_of
from penstock.parts.data import carried, link_to
from penstock.parts.items import CONTENT, REASONING, REFUSAL, SUMMARY, TEXT, OutputItem, texts_of, whole_texts
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart
from penstock.parts.reasoning import METADATA
from penstock.protocol.content import Annotation, JsonObject
from penstock.protocol.events import read_annotation
from penstock.protocol.wire import to_builtins
from penstock.stream.diagnostics import Tell

Thinking = Literal["part", "text", "none"]
"""What becomes of reasoning: parts of its own, text among the text, or nothing (decision 24)."""

CARRIERS = frozenset(("output_image", "image", "output_file", "file", "input_image", "input_file"))
"""Content parts that carry bytes."""


class ItemParts:
    """What one response says. With `links` a citation that has an address is a link in the text."""

    def __init__(self, thinking: Thinking, tell: Tell, *, links: bool) -> None:
        self._thinking = thinking
        self._tell = tell
        self._links = links
        self._voice = ""
        self._data: set[DataPart] = set()
        self.answered = False
        """There was text or data. Thinking alone is no answer."""
        self.thought = False
        self.refused = False
        self.annotations: list[Annotation] = []

    def say(self, item: OutputItem, channel: str, index: int, text: str) -> list[Part]:
        """New text of an item, on its way out."""
        if channel == SUMMARY and item.has(CONTENT):
            return []  # content is shown, and the summary only where there is none (decision 20)
        item.tell(channel, index, text)
        if channel in (CONTENT, SUMMARY):
            return self._think(item, text, index if channel == SUMMARY else 0)
        self.refused = self.refused or channel == REFUSAL
        self.answered = self.answered or not text.isspace()
        return [TextPart(self._spoken(text, TEXT))]

    def _think(self, item: OutputItem, text: str, index: int) -> list[Part]:
        self.thought = True
        block = item.id or f"reasoning_{item.number}"
        block = f"{block}:{index}" if index else block  # the parts of a summary are paragraphs
        if self._thinking == "part":
            return [ThinkingPart(text, block)]
        return [TextPart(self._spoken(text, block))] if self._thinking == "text" else []

    def _spoken(self, text: str, voice: str) -> str:
        """Where thinking is text, a blank line keeps it apart from the rest."""
        if self._thinking != "text":
            return text
        before, self._voice = self._voice, voice
        return f"\n\n{text}" if before not in ("", voice) else text

    def supply(self, item: OutputItem, channel: str, index: int, whole: str) -> list[Part]:
        """Something that has the whole text of a part: add what the deltas did not."""
        told, everything = item.told(channel, index), item.heard(channel, whole)
        heard = len(told) if whole.startswith(told) else None
        if everything is not None and (item.in_pieces(channel) or everything == len(whole)):
            heard = everything  # the deltas had other numbers, or each its own (ask A4)
        if heard is not None:
            return self.say(item, channel, index, whole[heard:]) if len(whole) > heard else []
        if whole and not (channel == SUMMARY and item.has(CONTENT)):
            self._tell("text_disagrees", f"the {channel} of an item ended otherwise than it was streamed")
        return []

    def supply_part(self, item: OutputItem, field: str, index: int, part: JsonObject) -> list[Part]:
        """A whole part: `field` is where its item keeps it, `content` or `summary`."""
        parts: list[Part] = []
        for channel, _, text, told in texts_of({"type": item.kind, field: [part]}):
            parts += self.supply(item, channel, index, text)
            parts += self._cite_missing(item, told, Counter())
        return parts + self._carry([part])

    def supply_item(self, item: OutputItem, raw: JsonObject) -> list[Part]:
        """A whole message or reasoning item. Its parts may have other numbers than their deltas had."""
        parts: list[Part] = []
        tellings = texts_of(raw)
        if any(channel == CONTENT and text for channel, _, text, _ in tellings):
            tellings = [telling for telling in tellings if telling[0] != SUMMARY]
        heard = {channel: item.heard(channel, whole) for channel, whole in whole_texts(tellings).items()}
        seen: Counter[bytes] = Counter()
        for channel, index, text, told in tellings:
            known = heard[channel]
            if known is None:
                parts += self.supply(item, channel, index, text)
            else:
                parts += self.say(item, channel, index, text[known:]) if len(text) > known else []
                heard[channel] = max(known - len(text), 0)
            parts += self._cite_missing(item, told, seen)
        return parts + self._carry(objects_of(raw.get("content")))

    def _cite_missing(self, item: OutputItem, told: JsonObject, seen: Counter[bytes]) -> list[Part]:
        """The citations in a part, but for those that were told. `seen` are those of the parts before it."""
        parts: list[Part] = []
        for annotation in objects_of(told.get("annotations")):
            name = _name(annotation)
            seen[name] += 1
            if seen[name] > item.citations[name]:
                parts += self.cite(item, annotation)
        return parts

    def _carry(self, content: list[JsonObject]) -> list[Part]:
        carriers = [part for part in content if text_of(part.get("type")) in CARRIERS]
        return [given for part in carriers for given in self.give(carried(part))]

    def cite(self, item: OutputItem, raw: JsonObject) -> list[Part]:
        item.citations[_name(raw)] += 1
        annotation = read_annotation(raw)
        self.annotations.append(annotation)
        link = link_to(annotation) if self._links else ""
        return [TextPart(link)] if link else []

    def seal(self, item: OutputItem, raw: JsonObject, model: str) -> list[Part]:
        """The last part of a block of thinking: what the model needs back to go on from it (ask N3)."""
        if self._thinking != "part":
            return []
        kept = {name: value for name, value in raw.items() if name != "status"}
        metadata = {METADATA: {REASONING: kept, "model": model}}
        return [ThinkingPart("", item.id or f"reasoning_{item.number}", metadata)]

    def give(self, part: DataPart | None) -> list[Part]:
        if part is None or part in self._data:
            return []
        self._data.add(part)
        self.answered = True
        return [part]


def _name(annotation: JsonObject) -> bytes:
    """What tells a citation from another, however much of it is spelled out."""
    return msgspec.json.encode(to_builtins(read_annotation(annotation)), order="deterministic")
