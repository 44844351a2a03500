"""Finds the upstream's item that an event belongs to."""

from __future__ import annotations

from penstock.dialects.responses.items import CALLS, JSON, UpstreamItem
from penstock.lenient import text_of
from penstock.stream.deltas import Key


class ItemIndex:
    """The items of one answer, by index and type, and by every id that they had.

    The id in an event is used only if it is known: ids rotate in some streams (quirk R2). An index is used
    only together with the type: some servers number all items 0.
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
        """Return the item of an `added` event, and whether it is new: some servers announce items twice."""
        index, id = _position(event, raw)
        item = self._find(type, index, id)
        if item is None or self._is_another(item, raw) or (item.done and id not in item.ids):
            return self._new(type, index, id, raw), True
        is_new = not item.announced
        self._add_ids(item, id, raw)
        return item, is_new

    def ended(self, type: str, event: JSON, raw: JSON) -> tuple[UpstreamItem, bool]:
        """Return the item of a `done` event, and whether it was never announced."""
        index, id = _position(event, raw)
        item = self._find(type, index, id)
        if item is None or self._is_another(item, raw):
            return self._new(type, index, id, raw), True
        self._add_ids(item, id, raw)
        return item, not item.announced

    def containing(self, type: str, event: JSON) -> UpstreamItem:
        """Return the item of this type that an event belongs to; add it if it was not announced."""
        return self.at(type, *_position(event, {}))

    def at(self, type: str, index: int | None, id: str) -> UpstreamItem:
        """Return the item of this type at the position that an event has; add it if it is new."""
        item = self._find(type, index, id)
        if item is None and index is None and not id:
            item = self._last.get(type)
        return item or self.add(type, index, id)

    def latest(self, event: JSON) -> UpstreamItem | None:
        """Return the item of an event that does not show the type of its item."""
        index, id = _position(event, {})
        by_id = self._by_id.get(id)
        if by_id is not None and index in (None, by_id.index):
            return by_id
        return None if index is None else self._at.get(index)

    def match(self, index: int, type: str, id: str, call_id: str) -> UpstreamItem | None:
        """Return the item that the terminal response has at `index`. Each item is matched once.

        Match by id, then by position, then the next item of the type: the response may lack items that were
        streamed, which shifts its positions.
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
        unmatched = self._unmatched.get(type, [])
        while unmatched:
            item = unmatched.pop()
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
        """Return whether this is another call at the same index. With the same item id it never is."""
        call_id, id = text_of(raw.get("call_id")), text_of(raw.get("id"))
        same = id in item.ids or not call_id or item.call_id in ("", call_id)
        return item.type in CALLS and not same

    def _new(self, type: str, index: int | None, id: str, raw: JSON) -> UpstreamItem:
        item = self.add(type, index, id)
        self._add_ids(item, id, raw)
        return item

    def _add_ids(self, item: UpstreamItem, id: str, raw: JSON) -> None:
        if id:
            item.ids.add(id)
            self._by_id[id] = item
        if call_id := text_of(raw.get("call_id")):
            self._by_call_id.setdefault(call_id, item)


def _position(event: JSON, raw: JSON) -> tuple[int | None, str]:
    index = event.get("output_index")
    id = text_of(raw.get("id")) or text_of(event.get("item_id"))
    return index if index.__class__ is int else None, id
