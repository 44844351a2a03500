"""JSON text while it arrives: where a top-level object ends, and what a string in it says so far.

Both incremental readers look at each character once, whatever the size of the fragments: the cost of a delta
depends on the delta alone.
"""

from __future__ import annotations

import re

_INSIDE = re.compile(r'["\\]')
_TO_QUOTE = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
"""The rest of a string, up to its closing quote; or to the end of the text, or a backslash that ends it."""
_TO_BRACKET = re.compile(r'[^"{}\[\]]*+(?:"(?:[^"\\]++|\\.)*+"[^"{}\[\]]*+)*+', re.DOTALL)
"""Everything up to a bracket, whole strings included; or up to a string that the text does not close."""
SPACE = " \t\n\r"
"""What JSON takes for a blank: not all that Python does."""


MOST_BRACKETS = 100_000
"""Brackets are counted one by one, which is slow. Arguments with more of them are read, but not searched."""


class ObjectScanner:
    """Finds the end of one top-level JSON object. Text that does not begin with `{` has no end, and neither
    has an object with more than `MOST_BRACKETS` brackets."""

    __slots__ = ("_brackets", "_depth", "_escaped", "_in_string", "_started", "ended", "is_object")

    def __init__(self) -> None:
        self._started = False
        self._depth = 0
        self._brackets = 0
        self._in_string = False
        self._escaped = False
        self.is_object = False
        self.ended = False

    def feed(self, text: str) -> int:
        """The offset in `text` just behind the end of the object, or -1 while it goes on."""
        position = 0
        if not self._started:
            position = len(text) - len(text.lstrip(SPACE))
            if position == len(text):
                return -1
            self._started = True
            self.is_object = text[position] == "{"
        if not self.is_object or self.ended:
            return -1
        return self._scan(text, position)

    def _scan(self, text: str, position: int) -> int:
        if self._escaped and position < len(text):
            position += 1
            self._escaped = False
        while position < len(text) and self._brackets <= MOST_BRACKETS:
            skipped = (_TO_QUOTE if self._in_string else _TO_BRACKET).match(text, position)
            position = skipped.end() + 1  # type: ignore[union-attr]  # both match everywhere
            found = text[position - 1 : position]
            if found == '"':
                self._in_string = not self._in_string
            elif found == "\\":
                self._escaped = True
            elif found:
                self._brackets += 1
                self._depth += 1 if found in "{[" else -1
                if self._depth == 0:
                    self.ended = True
                    return position
        return -1


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_HEX = re.compile(r"[0-9a-fA-F]*")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class StringDecoder:
    """Decodes the inside of a JSON string escape by escape; `ended` when its closing quote has come.

    An escape that is cut waits for its rest. What JSON forbids (an unknown escape, half a surrogate pair)
    is kept as it stands, or replaced, and makes `flawed` true.
    """

    __slots__ = ("_pending", "_surrogate", "ended", "flawed", "rest")

    def __init__(self) -> None:
        self._pending = ""
        self._surrogate = 0
        self.ended = False
        self.flawed = False
        self.rest = ""
        """What came behind the closing quote, in the fragment that had it."""

    def feed(self, text: str) -> str:
        if self._pending:
            text, self._pending = self._pending + text, ""
        out: list[str] = []
        position = 0
        while match := _INSIDE.search(text, position):
            self._plain(text[position : match.start()], out)
            position = match.end()
            if match.group() == '"':
                self._plain("", out, end=True)
                self.ended = True
                self.rest = text[position:]
                return "".join(out)
            length = self._escape(text, position, out)
            if length == 0:
                self._pending = text[position - 1 :]
                return "".join(out)
            position += length
        self._plain(text[position:], out)
        return "".join(out)

    def _plain(self, run: str, out: list[str], *, end: bool = False) -> None:
        if self._surrogate and (run or end):  # the second half never came
            out.append(_REPLACEMENT)
            self._surrogate = 0
            self.flawed = True
        out.append(run)

    def _escape(self, text: str, position: int, out: list[str]) -> int:
        """Decode the escape whose letter is at `position`; the length consumed, 0 when it is cut."""
        letter = text[position : position + 1]
        if letter != "u":
            if letter:
                self._plain(_ESCAPES.get(letter, f"\\{letter}"), out)
                self.flawed = self.flawed or letter not in _ESCAPES
            return len(letter)
        digits = text[position + 1 : position + 5]
        if not _HEX.fullmatch(digits):
            self._plain("\\u", out)
            self.flawed = True
            return 1
        if len(digits) < 4:
            return 0
        self._code_unit(int(digits, 16), out)
        return 5

    def _code_unit(self, code: int, out: list[str]) -> None:
        if self._surrogate and 0xDC00 <= code < 0xE000:
            out.append(chr(0x10000 + ((self._surrogate - 0xD800) << 10) + (code - 0xDC00)))
            self._surrogate = 0
        elif 0xD800 <= code < 0xDC00:
            self._plain("", out, end=True)
            self._surrogate = code
        elif 0xDC00 <= code < 0xE000:
            self._plain(_REPLACEMENT, out)
            self.flawed = True
        else:
            self._plain(chr(code), out)
