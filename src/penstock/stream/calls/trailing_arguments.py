"""Text after a call's complete arguments: a repeat of them, or the arguments of another call.

Some upstreams repeat the arguments at the end of a call, as JSON or as JSON in a string; some send the
arguments of parallel calls one after the other under one index (ask B4, ask B5). Only complete text shows
which it is, so it is buffered until then.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import msgspec

from penstock.lenient import is_json, parse_json
from penstock.tools.jsontext import SPACE, ObjectScanner, StringDecoder

_BEGIN = re.compile(r'[{"]')
_WINDOW = 4096
"""Number of characters searched at a time. The text after a value is copied, so a long text full of short
values would be copied once for each value."""
MAX_VALUES = 256
"""No upstream joins more calls than this. Text after them is dropped."""


class TrailingKind(Enum):
    REPEAT = auto()
    OTHER = auto()
    """The arguments of another call."""
    RUBBISH = auto()
    """Text that cannot be arguments."""


class TrailingArguments:
    """The trailing text of one call, shared with the calls that are split off from it."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._texts: list[str] = []
        self._uncompared: list[str] = []
        """Texts that are not in `_known` yet: it is rarely needed, and parsing long arguments is slow."""
        self._buffer: list[str] = []
        self._scanner = ObjectScanner()
        self._string: StringDecoder | None = None
        self._inner: list[str] = []
        self._values = 0

    def remember(self, arguments: str) -> None:
        """Store the arguments of a call that was sent."""
        self._texts.append(arguments)
        self._uncompared.append(arguments)

    def knows(self, arguments: str) -> bool:
        self._known.update(map(canonical, self._uncompared))
        self._uncompared.clear()
        return canonical(arguments) in self._known

    def feed(self, text: str) -> list[tuple[TrailingKind, str]]:
        """Add text; return the kind and the text of every value that it completes."""
        found: list[tuple[TrailingKind, str]] = []
        for start in range(0, len(text), _WINDOW):
            if self._feed(text[start : start + _WINDOW], found):
                found.append((TrailingKind.RUBBISH, ""))
                break
        self._values += len(found)
        return found

    def _feed(self, text: str, found: list[tuple[TrailingKind, str]]) -> str:
        """Add up to `_WINDOW` characters; return the rest of the text if there were too many values."""
        while text and self._values + len(found) < MAX_VALUES:
            if self._string is not None:
                text = self._feed_string(self._string, text, found)
                continue
            if not self._buffer:
                text = self._next_value(text, found)
                if self._string is not None:
                    continue
            end = self._scanner.feed(text)
            if end < 0:
                self._buffer += [text] if text else []
                return ""
            arguments = "".join([*self._buffer, text[:end]])
            text = text[end:]
            self.clear()
            found.append((self._classify(arguments), arguments))
        return text

    def _classify(self, arguments: str) -> TrailingKind:
        """Classify a text with balanced braces."""
        if not is_json(arguments):
            return TrailingKind.RUBBISH
        if self.knows(arguments):
            return TrailingKind.REPEAT
        self.remember(arguments)
        return TrailingKind.OTHER

    def _next_value(self, text: str, found: list[tuple[TrailingKind, str]]) -> str:
        """Return `text` from the start of an object or a string. Text before that cannot be arguments."""
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
        """Read a string: the arguments may be repeated as JSON inside a JSON string (ask B4)."""
        self._inner.append(string.feed(text))
        if not string.ended:
            return ""
        inner = "".join(self._inner)
        self._string = None
        found.append((TrailingKind.REPEAT if self.knows(inner) else TrailingKind.RUBBISH, inner))
        return string.rest

    @property
    def is_pending(self) -> bool:
        return bool(self._buffer) or self._string is not None

    @property
    def cut_short(self) -> str:
        """Buffered text that begins another call; "" if there is none, or if it may be a partial repeat."""
        buffered = "".join(self._buffer)
        return "" if any(text.startswith(buffered) for text in self._texts) else buffered

    def clear(self) -> None:
        self._buffer.clear()
        self._scanner = ObjectScanner()
        self._string = None


def canonical(text: str) -> bytes:
    """Return a form that is equal for texts that are equal as JSON, and only for those: `1` is not `true`."""
    try:
        return msgspec.json.encode(parse_json(text), order="deterministic")
    except (ValueError, RecursionError):
        return text.encode("utf-8", "replace")
