"""Find the lines of keys and values in a TOML document; `tomllib` returns only the values.

The document has already been parsed by `tomllib`. So nothing is validated again, and every rule of TOML that
does not affect the position of a key is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from contextlib import suppress

from penstock.errors import ConfigError

Path = tuple[str | int, ...]
"""The path to a value from the top: keys, and indices from 0 in arrays."""

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
"""A number, a date (it may contain a space), true or false."""


def parse(text: str, file: str) -> dict[str, object]:
    """Return the document; raise `ConfigError` with the line if the text is not TOML."""
    import tomllib  # here, because most gateways start without a file

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(file, 0, "has lists that are nested too deeply") from None
    except ValueError as error:
        message = str(error)
        place = _PLACE.search(message)
        line = text.count("\n") + 1
        if place is None:
            line = 0
        elif place[1]:
            line = int(place[1])
        message = _PLACE.sub("", message)
        raise ConfigError(file, line, f"this is not valid TOML: {message[:1].lower()}{message[1:]}") from None


class TomlLines:
    """The first and the last line of every key, table and element, counted from 1.

    A table's lines are those under its own header; nested tables have their own.
    """

    def __init__(self, text: str) -> None:
        self.spans: dict[Path, tuple[int, int]] = {}
        _Scan(text, self.spans).document()

    def line(self, path: Path) -> int:
        """Return the line of a key; for a missing key, the line of its table."""
        while path and path not in self.spans:
            path = path[:-1]
        return self.spans[path][0] if path else 1


class _Scan:
    """One pass over the text; `_at` is the current position."""

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
        self._spans[path] = (line, line)  # even if the header of a nested table came first
        return path

    def _newest(self, path: Path) -> Path:
        """Return the path of the last table, if the path is an array of tables."""
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
        with suppress(ConfigError):  # never in a document that was parsed
            key = str(parse(f"key = {key}", "")["key"])
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
        while self._has_next("]"):
            element = (*path, index)
            first = self._line()
            self._value(element)
            self._spans[element] = (first, self._line())
            index += 1

    def _inline_table(self, path: Path) -> None:
        while self._has_next("}"):
            self._pair(path)

    def _has_next(self, end: str) -> bool:
        """Skip an opening bracket or a comma, and return whether another element follows before `end`."""
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
