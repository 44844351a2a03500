"""A stream as the page draws it: one lane per output item, and its events in columns.

The stream may be of any server, so every field may be missing, or of the wrong type. Texts and arguments are
not decoded: only what has to be drawn.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

MOST_ROWS = 50_000
MOST_LANES = 2_000
"""A stream with more items has events without a lane."""
LONGEST_NAME = 200
UNREADABLE = "(unreadable)"

_ADDED, _DONE = "response.output_item.added", "response.output_item.done"
_PROGRESS = "response.in_progress"
_NOTHING = Raw(b"null")


class LaneItem(Struct):
    type: Any = ""
    id: Any = ""
    name: Any = ""
    status: Any = ""


class DrawnEvent(Struct):
    type: Any = ""
    output_index: Any = None
    item_id: Any = ""
    item: Raw = _NOTHING


class Lane(Struct):
    output_index: int
    item_id: str
    type: str
    name: str
    status: str
    added_ms: float
    added_sequence: int
    done_ms: float | None = None
    done_sequence: int | None = None


class EventColumns(Struct):
    types: list[str] = []
    sequence: list[int] = []
    at_ms: list[float] = []
    type: list[int] = []
    lane: list[int] = []
    size: list[int] = []
    next: int | None = None
    """The number after which the next page begins; None: these are all."""


_events = msgspec.json.Decoder(DrawnEvent)
_items = msgspec.json.Decoder(LaneItem)


class StreamColumns:
    """Collects a stream, event by event. Rows are kept of the events after the number `after`."""

    def __init__(self, *, after: int = -1, most: int = MOST_ROWS) -> None:
        self.lanes: list[Lane] = []
        self.events = EventColumns()
        self.heartbeats: list[float] = []
        """When `response.in_progress` was repeated (decision 10). There are at most as many as rows."""
        self._after, self._most = after, most
        self._types: dict[str, int] = {}
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self.has_begun = False
        """Whether there was a `response.in_progress`."""

    def add(self, sequence: int, at_ms: float, data: bytes | str) -> None:
        at_ms = round(at_ms, 3)
        event = _decoded(data)
        type = event.type if isinstance(event.type, str) else UNREADABLE
        if type == _PROGRESS:
            if self.has_begun and len(self.heartbeats) < self._most:
                self.heartbeats.append(at_ms)
            self.has_begun = True
        lane = self._lane(event, type, sequence, at_ms)
        if sequence > self._after:
            self._append(sequence, at_ms, type[:LONGEST_NAME], lane, len(data))

    def _append(self, sequence: int, at_ms: float, type: str, lane: int, size: int) -> None:
        rows = self.events
        if len(rows.sequence) >= self._most:
            rows.next = rows.sequence[-1]
            return
        if type not in self._types:
            self._types[type] = len(rows.types)
            rows.types.append(type)
        rows.sequence.append(sequence)
        rows.at_ms.append(at_ms)
        rows.type.append(self._types[type])
        rows.lane.append(lane)
        rows.size.append(size)

    def _lane(self, event: DrawnEvent, type: str, sequence: int, at_ms: float) -> int:
        """Return the index of the event's lane; -1 if it has none. The first and the last event of an item
        change its lane."""
        index = event.output_index if isinstance(event.output_index, int) else -1
        if type in (_ADDED, _DONE):
            item = _read_item(event.item)
            if type == _ADDED:
                return self._open(index, item, sequence, at_ms)
            return self._close(self._find(index, _text(item.id)), item, sequence, at_ms)
        return self._find(index, _text(event.item_id))

    def _find(self, index: int, id: str) -> int:
        found = self._by_index.get(index, -1)
        return found if found >= 0 or not id else self._by_id.get(id, -1)

    def _open(self, index: int, item: LaneItem, sequence: int, at_ms: float) -> int:
        if len(self.lanes) >= MOST_LANES:
            return -1
        lane, id = len(self.lanes), _text(item.id)
        self.lanes.append(
            Lane(index, id, _text(item.type), _text(item.name), _text(item.status), at_ms, sequence)
        )
        if index >= 0:
            self._by_index[index] = lane
        if id:
            self._by_id[id] = lane
        return lane

    def _close(self, lane: int, item: LaneItem, sequence: int, at_ms: float) -> int:
        if lane >= 0:
            closed = self.lanes[lane]
            closed.done_ms, closed.done_sequence = at_ms, sequence
            closed.status = _text(item.status) or closed.status
            closed.name = _text(item.name) or closed.name
        return lane


def _decoded(data: bytes | str) -> DrawnEvent:
    try:
        return _events.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return DrawnEvent(type=UNREADABLE)


def _read_item(data: Raw) -> LaneItem:
    try:
        return _items.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return LaneItem()


def _text(value: Any) -> str:
    return value[:LONGEST_NAME] if isinstance(value, str) else ""
