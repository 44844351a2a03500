"""Which item of the upstream an event is about."""

from __future__ import annotations

from penstock.dialects.responses.items import CALLS, JSON, UpstreamItem
from penstock.lenient import text_of
from penstock.stream.deltas import Key


class ItemIndex:
    """The items of one answer, by index and type, and by every id that they had.

    An id that an event has is believed only where it is known: they rotate in some streams (quirk R2). An
    index is believed only together with the type: some servers number all items 0.
    """

    def __init__(self) -> None:
        self._all: list[UpstreamItem] = []
        self._keys: set[Key] = set()
        self._by_index: dict[tuple[int, str], UpstreamItem] = {}
        self._by_id: dict[str, UpstreamItem] = {}
        self._at: dict[int, UpstreamItem] = {}
        self._last: dict[str, UpstreamItem] = {}
        self._by_call_id: dict[str, UpstreamItem] = {}
        self._matched: set[Key] = set()
        self._unmatched: dict[str, list[UpstreamItem]] | None = None

    def open(self) -> list[UpstreamItem]:
        return [item for item in self._all if not item.done]

    def add(self, type: str, index: int | None, id: str) -> UpstreamItem:
        key: Key = index if index is not None else id or "item"
        if key in self._keys:
            key = f"{key}/{len(self._all)}"
        item = UpstreamItem(key, type, index, id)
        self._keys.add(key)
        self._all.append(item)
        if index is not None:
            self._at[index] = self._by_index[index, type] = item
        if id:
            self._by_id[id] = item
        self._last[type] = item
        return item

    def announced(self, type: str, event: JSON, raw: JSON) -> tuple[UpstreamItem, bool]:
        """The item of an `added`, and whether it is a new one: some servers announce twice."""
        index, id = _place(event, raw)
        item = self._find(type, index, id)
        if item is None or self._is_another(item, raw) or (item.done and id not in item.ids):
            return self._new(type, index, id, raw), True
        is_new = not item.announced
        self._name(item, id, raw)
        return item, is_new

    def ended(self, type: str, event: JSON, raw: JSON) -> tuple[UpstreamItem, bool]:
        """The item of a `done`, and whether it was never announced."""
        index, id = _place(event, raw)
        item = self._find(type, index, id)
        if item is None or self._is_another(item, raw):
            return self._new(type, index, id, raw), True
        self._name(item, id, raw)
        return item, not item.announced

    def told(self, type: str, event: JSON) -> UpstreamItem:
        """The item that an event inside of an item of this type is about; new if it was not announced."""
        index, id = _place(event, {})
        item = self._find(type, index, id)
        if item is None and index is None and not id:
            item = self._last.get(type)
        return item or self.add(type, index, id)

    def latest(self, event: JSON) -> UpstreamItem | None:
        """The item that an event is about that does not say of which type it is."""
        index, id = _place(event, {})
        by_id = self._by_id.get(id)
        if by_id is not None and index in (None, by_id.index):
            return by_id
        return None if index is None else self._at.get(index)

    def match(self, index: int, type: str, id: str, call_id: str) -> UpstreamItem | None:
        """The item that the terminal response has at `index`: each is found once.

        By its ids, else by its place, else the next of its type: the response may lack items that were
        streamed, and its places then differ.
        """
        if self._unmatched is None:
            self._unmatched = {}
            for each in reversed(self._all):
                self._unmatched.setdefault(each.type, []).append(each)
        for item in (
            self._by_id.get(id),
            self._by_call_id.get(call_id) if type in CALLS else None,
            self._by_index.get((index, type)),
        ):
            if item is not None and item.type == type and item.key not in self._matched:
                self._matched.add(item.key)
                return item
        if type in CALLS and call_id:
            return None
        waiting = self._unmatched.get(type, [])
        while waiting:
            item = waiting.pop()
            if item.key not in self._matched:
                self._matched.add(item.key)
                return item
        return None

    def _find(self, type: str, index: int | None, id: str) -> UpstreamItem | None:
        by_id = self._by_id.get(id)
        if by_id is not None and by_id.type == type and index in (None, by_id.index):
            return by_id
        return None if index is None else self._by_index.get((index, type))

    def _is_another(self, item: UpstreamItem, raw: JSON) -> bool:
        """Is this another call at the same index? Under one item id it is not, whatever its call id is."""
        call_id, id = text_of(raw.get("call_id")), text_of(raw.get("id"))
        same = id in item.ids or not call_id or item.call_id in ("", call_id)
        return item.type in CALLS and not same

    def _new(self, type: str, index: int | None, id: str, raw: JSON) -> UpstreamItem:
        item = self.add(type, index, id)
        self._name(item, id, raw)
        return item

    def _name(self, item: UpstreamItem, id: str, raw: JSON) -> None:
        if id:
            item.ids.add(id)
            self._by_id[id] = item
        if call_id := text_of(raw.get("call_id")):
            self._by_call_id.setdefault(call_id, item)


def _place(event: JSON, raw: JSON) -> tuple[int | None, str]:
    index = event.get("output_index")
    id = text_of(raw.get("id")) or text_of(event.get("item_id"))
    return index if index.__class__ is int else None, id
