"""Characters that a server has cut in two. Who counts text in units of UTF-16, as JavaScript and Java do, may
send the halves of one character in two deltas: `"\\ud83d"` and `"\\ude00"`. Neither is text by itself."""

from __future__ import annotations

import json
import re
from typing import Any

from penstock.errors import DecodeError
from penstock.tools.jsontext import sound_value

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_PART = ("type", "item_id", "output_index", "content_index", "summary_index", "command_index")
"""What says which text a delta belongs to."""
_MOST_HELD = 64
"""More texts than a server writes at a time: halves that are never followed must not pile up."""


def holds_halves(data: str) -> bool:
    """May it be for halves that `parse` refuses this JSON?"""
    return _HALF.search(data) is not None


def read_halves(data: str) -> Any:
    """One JSON document, in which a half may stand alone. It is no text before `Halves.join`."""
    try:
        return json.loads(data, parse_constant=_refuse)
    except ValueError as error:
        raise DecodeError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise DecodeError("nested too deeply") from None


class Halves:
    """Joins what was cut. The first half is kept back until the next delta of the same text; it is replaced
    when that does not begin with the other. A text that ends with a half is told whole by its `done` event.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, ...], str] = {}

    def __len__(self) -> int:
        """How many texts wait for the other half: while there are any, every event must pass `join`."""
        return len(self._held)

    def join(self, raw: Any) -> Any:
        """The event with nothing but whole characters in it."""
        if isinstance(raw, dict) and isinstance(delta := raw.get("delta"), str):
            raw = {**raw, "delta": self._joined(tuple(str(raw.get(name)) for name in _PART), delta)}
        try:
            return sound_value(raw)
        except RecursionError:
            raise DecodeError("nested too deeply") from None

    def _joined(self, part: tuple[str, ...], delta: str) -> str:
        if not delta:
            return delta
        delta = self._held.pop(part, "") + delta
        if not "\ud800" <= delta[-1] <= "\udbff":
            return delta
        if len(self._held) >= _MOST_HELD:
            del self._held[next(iter(self._held))]
        self._held[part] = delta[-1]
        return delta[:-1]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is none")
