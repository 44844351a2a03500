"""Joins surrogate pairs that a server has split.

A server that counts text in UTF-16 units, like JavaScript and Java, may send the two surrogates of a
character in separate deltas: `"\\ud83d"` and `"\\ude00"`. Neither is valid text by itself.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import DecodeError
from penstock.lenient import join_surrogates_in

_PART = ("type", "item_id", "output_index", "content_index", "summary_index", "command_index")
"""The fields that identify the text that a delta belongs to."""
_MOST_PENDING = 64
"""More texts than a server sends at a time: surrogates without a second half must not pile up."""


class SurrogateJoiner:
    """Holds back the first surrogate until the next delta of the same text, and replaces it if that does not
    begin with the second. If a text ends with a first surrogate, its `done` event has the complete text.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[str, ...], str] = {}

    def __len__(self) -> int:
        """The number of texts that wait for a second surrogate: then every event must pass `join`."""
        return len(self._pending)

    def join(self, raw: Any) -> Any:
        """Return the event with complete characters only."""
        if isinstance(raw, dict) and isinstance(delta := raw.get("delta"), str):
            raw = {**raw, "delta": self._joined(tuple(str(raw.get(name)) for name in _PART), delta)}
        try:
            return join_surrogates_in(raw)
        except RecursionError:
            raise DecodeError("nested too deeply") from None

    def _joined(self, part: tuple[str, ...], delta: str) -> str:
        if not delta:
            return delta
        delta = self._pending.pop(part, "") + delta
        if not "\ud800" <= delta[-1] <= "\udbff":
            return delta
        if len(self._pending) >= _MOST_PENDING:
            del self._pending[next(iter(self._pending))]
        self._pending[part] = delta[-1]
        return delta[:-1]
