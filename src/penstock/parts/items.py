"""Find the output item that an event belongs to, and record what has been streamed of it.

Real servers rotate item ids between events, omit ids or indexes, number every item 0, and announce an item
twice or not at all (client 6, quirk R2). So an item is identified by all the ids that it had and by its
output index, never by one of them alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

from msgspec import UNSET

from penstock.lenient import object_of, text_of
from penstock.protocol.content import JsonObject
from penstock.protocol.events import Event
from penstock.protocol.wire import Wire, to_builtins

TEXT, REFUSAL, CONTENT, SUMMARY = "text", "refusal", "content", "summary"
"""The channels of an item's text: the first two for messages, the others for reasoning items."""

PARTS: dict[str, str] = {
    "output_text": TEXT,
    "text": TEXT,
    "refusal": REFUSAL,
    "reasoning_text": CONTENT,
    "summary_text": SUMMARY,
}
"""The channel that a content part belongs to, by its type."""

MESSAGE, REASONING, CALL = "message", "reasoning", "call"

_MAX_CANDIDATES = 64
"""The maximum number of candidates for an item without a known id: a hostile server may send many."""

SameCall = Callable[["OutputItem", JsonObject], bool]
"""Returns whether the item and the raw call are the same call; used when the ids do not match."""


class OutputItem:
    """One item, as far as it has been received."""

    def __init__(self, kind: str, index: int, number: int) -> None:
        self.kind = kind
        self.index = index
        self.number = number
        self.id = ""
        """The first id that it had; the parts are named after it, so it does not change."""
        self.announced: JsonObject = {}
        self.done = False
        self.has_sent_metadata = False
        """For reasoning: whether the last part, with the metadata to return, was reported."""
        self.event_names: dict[str, str] = {}
        self.citations: Counter[bytes] = Counter()
        self._texts: dict[str, dict[int, list[str]]] = {}
        # For calls:
        self.type = ""
        self.call_id = ""
        self.name = ""
        self.fragments: list[str] = []
        self.final: Any = None
        """The arguments from their `done` event."""
        self.delivered = False
        self.malformed = False
        self.input: JsonObject | None = None
        """The input that it was delivered with."""

    def add_text(self, channel: str, index: int, text: str) -> None:
        self._texts.setdefault(channel, {}).setdefault(index, []).append(text)

    def text(self, channel: str, index: int) -> str:
        return _joined(self._texts.get(channel, {}).get(index, []))

    def has(self, channel: str) -> bool:
        return channel in self._texts

    def has_several_indexes(self, channel: str) -> bool:
        """Return whether text came with several indexes: several parts, or pieces of one part (ask A4)."""
        return len(self._texts.get(channel, ())) > 1

    def received_length(self, channel: str, full_text: str) -> int | None:
        """Return how much of `full_text` was received; None if what was received is not its beginning."""
        length = 0
        for pieces in self._texts.get(channel, {}).values():
            text = _joined(pieces)
            if not full_text.startswith(text, length):
                return None
            length += len(text)
        return length

    def agreement(self, raw: JsonObject) -> int:
        """Compare the received text with an item: -1 differs, 0 none received, 1 its beginning, 2 equal."""
        full_texts = full_texts_of(texts_of(raw))
        agreement = 2 if self._texts else 0
        for channel in self._texts:
            full_text = full_texts.get(channel, "")
            received = self.received_length(channel, full_text)
            if received is None:
                return -1
            agreement = agreement if received == len(full_text) else 1
        return agreement

    def is_another_call(self, raw: JsonObject) -> bool:
        """Return whether `raw`, which has this item's id, has a different call id."""
        call_id = text_of(raw.get("call_id"))
        return bool(call_id) and self.call_id not in ("", call_id)

    @property
    def arguments(self) -> str:
        """The arguments from their deltas."""
        return _joined(self.fragments)

    @property
    def is_open(self) -> bool:
        return not self.done and not self.delivered


class ItemText(NamedTuple):
    """One text in an item: its channel, the index of its part, the text, and the part."""

    channel: str
    part_index: int
    text: str
    part: JsonObject


class OutputItems:
    """The items of one response."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self._by_id: dict[tuple[str, str], OutputItem] = {}
        self._ambiguous_ids: set[tuple[str, str]] = set()
        """Ids that identify nothing: some servers use the same id for all calls."""
        self._by_call_id: dict[str, OutputItem] = {}
        self._open: dict[tuple[str, int], deque[OutputItem]] = {}
        self._last: dict[tuple[str, int], OutputItem] = {}

    def find_added(self, kind: str, id: str, index: int, raw: JsonObject) -> OutputItem:
        """Return the item of an `added` event: a new one, unless the id is known."""
        item = self._find_by_id(kind, id)
        if item is not None and item.is_another_call(raw):
            self._forget(kind, id)
            item = None
        elif item is None and not (kind == CALL and id):
            # An event came before the announcement, or the announcement is repeated.
            item = next((each for each in self._open_at(kind, index) if each.announced in ({}, raw)), None)
        return self._bind(id, item or self._add(kind, id, index))

    def find(self, kind: str, id: str, index: int) -> tuple[OutputItem, bool]:
        """Return the item of an event, and whether that is certain: two items may be open at one index."""
        known = self._find_by_id(kind, id)
        if known is None and kind == CALL:
            known = self._by_call_id.get(id)  # some servers send the id of the call, not of its item (ask B4)
        if known is not None:
            return known, True
        last, is_only = self._last_open(kind, index)
        if last is None:
            return self._add(kind, id, index), True
        return self._bind(id, last) if is_only else last, is_only

    def find_done(
        self, kind: str, id: str, index: int, raw: JsonObject, is_same_call: SameCall
    ) -> OutputItem:
        """Return the item of a `done` event."""
        item = self._find_by_id(kind, id)
        # With a new call id it may still be this call, if it is equal or not delivered yet (ask A3).
        if item is not None and item.is_another_call(raw) and not is_same_call(item, raw):
            self._forget(kind, id)
            item = None
        if item is None:
            item = (
                self._find_done_call(index, raw, is_same_call)
                if kind == CALL
                else self._find_done_text(kind, index, raw)
            )
        return self._bind(id, item or self._add(kind, id, index))

    def _find_done_call(self, index: int, raw: JsonObject, is_same_call: SameCall) -> OutputItem | None:
        open_items = self._open_at(CALL, index)
        call_id, name = text_of(raw.get("call_id")), text_of(raw.get("name"))
        if not call_id:
            return next((each for each in open_items if "" in (name, each.name) or each.name == name), None)
        # Calls are distinguished by their call ids, at any index (ask B4). An open call without an id is
        # one whose events came before its id (decision 22).
        item = self._by_call_id.get(call_id) or next((each for each in open_items if not each.call_id), None)
        last = self._last.get((CALL, index))
        if item is None and last is not None and last.delivered and not last.done and is_same_call(last, raw):
            return last  # its id has changed (ask A3)
        return item

    def _find_done_text(self, kind: str, index: int, raw: JsonObject) -> OutputItem | None:
        item, _ = self._last_open(kind, index)
        if item is None:
            # The item that ended here with the same text and a different id.
            last = self._last.get((kind, index))
            item = last if last is not None and texts_of(raw) and last.agreement(raw) >= 0 else None
        return item

    def name_call(self, item: OutputItem, call_id: str) -> None:
        """Set the id of a call. The first id is final: the reader may know it already."""
        if call_id and not item.call_id:
            item.call_id = call_id
            self._by_call_id.setdefault(call_id, item)

    def kind_of(self, id: str, index: int) -> str:
        """Return the kind of item for an event that messages and reasoning items share."""
        for kind in (REASONING, MESSAGE):
            if (kind, id) in self._by_id:
                return kind
        reasoning, message = (self._last_open(kind, index)[0] for kind in (REASONING, MESSAGE))
        return REASONING if reasoning is not None and message is None else MESSAGE

    def match_output(self, output: list[tuple[str, JsonObject]], is_same_call: SameCall) -> list[OutputItem]:
        """Return the item for each entry of the terminal response: by its ids, its content or its order.

        The response may lack items that were streamed, which shifts the indexes. It may also be regenerated
        with new ids for everything, including calls (ask A3).
        """
        found: dict[int, OutputItem] = {}
        unclaimed: dict[str, dict[int, OutputItem]] = {MESSAGE: {}, REASONING: {}, CALL: {}}
        for item in self.all:
            unclaimed[item.kind][item.number] = item

        def claim(position: int, item: OutputItem | None) -> None:
            if item is not None:
                found[position] = item
                unclaimed[item.kind].pop(item.number, None)

        def candidates(kind: str) -> Iterable[OutputItem]:
            return islice(unclaimed[kind].values(), _MAX_CANDIDATES)

        def similarity(item: OutputItem, raw: JsonObject, position: int) -> tuple[int, bool]:
            agreement = int(is_same_call(item, raw)) - 1 if item.kind == CALL else item.agreement(raw)
            return agreement, item.index == position

        for position, (kind, raw) in enumerate(output):
            known = self._find_by_id(kind, text_of(raw.get("id")))
            if known is None or known.is_another_call(raw):
                known = self._by_call_id.get(text_of(raw.get("call_id"))) if kind == CALL else None
            claim(position, known)
        for position, (kind, raw) in enumerate(output):
            if position not in found:
                ranked = [(similarity(each, raw, position), each) for each in candidates(kind)]
                best = max(ranked, key=lambda pair: pair[0], default=None)
                claim(position, best[1] if best is not None and best[0][0] >= 0 else None)
        for position, (kind, _) in enumerate(output):
            if position not in found and kind != CALL:
                claim(position, next(iter(candidates(kind)), None))
        return [
            found.get(position) or self._add(kind, text_of(raw.get("id")), position)
            for position, (kind, raw) in enumerate(output)
        ]

    def _find_by_id(self, kind: str, id: str) -> OutputItem | None:
        return self._by_id.get((kind, id))

    def _bind(self, id: str, item: OutputItem) -> OutputItem:
        """Register the id for the item, and return the item."""
        if id and (item.kind, id) not in self._ambiguous_ids:
            self._by_id.setdefault((item.kind, id), item)
        return item

    def _forget(self, kind: str, id: str) -> None:
        self._by_id.pop((kind, id), None)
        self._ambiguous_ids.add((kind, id))

    def _last_open(self, kind: str, index: int) -> tuple[OutputItem | None, bool]:
        """Return the newest open item of a kind at an index, and whether it is the only one."""
        open_items = self._open.get((kind, index))
        while open_items and not open_items[-1].is_open:
            open_items.pop()
        while open_items and not open_items[0].is_open:
            open_items.popleft()
        return (open_items[-1], len(open_items) == 1) if open_items else (None, True)

    def _open_at(self, kind: str, index: int) -> list[OutputItem]:
        self._last_open(kind, index)  # removes closed items at both ends
        return [item for item in islice(self._open.get((kind, index), ()), _MAX_CANDIDATES) if item.is_open]

    def _add(self, kind: str, id: str, index: int) -> OutputItem:
        item = OutputItem(kind, index, len(self.all))
        self.all.append(item)
        self._open.setdefault((kind, index), deque()).append(item)
        self._last[kind, index] = item
        item.id = id
        return self._bind(id, item)


def _joined(pieces: list[str]) -> str:
    """Join the pieces in place, so that they are joined only once."""
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""


def full_texts_of(texts: Iterable[ItemText]) -> dict[str, str]:
    """Return the full text of an item in each channel."""
    pieces: dict[str, list[str]] = {}
    for each in texts:
        pieces.setdefault(each.channel, []).append(each.text)
    return {channel: "".join(joined) for channel, joined in pieces.items()}


def texts_of(raw: JsonObject) -> list[ItemText]:
    """Return the texts of a message or reasoning item; some servers send strings instead of parts."""
    plain = CONTENT if text_of(raw.get("type")).endswith(REASONING) else TEXT
    found: list[ItemText] = []
    for field, default in ((SUMMARY, SUMMARY), ("content", plain)):
        value = raw.get(field)
        parts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        for index, part in enumerate(parts):
            fields = {"type": default, "text": part} if isinstance(part, str) else object_of(part)
            channel = PARTS.get(text_of(fields.get("type")), default if isinstance(part, str) else "")
            if channel == TEXT:
                channel = plain
            if channel:
                text = text_of(fields.get(REFUSAL if channel == REFUSAL else "text"))
                found.append(ItemText(channel, index, text, fields))
    return found


def field(event: Event, name: str) -> Any:
    """Return a field of an event, including fields that did not fit the type and are in `extra`."""
    value = getattr(event, name, None)
    if value is None or value is UNSET:
        return (event.extra or {}).get(name)
    return value


def text_field(event: Event, name: str) -> str:
    return text_of(field(event, name))


def number_field(event: Event, name: str) -> int:
    value = field(event, name)
    return value if value.__class__ is int and value >= 0 else 0


def object_field(event: Event, name: str) -> JsonObject:
    value = field(event, name)
    return object_of(to_builtins(value) if isinstance(value, Wire) else value)


def place(event: Event) -> tuple[str, int]:
    """Return the item id and the output index of an event."""
    return text_field(event, "item_id"), number_field(event, "output_index")
