"""What comes after a call's whole arguments: a repeat of them, or the arguments of another call.

Some upstreams send a summary of the call at its end, as JSON or as JSON in a string; some send the arguments
of parallel calls one after the other under one index (ask B4, ask B5). Which it is shows when the text
is whole, so it is held until then.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import msgspec

from penstock.lenient import is_json, parse_json
from penstock.tools.jsontext import SPACE, ObjectScanner, StringDecoder

_BEGIN = re.compile(r'[{"]')
_WINDOW = 4096
"""Characters that are searched at a time. What follows a value is copied, so one long text full of short
values would be copied once for each of them."""
MOST_VALUES = 256
"""More calls than this are not glued together by any upstream. What follows them is left out."""


class TrailingKind(Enum):
    REPEAT = auto()
    OTHER = auto()
    """The arguments of another call; its text comes with it."""
    RUBBISH = auto()


class TrailingArguments:
    """One for each call, shared with the calls that are split off from it."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._texts: list[str] = []
        self._uncompared: list[str] = []
        """Of these, those that are not in `_known` yet: it is rarely asked, and long arguments take long."""
        self._held: list[str] = []
        self._scanner = ObjectScanner()
        self._string: StringDecoder | None = None
        self._inner: list[str] = []
        self._values = 0

    def remember(self, whole: str) -> None:
        """These are arguments of a call that went out."""
        self._texts.append(whole)
        self._uncompared.append(whole)

    def knows(self, whole: str) -> bool:
        self._known.update(map(canonical, self._uncompared))
        self._uncompared.clear()
        return canonical(whole) in self._known

    def feed(self, text: str) -> list[tuple[TrailingKind, str]]:
        """What the text turns out to be, piece by piece, as far as it is whole."""
        found: list[tuple[TrailingKind, str]] = []
        for start in range(0, len(text), _WINDOW):
            if self._feed(text[start : start + _WINDOW], found):
                found.append((TrailingKind.RUBBISH, ""))
                break
        self._values += len(found)
        return found

    def _feed(self, text: str, found: list[tuple[TrailingKind, str]]) -> str:
        """Returns what is left of the text once there were too many values."""
        while text and self._values + len(found) < MOST_VALUES:
            if self._string is not None:
                text = self._feed_string(self._string, text, found)
                continue
            if not self._held:
                text = self._next_value(text, found)
                if self._string is not None:
                    continue
            end = self._scanner.feed(text)
            if end < 0:
                self._held += [text] if text else []
                return ""
            whole = "".join([*self._held, text[:end]])
            text = text[end:]
            self.clear()
            found.append((self._judge(whole), whole))
        return text

    def _judge(self, whole: str) -> TrailingKind:
        """What a text with balanced braces is."""
        if not is_json(whole):
            return TrailingKind.RUBBISH
        if self.knows(whole):
            return TrailingKind.REPEAT
        self.remember(whole)
        return TrailingKind.OTHER

    def _next_value(self, text: str, found: list[tuple[TrailingKind, str]]) -> str:
        """`text` from where an object or a string begins. What is before that can be no arguments."""
        begin = _BEGIN.search(text)
        before = text if begin is None else text[: begin.start()]
        if before.strip(SPACE + ","):
            found.append((TrailingKind.RUBBISH, before))
        if begin is None:
            return ""
        if begin.group() == '"':
            self._string, self._inner = StringDecoder(), []
            return text[begin.end() :]
        return text[begin.start() :]

    def _feed_string(self, string: StringDecoder, text: str, found: list[tuple[TrailingKind, str]]) -> str:
        """The arguments may come once more as a JSON string around JSON (ask B4)."""
        self._inner.append(string.feed(text))
        if not string.ended:
            return ""
        inner = "".join(self._inner)
        self._string = None
        found.append((TrailingKind.REPEAT if self.knows(inner) else TrailingKind.RUBBISH, inner))
        return string.rest

    @property
    def is_holding(self) -> bool:
        return bool(self._held) or self._string is not None

    @property
    def cut_short(self) -> str:
        """Held text that begins another call; "" if there is none, or if it may be a repeat that was cut."""
        held = "".join(self._held)
        return "" if any(text.startswith(held) for text in self._texts) else held

    def clear(self) -> None:
        self._held.clear()
        self._scanner = ObjectScanner()
        self._string = None


def canonical(text: str) -> bytes:
    """The same for texts that are equal as JSON, and for no others: `1` is not `true`."""
    try:
        return msgspec.json.encode(parse_json(text), order="deterministic")
    except (ValueError, RecursionError):
        return text.encode("utf-8", "replace")
