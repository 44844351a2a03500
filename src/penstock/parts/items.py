"""Which output item an event is about, and what of it has been told.

Real servers rotate item ids between events, leave ids or indexes out, number every item 0, announce an item
twice or not at all (client 6, quirk R2). So an item is known by every id that it had and by its
place, and never by one of them alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from msgspec import UNSET

from penstock.lenient import object_of, text_of
from penstock.protocol.content import JsonObject
from penstock.protocol.events import Event
from penstock.protocol.wire import Wire, to_builtins

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

Same = Callable[["OutputItem", JsonObject], bool]
"""Is what was told of a call this call? For where its ids do not say."""


class OutputItem:
    """One item, as far as it was told."""

    def __init__(self, kind: str, index: int, number: int) -> None:
        self.kind = kind
        self.index = index
        self.number = number
        self.id = ""
        """The first id that it had: what others know it by does not change afterwards."""
        self.announced: JsonObject = {}
        self.done = False
        self.sealed = False
        """Of reasoning: its last part, with what must come back, was given out."""
        self.spellings: dict[str, str] = {}
        self.citations: Counter[bytes] = Counter()
        self._told: dict[str, dict[int, list[str]]] = {}
        # Of calls:
        self.type = ""
        self.call_id = ""
        self.name = ""
        self.fragments: list[str] = []
        self.final: Any = None
        """The arguments as their own `done` event had them."""
        self.delivered = False
        self.flawed = False
        self.input: JsonObject | None = None
        """What it was delivered with."""

    def tell(self, channel: str, index: int, text: str) -> None:
        self._told.setdefault(channel, {}).setdefault(index, []).append(text)

    def told(self, channel: str, index: int) -> str:
        return _joined(self._told.get(channel, {}).get(index, []))

    def has(self, channel: str) -> bool:
        return channel in self._told

    def in_pieces(self, channel: str) -> bool:
        """Was text told under several numbers? These are parts, or the pieces of one (ask A4)."""
        return len(self._told.get(channel, ())) > 1

    def heard(self, channel: str, whole: str) -> int | None:
        """How much of `whole` was told, if all that was told in a channel is the beginning of it."""
        length = 0
        for pieces in self._told.get(channel, {}).values():
            text = _joined(pieces)
            if not whole.startswith(text, length):
                return None
            length += len(text)
        return length

    def agreement(self, raw: JsonObject) -> int:
        """How well what was told agrees with an item: -1 not, 0 nothing was told, 1 its beginning, 2 all."""
        wholes = whole_texts(texts_of(raw))
        agreement = 2 if self._told else 0
        for channel in self._told:
            whole = wholes.get(channel, "")
            heard = self.heard(channel, whole)
            if heard is None:
                return -1
            agreement = agreement if heard == len(whole) else 1
        return agreement

    def is_another_call(self, raw: JsonObject) -> bool:
        """Does what has the id of this call as an item have another id as a call?"""
        call_id = text_of(raw.get("call_id"))
        return bool(call_id) and self.call_id not in ("", call_id)

    @property
    def arguments(self) -> str:
        """The arguments as their deltas had them."""
        return _joined(self.fragments)

    @property
    def is_open(self) -> bool:
        return not self.done and not self.delivered


class OutputItems:
    """The items of one response."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self._by_id: dict[tuple[str, str], OutputItem] = {}
        self._shared: set[tuple[str, str]] = set()
        """Ids that say nothing: some servers have one for all calls."""
        self._by_call_id: dict[str, OutputItem] = {}
        self._open: dict[tuple[str, int], deque[OutputItem]] = {}
        self._last: dict[tuple[str, int], OutputItem] = {}

    def announced(self, kind: str, id: str, index: int, raw: JsonObject) -> OutputItem:
        """The item of an `added`: a new one, unless something came under this id before."""
        item = self._known(kind, id)
        if item is not None and item.is_another_call(raw):
            self._forget(kind, id)
            item = None
        elif item is None and not (kind == CALL and id):
            # Spoken of before it was announced, or announced once more.
            item = next((each for each in self._open_at(kind, index) if each.announced in ({}, raw)), None)
        return self._bound(id, item or self._add(kind, id, index))

    def spoken_of(self, kind: str, id: str, index: int) -> tuple[OutputItem, bool]:
        """The item of an event inside of it, and whether that is certain: two may be open at one place."""
        known = self._known(kind, id)
        if known is None and kind == CALL:
            known = self._by_call_id.get(id)  # some servers name the call here, and not its item (ask B4)
        if known is not None:
            return known, True
        last, is_only = self._last_open(kind, index)
        if last is None:
            return self._add(kind, id, index), True
        return self._bound(id, last) if is_only else last, is_only

    def ended(self, kind: str, id: str, index: int, raw: JsonObject, same: Same) -> OutputItem:
        """The item of a `done`."""
        item = self._known(kind, id)
        # Under a new call id it may still be this call: then it is told alike, or was not told yet (ask A3).
        if item is not None and item.is_another_call(raw) and not same(item, raw):
            self._forget(kind, id)
            item = None
        if item is None:
            item = self._ended_call(index, raw, same) if kind == CALL else self._ended_text(kind, index, raw)
        return self._bound(id, item or self._add(kind, id, index))

    def _ended_call(self, index: int, raw: JsonObject, same: Same) -> OutputItem | None:
        there = self._open_at(CALL, index)
        call_id, name = text_of(raw.get("call_id")), text_of(raw.get("name"))
        if not call_id:
            return next((each for each in there if "" in (name, each.name) or each.name == name), None)
        # Calls are told apart by their own ids, wherever they stand (ask B4). One that has none yet
        # was spoken of before anything said whose it is (decision 22).
        item = self._by_call_id.get(call_id) or next((each for each in there if not each.call_id), None)
        last = self._last.get((CALL, index))
        if item is None and last is not None and last.delivered and not last.done and same(last, raw):
            return last  # its id is another one now (ask A3)
        return item

    def _ended_text(self, kind: str, index: int, raw: JsonObject) -> OutputItem | None:
        item, _ = self._last_open(kind, index)
        if item is None:
            # The item that ended here with the same words, under another id.
            last = self._last.get((kind, index))
            item = last if last is not None and texts_of(raw) and last.agreement(raw) >= 0 else None
        return item

    def name_call(self, item: OutputItem, call_id: str) -> None:
        """The first id of a call stands: it is the one that its reader may know."""
        if call_id and not item.call_id:
            item.call_id = call_id
            self._by_call_id.setdefault(call_id, item)

    def kind_of(self, id: str, index: int) -> str:
        """The kind of item that an event is of which may be of a message or of reasoning."""
        for kind in (REASONING, MESSAGE):
            if (kind, id) in self._by_id:
                return kind
        thinks, speaks = (self._last_open(kind, index)[0] for kind in (REASONING, MESSAGE))
        return REASONING if thinks is not None and speaks is None else MESSAGE

    def settle(self, output: list[tuple[str, JsonObject]], same: Same) -> list[OutputItem]:
        """The items of the terminal response, each found once: by its ids, by what it says, by its order.

        The response may lack items that were streamed, so its places may be others; and it may be made anew,
        with other ids for everything, those of calls among them (ask A3).
        """
        found: dict[int, OutputItem] = {}
        left: dict[str, dict[int, OutputItem]] = {MESSAGE: {}, REASONING: {}, CALL: {}}
        for item in self.all:
            left[item.kind][item.number] = item

        def take(position: int, item: OutputItem | None) -> None:
            if item is not None:
                found[position] = item
                left[item.kind].pop(item.number, None)

        def unclaimed(kind: str) -> Iterable[OutputItem]:
            return islice(left[kind].values(), _LOOKED_AT)

        def likeness(item: OutputItem, raw: JsonObject, position: int) -> tuple[int, bool]:
            agreement = int(same(item, raw)) - 1 if item.kind == CALL else item.agreement(raw)
            return agreement, item.index == position

        for position, (kind, raw) in enumerate(output):
            known = self._known(kind, text_of(raw.get("id")))
            if known is None or known.is_another_call(raw):
                known = self._by_call_id.get(text_of(raw.get("call_id"))) if kind == CALL else None
            take(position, known)
        for position, (kind, raw) in enumerate(output):
            if position not in found:
                ranked = [(likeness(each, raw, position), each) for each in unclaimed(kind)]
                best = max(ranked, key=lambda pair: pair[0], default=None)
                take(position, best[1] if best is not None and best[0][0] >= 0 else None)
        for position, (kind, _) in enumerate(output):
            if position not in found and kind != CALL:
                take(position, next(iter(unclaimed(kind)), None))
        return [
            found.get(position) or self._add(kind, text_of(raw.get("id")), position)
            for position, (kind, raw) in enumerate(output)
        ]

    def _known(self, kind: str, id: str) -> OutputItem | None:
        return self._by_id.get((kind, id))

    def _bound(self, id: str, item: OutputItem) -> OutputItem:
        """The item, which is known by this id too from now on."""
        if id and (item.kind, id) not in self._shared:
            self._by_id.setdefault((item.kind, id), item)
        return item

    def _forget(self, kind: str, id: str) -> None:
        self._by_id.pop((kind, id), None)
        self._shared.add((kind, id))

    def _last_open(self, kind: str, index: int) -> tuple[OutputItem | None, bool]:
        """The newest open item of a kind at a place, and whether it is the only one."""
        there = self._open.get((kind, index))
        while there and not there[-1].is_open:
            there.pop()
        while there and not there[0].is_open:
            there.popleft()
        return (there[-1], len(there) == 1) if there else (None, True)

    def _open_at(self, kind: str, index: int) -> list[OutputItem]:
        self._last_open(kind, index)  # which leaves out those that are not, at both ends
        return [item for item in islice(self._open.get((kind, index), ()), _LOOKED_AT) if item.is_open]

    def _add(self, kind: str, id: str, index: int) -> OutputItem:
        item = OutputItem(kind, index, len(self.all))
        self.all.append(item)
        self._open.setdefault((kind, index), deque()).append(item)
        self._last[kind, index] = item
        item.id = id
        return self._bound(id, item)


def _joined(pieces: list[str]) -> str:
    """The pieces as one text, put together once."""
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""


def whole_texts(tellings: Iterable[tuple[str, int, str, JsonObject]]) -> dict[str, str]:
    """All that an item says in each channel."""
    pieces: dict[str, list[str]] = {}
    for channel, _, text, _ in tellings:
        pieces.setdefault(channel, []).append(text)
    return {channel: "".join(texts) for channel, texts in pieces.items()}


def texts_of(raw: JsonObject) -> list[tuple[str, int, str, JsonObject]]:
    """The texts of a message or reasoning item: channel, index, text, part. Some servers have bare texts."""
    plain = CONTENT if text_of(raw.get("type")).endswith(REASONING) else TEXT
    found: list[tuple[str, int, str, JsonObject]] = []
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


def field(event: Event, name: str) -> Any:
    """A field of an event, also of one that does not fit its type and so was kept as it came."""
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
    """Which item an event says that it is about."""
    return text_field(event, "item_id"), number_field(event, "output_index")
