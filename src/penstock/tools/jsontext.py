"""Incremental JSON readers: find the end of a top-level object, and decode a string as it arrives.

Both readers look at each character once, whatever the size of the fragments, so the cost of a delta depends
on the delta alone.
"""

from __future__ import annotations

import re

_INSIDE = re.compile(r'["\\]')
_TO_QUOTE = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
"""The rest of a string, up to its closing quote, or to the end of the text or a final backslash."""
_TO_BRACKET = re.compile(r'[^"{}\[\]]*+(?:"(?:[^"\\]++|\\.)*+"[^"{}\[\]]*+)*+', re.DOTALL)
"""Everything up to a bracket, complete strings included; or up to a string that the text does not close."""
SPACE = " \t\n\r"
"""JSON whitespace; Python's `strip()` would remove more."""


MAX_BRACKETS = 100_000
"""Counting brackets one by one is slow. In arguments with more of them, the end is not searched for."""


class ObjectScanner:
    """Finds the end of one top-level JSON object. Text that does not begin with `{` has no end, and neither
    has an object with more than `MAX_BRACKETS` brackets."""

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
        """Return the offset in `text` just after the end of the object, or -1 if it has not ended."""
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
        while position < len(text) and self._brackets <= MAX_BRACKETS:
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
    """Decodes the inside of a JSON string escape by escape; `ended` is true after its closing quote.

    An incomplete escape waits for the next fragment. Invalid JSON (an unknown escape, an unpaired surrogate)
    is left unchanged or replaced, and sets `flawed`.
    """

    __slots__ = ("_pending", "_surrogate", "ended", "flawed", "rest")

    def __init__(self) -> None:
        self._pending = ""
        self._surrogate = 0
        self.ended = False
        self.flawed = False
        self.rest = ""
        """Text after the closing quote, in the same fragment."""

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
        if self._surrogate and (run or end):  # the second surrogate is missing
            out.append(_REPLACEMENT)
            self._surrogate = 0
            self.flawed = True
        out.append(run)

    def _escape(self, text: str, position: int, out: list[str]) -> int:
        """Decode the escape whose letter is at `position`; return its length, or 0 if it is incomplete."""
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
