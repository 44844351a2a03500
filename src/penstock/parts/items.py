"""Which output item an event is about, and what of it has been told.

Real servers rotate item ids between events, leave ids or indexes out, number every item 0, announce an item
twice or not at all (notes/clients 3, notes/quirks R2). So an item is known by every id that it had and by its
place, and never by one of them alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from penstock.dialects.frames import object_of, text_of
from penstock.parts.fields import JSON

TEXT, REFUSAL, CONTENT, SUMMARY = "text", "refusal", "content", "summary"
"""The channels in which an item tells text: a message the first two, a reasoning item the others."""

PARTS: dict[str, str] = {
    "output_text": TEXT,
    "text": TEXT,
    "refusal": REFUSAL,
    "reasoning_text": CONTENT,
    "summary_text": SUMMARY,
}
"""The channel that a content part belongs to, by its type."""

MESSAGE, REASONING, CALL = "message", "reasoning", "call"

_LOOKED_AT = 64
"""How many candidates are compared with an item that has no known id: a hostile server may send many."""


class OutputItem:
    """One item, as far as it was told."""

    def __init__(self, kind: str, index: int, number: int) -> None:
        self.kind = kind
        self.index = index
        self.number = number
        self.id = ""
        """The first id that it had: what others know it by does not change afterwards."""
        self.announced: JSON = {}
        self.done = False
        self.sealed = False
        """Of reasoning: its last part, with what must come back, was given out."""
        self.spellings: dict[str, str] = {}
        self.citations: Counter[bytes] = Counter()
        self._told: dict[tuple[str, int], list[str]] = {}
        # Of calls:
        self.type = ""
        self.call_id = ""
        self.name = ""
        self.fragments: list[str] = []
        self.final: str | None = None
        """The arguments as their own `done` event had them."""
        self.delivered = False

    def tell(self, channel: str, index: int, text: str) -> None:
        self._told.setdefault((channel, index), []).append(text)

    def told(self, channel: str, index: int) -> str:
        pieces = self._told.get((channel, index), [])
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0] if pieces else ""

    def has(self, channel: str) -> bool:
        return any(name == channel for name, _ in self._told)

    def agrees_with(self, raw: JSON) -> bool:
        """Is what was told the beginning of what this item says? Then it is this item, most likely."""
        whole = {(channel, index): text for channel, index, text, _ in texts_of(raw)}
        return all(whole.get(place, "").startswith(self.told(*place)) for place in self._told)

    @property
    def is_open(self) -> bool:
        return not self.done and not self.delivered


class OutputItems:
    """The items of one response."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_call_id: dict[str, OutputItem] = {}
        self._open: dict[tuple[str, int], list[OutputItem]] = {}
        self._last: dict[tuple[str, int], OutputItem] = {}

    def announced(self, kind: str, id: str, index: int) -> OutputItem:
        """The item of an `added`: a new one, unless something came under this id before."""
        known = self._known(kind, id)
        if known is None and not id:
            known = next(iter(self._open_at(kind, index)), None)
        return known or self._add(kind, id, index)

    def spoken_of(self, kind: str, id: str, index: int) -> tuple[OutputItem, bool]:
        """The item of an event inside of it, and whether that is certain: two may be open at one place."""
        known = self._known(kind, id)
        if known is not None:
            return known, True
        candidates = self._open_at(kind, index)
        if not candidates:
            return self._add(kind, id, index), True
        if id and len(candidates) == 1:
            self._by_id[id] = candidates[0]
        return candidates[-1], len(candidates) == 1

    def ended(self, kind: str, id: str, index: int, raw: JSON) -> OutputItem:
        """The item of a `done`."""
        item = self._known(kind, id)
        if item is None:
            there = self._open_at(kind, index)
            call_id = text_of(raw.get("call_id"))
            if kind == CALL and call_id:
                # Calls are told apart by their own ids, wherever they stand (seed 002). One that has none yet
                # was spoken of before anything said whose it is (seed 000, gap 1).
                nameless = (each for each in there if not each.call_id)
                item = self._by_call_id.get(call_id) or next(nameless, None)
            elif there:
                item = there[-1]
            else:
                item = self._repeated(kind, index, raw)
        item = item or self._add(kind, id, index)
        if id:
            self._by_id.setdefault(id, item)
        return item

    def name_call(self, item: OutputItem, call_id: str) -> None:
        """The first id of a call stands: it is the one that its reader may know."""
        if call_id and not item.call_id:
            item.call_id = call_id
            self._by_call_id.setdefault(call_id, item)

    def settle(self, output: list[tuple[str, JSON]]) -> list[OutputItem]:
        """The items of the terminal response, each found once: by its ids, by what it says, by its order.

        The response may lack items that were streamed, so its places may be others.
        """
        found: dict[int, OutputItem] = {}
        left = {item.number: item for item in self.all}

        def take(position: int, item: OutputItem | None) -> None:
            if item is not None and item.number in left:
                found[position] = left.pop(item.number)

        def unclaimed(kind: str) -> Iterable[OutputItem]:
            return islice((each for each in left.values() if each.kind == kind), _LOOKED_AT)

        for position, (kind, raw) in enumerate(output):
            item = self._known(kind, text_of(raw.get("id")))
            if item is None and kind == CALL:
                item = self._by_call_id.get(text_of(raw.get("call_id")))
            take(position, item)
        nameless = [
            (position, kind, raw)
            for position, (kind, raw) in enumerate(output)
            if position not in found and not (kind == CALL and raw.get("call_id"))
        ]
        for position, kind, raw in nameless:
            agreeing = [each for each in unclaimed(kind) if each.agrees_with(raw)]
            here = (each for each in agreeing if each.index == position)
            take(position, next(here, agreeing[0] if agreeing else None))
        for position, kind, _ in nameless:
            if position not in found:
                take(position, next(iter(unclaimed(kind)), None))
        return [
            found.get(position) or self._add(kind, text_of(raw.get("id")), position)
            for position, (kind, raw) in enumerate(output)
        ]

    def _known(self, kind: str, id: str) -> OutputItem | None:
        item = self._by_id.get(id)
        return item if item is not None and item.kind == kind else None

    def _open_at(self, kind: str, index: int) -> list[OutputItem]:
        there = self._open.get((kind, index), [])
        if there and not all(item.is_open for item in there):
            there[:] = [item for item in there if item.is_open]
        return there

    def _repeated(self, kind: str, index: int, raw: JSON) -> OutputItem | None:
        """The item that ended here with the same words, under another id."""
        last = self._last.get((kind, index))
        same = last is not None and kind != CALL and bool(texts_of(raw)) and last.agrees_with(raw)
        return last if same else None

    def _add(self, kind: str, id: str, index: int) -> OutputItem:
        item = OutputItem(kind, index, len(self.all))
        self.all.append(item)
        self._open.setdefault((kind, index), []).append(item)
        self._last[kind, index] = item
        if id:
            item.id = id
            self._by_id[id] = item
        return item


def texts_of(raw: JSON) -> list[tuple[str, int, str, JSON]]:
    """The texts of a message or reasoning item: channel, index, text, part. Some servers have bare texts."""
    plain = CONTENT if text_of(raw.get("type")).endswith(REASONING) else TEXT
    found: list[tuple[str, int, str, JSON]] = []
    for field, default in ((SUMMARY, SUMMARY), ("content", plain)):
        value = raw.get(field)
        parts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        for index, part in enumerate(parts):
            told = {"type": default, "text": part} if isinstance(part, str) else object_of(part)
            channel = PARTS.get(text_of(told.get("type")), default if isinstance(part, str) else "")
            if channel == TEXT:
                channel = plain
            if channel:
                whole = text_of(told.get(REFUSAL if channel == REFUSAL else "text"))
                found.append((channel, index, whole, told))
    return found
