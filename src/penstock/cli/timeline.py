"""Draw a stream as text: time runs to the right, and every item has a lane.

Each column is one event if they fit. A longer stream is compressed, and each column shows its most important
event.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec

_RESPONSE_EVENTS = {
    "response.created": "created",
    "response.queued": "queued",
    "response.in_progress": "in progress",
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "error": "error",
}

# Each mark in Unicode and in ASCII. If a column has several, the first in this table is shown.
_MARKS = {
    "failed": "✗F",
    "error": "!E",
    "incomplete": "◐I",
    "cancelled": "◌X",
    "completed": "✓K",
    "unreadable": "??",
    "[DONE]": "■D",
    "created": "○C",
    "queued": "◷Q",
    "in progress": "▷P",
    "heartbeat": "♥H",
    "other event": "∙.",
    "opened and closed": "╪#",
    "opened": "├[",
    "closed": "┤]",
    "delta": "━=",
    "part or text boundary": "┼+",
    "open": "─-",
    "never closed": "╌~",
}
_ORDER = {mark: rank for rank, mark in enumerate(_MARKS)}


class _Lane:
    def __init__(self, label: str) -> None:
        self.label = label
        self.marks: list[tuple[int, str]] = []

    def add(self, position: int, mark: str) -> None:
        self.marks.append((position, mark))


class Timeline:
    """Collect events and violations; `draw` returns the picture."""

    def __init__(self) -> None:
        self._response = _Lane("response")
        self._lanes: list[_Lane] = []
        self._by_id: dict[str, _Lane] = {}
        self._by_index: dict[int, _Lane] = {}
        self._violations: list[int] = []
        self._length = 0
        self._in_progress = False

    def add(self, position: int, data: str) -> None:
        """Add the frame with this data at this position in the stream."""
        self._length = max(self._length, position + 1)
        if data.strip() == "[DONE]":
            self._response.add(position, "[DONE]")
            return
        try:
            event = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            event = None
        type = event.get("type") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(type, str):
            self._response.add(position, "unreadable")
        elif type in _RESPONSE_EVENTS:
            self._response.add(position, self._response_mark(type))
        else:
            self._add_to_item(position, type, event)

    def mark(self, position: int) -> None:
        """Mark a violation at this position."""
        self._violations.append(position)
        self._length = max(self._length, position + 1)

    def _response_mark(self, type: str) -> str:
        mark = _RESPONSE_EVENTS[type]
        if mark == "in progress" and self._in_progress:
            return "heartbeat"
        self._in_progress = self._in_progress or mark == "in progress"
        return mark

    def _add_to_item(self, position: int, type: str, event: dict[str, Any]) -> None:
        item: Any = event.get("item")
        item = item if isinstance(item, dict) else {}
        id = item.get("id") or event.get("item_id")
        index = event.get("output_index")
        index = None if isinstance(index, bool) else index
        if not isinstance(id, str) and not isinstance(index, int):
            self._response.add(position, "other event")
            return
        opens = type == "response.output_item.added"
        lane = self._lane(id, index, item, opens)
        if opens:
            lane.add(position, "opened")
        elif type == "response.output_item.done":
            lane.add(position, "closed")
        else:
            lane.add(position, "delta" if type.endswith(".delta") else "part or text boundary")

    def _lane(self, id: object, index: object, item: dict[str, Any], opens: bool) -> _Lane:
        """Return the lane of an event: by item id, else by output index, else a new one.

        An `added` event with a new id gets its own lane, even if its index is in use: two items with one
        index must look like two.
        """
        lane = self._by_id.get(id) if isinstance(id, str) else None
        if lane is None and isinstance(index, int) and not (opens and isinstance(id, str)):
            lane = self._by_index.get(index)
        if lane is None:
            lane = _Lane(_label(id, index, item))
            self._lanes.append(lane)
        if isinstance(id, str):
            self._by_id.setdefault(id, lane)
        if isinstance(index, int) and (opens or index not in self._by_index):
            self._by_index[index] = lane
        return lane

    def draw(self, width: int, unicode: bool) -> list[str]:
        """Return the lines of the picture, at most `width` characters each (readable from about 40)."""
        if not self._length:
            return []
        lanes = [self._response, *self._lanes]
        labels = max(_width_of(lane.label) for lane in lanes)
        labels = min(max(labels, len("violations")), max(width * 3 // 8, 10))
        columns = max(1, min(self._length, width - labels - 2))
        canvas = _Canvas(self._length, columns, unicode)
        lines = [_fit("event", labels, unicode) + "  " + canvas.ruler()]
        lines += [_fit(lane.label, labels, unicode) + "  " + canvas.lane(lane.marks) for lane in lanes]
        if self._violations:
            lines.append(_fit("violations", labels, unicode) + "  " + canvas.violations(self._violations))
        return [line.rstrip() for line in lines] + canvas.legend(width)


class _Canvas:
    """Map positions in the stream to columns, and marks to characters."""

    def __init__(self, length: int, columns: int, unicode: bool) -> None:
        self._length = length
        self._columns = columns
        self._set = 0 if unicode else 1
        self._used: set[str] = set()

    def lane(self, marks: list[tuple[int, str]]) -> str:
        if not marks:
            return ""
        cells: dict[int, str] = {}
        for position, mark in marks:
            column = self._column(position)
            current = cells.get(column, mark)
            if {current, mark} == {"opened", "closed"}:
                mark = "opened and closed"
            cells[column] = min(current, mark, key=_ORDER.__getitem__)
        first, last = min(cells), max(cells)
        filled = [cells.get(column, "open") for column in range(first, last + 1)]
        names = {mark for _, mark in marks}
        if "opened" in names and "closed" not in names:
            filled += ["never closed"] * (self._columns - 1 - last)
        self._used.update(filled)
        return " " * first + "".join(_MARKS[mark][self._set] for mark in filled)

    def violations(self, positions: list[int]) -> str:
        cells = [0] * self._columns
        for position in positions:
            cells[self._column(position)] += 1
        one = "▲^"[self._set]
        return "".join(" " if not n else one if n == 1 else str(n) if n < 10 else "+" for n in cells)

    def ruler(self) -> str:
        """Return the number of the first event in every tenth column, where it fits."""
        text = ""
        for column in range(0, self._columns, 10):
            number = str(-(-column * self._length // self._columns))
            if column + len(number) <= self._columns:
                text = text.ljust(column) + number
        return text

    def legend(self, width: int) -> list[str]:
        entries = [f"{_MARKS[mark][self._set]} {mark}" for mark in _MARKS if mark in self._used]
        if self._length > self._columns:
            entries.append(f"(a column is up to {-(-self._length // self._columns)} events)")
        lines = [""]
        for entry in entries:
            if len(lines[-1]) + len(entry) + 2 > width:
                lines.append("")
            lines[-1] += ("  " if lines[-1] else "") + entry
        return lines

    def _column(self, position: int) -> int:
        return position * self._columns // self._length


def _label(id: object, index: object, item: dict[str, Any]) -> str:
    name = item.get("name")
    suffix = name if isinstance(name, str) and name else id[:12] if isinstance(id, str) else None
    words = [index, item.get("type") or "item", suffix]
    label = " ".join(str(word)[:64] for word in words if isinstance(word, (str, int)))
    return "".join(each if each.isprintable() else "?" for each in label)


def _fit(text: str, width: int, unicode: bool) -> str:
    """Pad or cut `text` to exactly `width` columns; a wide character takes two."""
    if _width_of(text) > width:
        while _width_of(text) > width - 1:
            text = text[:-1]
        text += "…" if unicode else "~"
    return text + " " * (width - _width_of(text))


def _width_of(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
