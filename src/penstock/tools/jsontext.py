"""Incremental JSON readers: find the end of a top-level object, decode a string as it arrives, and report the
strings of a document with their places.

Each reader looks at each character once, whatever the size of the fragments, so the cost of a delta depends
on the delta alone.
"""

from __future__ import annotations

import re

from msgspec import Struct

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
        if self._in_string and not self._escaped and '"' not in text and "\\" not in text:
            return -1  # the inside of a string: most fragments of long arguments are
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
        if not self._surrogate and '"' not in text and "\\" not in text:
            return text
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


_STRUCTURE = re.compile(r'["{}\[\],:]')
_WINDOW = 4096
"""Number of characters read at a time. The text after a string is copied, so a long text full of short
strings would be copied once for each string."""
_MAX_DEPTH = 3
"""Strings that are nested more deeply are not reported."""


class StringPiece(Struct, frozen=True):
    """Decoded text of the string at `path`; `ended` if the string is complete."""

    path: tuple[str | int, ...]
    text: str
    ended: bool


class StringValues:
    """Reports the string values of a JSON document as they arrive, each with its keys and indexes.

    It assumes valid JSON: the result for other text is not defined, but costs no more.
    """

    __slots__ = ("_expects_key", "_in_object", "_key", "_path", "_string")

    def __init__(self) -> None:
        self._in_object: list[bool] = []
        """The open containers: True for an object, False for a list."""
        self._path: list[str | int] = []
        """The current key or index in each of them."""
        self._expects_key = False
        self._string: StringDecoder | None = None
        self._key: list[str] | None = None
        """The pieces of the key that is being read; None if the string is a value."""

    def feed(self, text: str) -> list[StringPiece]:
        pieces: list[StringPiece] = []
        for start in range(0, len(text), _WINDOW):
            self._feed(text[start : start + _WINDOW], pieces)
        return pieces

    def _feed(self, text: str, pieces: list[StringPiece]) -> None:
        position = 0
        while True:
            if self._string is not None:
                text, position = self._read_string(self._string, text[position:], pieces), 0
                if self._string is not None:
                    return
            found = _STRUCTURE.search(text, position)
            if found is None:
                return
            position = found.end()
            self._enter(found.group())

    def _enter(self, character: str) -> None:
        if character == '"':
            self._string = StringDecoder()
            self._key = [] if self._expects_key else None
        elif character in "{[":
            self._in_object.append(character == "{")
            self._path.append(-1 if character == "{" else 0)
            self._expects_key = character == "{"
        elif not self._in_object:
            return
        elif character in "}]":
            self._in_object.pop()
            self._path.pop()
            self._expects_key = False
        elif character == ":":
            self._expects_key = False
        elif self._in_object[-1]:
            self._expects_key = True
        else:
            index = self._path[-1]
            self._path[-1] = index + 1 if isinstance(index, int) else 0

    def _read_string(self, string: StringDecoder, text: str, pieces: list[StringPiece]) -> str:
        """Read the rest of a key or a value; return the text after it."""
        decoded = string.feed(text)
        if self._key is not None:
            self._key.append(decoded)
        elif len(self._path) <= _MAX_DEPTH and (decoded or string.ended):
            pieces.append(StringPiece(tuple(self._path), decoded, string.ended))
        if not string.ended:
            return ""
        if self._key is not None:
            self._path[-1] = "".join(self._key)
        self._string = self._key = None
        return string.rest
