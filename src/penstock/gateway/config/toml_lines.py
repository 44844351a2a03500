"""TOML with lines: where in a document its keys and values stand. `tomllib` tells the values only.

Lines are told of documents that `tomllib` has read. So nothing is checked for a second time, and every rule
of TOML that moves no key to another place or line is left out.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from contextlib import suppress

from penstock.errors import ConfigError

Path = tuple[str | int, ...]
"""The way to a value from the top: keys, and indices from 0 in arrays."""

_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_REST_OF_LINE = re.compile(r"[^\n]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # the text itself may end in one or two quotes
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_OTHER = re.compile(r"[^,\]}#\n]*")
"""A number, a date (it may have a space in it), true or false."""


def parse(text: str, file: str) -> dict[str, object]:
    """The document; `ConfigError` with the line for a text that is no TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(file, 0, "has lists in lists in lists, too deep to be read") from None
    except ValueError as error:
        message = str(error)
        place = _PLACE.search(message)
        line = text.count("\n") + 1
        if place is None:
            line = 0
        elif place[1]:
            line = int(place[1])
        message = _PLACE.sub("", message)
        raise ConfigError(file, line, f"this is no TOML: {message[:1].lower()}{message[1:]}") from None


class TomlLines:
    """The first and the last line of every key, table and element. Lines count from 1.

    A table's lines are those under its own header; the tables below it have their own.
    """

    def __init__(self, text: str) -> None:
        self.spans: dict[Path, tuple[int, int]] = {}
        _Scan(text, self.spans).document()

    def line(self, path: Path) -> int:
        """The line of a key; for one that is not there, that of the table it is missing from."""
        while path and path not in self.spans:
            path = path[:-1]
        return self.spans[path][0] if path else 1


class _Scan:
    """One pass over the text; `_at` is the place that it has come to."""

    def __init__(self, text: str, spans: dict[Path, tuple[int, int]]) -> None:
        self._text = text
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._at = 0
        self._spans = spans
        self._lengths: dict[Path, int] = {}
        """How many tables each array of tables has so far."""

    def document(self) -> None:
        table: Path = ()
        while True:
            self._take(_BLANK)
            if not self._next():
                return
            if self._next() == "[":
                table = self._header()
            else:
                self._pair(table)
                if table:
                    self._spans[table] = (self._spans[table][0], self._line())
            self._take(_REST_OF_LINE)

    def _header(self) -> Path:
        line = self._line()
        self._at += 1
        is_array = self._next() == "["
        self._at += is_array
        *outer, name = self._dotted_key()
        path: Path = ()
        for key in outer:
            path = self._newest((*path, key))
            self._note(path, line)
        path = (*path, name)
        if is_array:
            self._lengths[path] = self._lengths.get(path, 0) + 1
            self._note(path, line)
            path = self._newest(path)
        self._spans[path] = (line, line)  # also when a table below it had its header before
        return path

    def _newest(self, path: Path) -> Path:
        """Where a path leads through an array of tables it means the last of them."""
        length = self._lengths.get(path)
        return path if length is None else (*path, length - 1)

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        keys = self._dotted_key()
        for key in keys:
            path = (*path, key)
            self._note(path, line)
        self._at += 1  # the equals sign
        self._take(_SPACE)
        self._value(path)
        for end in range(len(path), len(path) - len(keys), -1):
            first, last = self._spans[path[:end]]
            self._spans[path[:end]] = (first, max(last, self._line()))

    def _dotted_key(self) -> list[str]:
        keys = [self._key()]
        while self._next() == ".":
            self._at += 1
            keys.append(self._key())
        return keys

    def _key(self) -> str:
        self._take(_SPACE)
        key = self._take(_KEY)
        self._take(_SPACE)
        if key[:1] not in ('"', "'"):
            return key
        with suppress(tomllib.TOMLDecodeError):  # never in a document that was read
            key = tomllib.loads(f"key = {key}")["key"]
        return key

    def _value(self, path: Path) -> None:
        match self._next():
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._take(_TEXT)
            case _:
                self._take(_OTHER)

    def _array(self, path: Path) -> None:
        index = 0
        while self._goes_on("]"):
            element = (*path, index)
            first = self._line()
            self._value(element)
            self._spans[element] = (first, self._line())
            index += 1

    def _inline_table(self, path: Path) -> None:
        while self._goes_on("}"):
            self._pair(path)

    def _goes_on(self, end: str) -> bool:
        """Step over a bracket that opens, or a comma. Is there another element, or only the end?"""
        self._take(_BLANK)
        if self._next() in ("[", "{", ","):
            self._at += 1
            self._take(_BLANK)
            if self._next() != end:
                return bool(self._next())
        self._at += 1
        return False

    def _note(self, path: Path, line: int) -> None:
        self._spans.setdefault(path, (line, line))

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _line(self) -> int:
        return bisect_left(self._line_ends, self._at) + 1
