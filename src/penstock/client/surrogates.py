"""Characters that a server has cut in two.

A server that counts text in units of UTF-16, as JavaScript and Java do, may send the surrogates of one
character in two deltas: `"\\ud83d"` and `"\\ude00"`. Neither is text by itself.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import DecodeError
from penstock.lenient import join_surrogates_in

_PART = ("type", "item_id", "output_index", "content_index", "summary_index", "command_index")
"""What says which text a delta belongs to."""
_MOST_HELD = 64
"""More texts than a server writes at a time: surrogates that are never followed must not pile up."""


class SurrogateJoiner:
    """Joins what was cut. The first surrogate is held until the next delta of the same text, and replaced if
    that does not begin with the second. A text that ends with the first is whole in its `done` event.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, ...], str] = {}

    def __len__(self) -> int:
        """How many texts wait for a second surrogate: while there are any, every event must pass `join`."""
        return len(self._held)

    def join(self, raw: Any) -> Any:
        """The event with nothing but whole characters in it."""
        if isinstance(raw, dict) and isinstance(delta := raw.get("delta"), str):
            raw = {**raw, "delta": self._joined(tuple(str(raw.get(name)) for name in _PART), delta)}
        try:
            return join_surrogates_in(raw)
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
