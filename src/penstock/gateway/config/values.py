"""Reading the values of a configuration: each reader takes one value, and says what is wrong with it.

No message repeats a value, because any may be a secret in the wrong place. Only a name that was looked up in
a table and is not there is told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import TypeVar

from penstock.errors import ConfigError
from penstock.gateway.config.toml_lines import Path, TomlLines

T = TypeVar("T")
D = TypeVar("D")

MOST_SECONDS = 365 * 24 * 3600.0
OFF = "off"

ABOVE = dict.fromkeys(
    ("default_model", "passthrough"), "it belongs at the top of the file, above the first [table]"
)
"""In TOML a setting belongs to the last header above it: the mistake that everybody makes once."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TIME = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmg]i?)?b", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}


class Wrong(Exception):  # noqa: N818 - never leaves the reading of a file
    """A value that cannot be used; the message says what to write instead."""


class Problems:
    """Everything that is wrong in one file, found so far."""

    def __init__(self, file: str, lines: TomlLines) -> None:
        self._file = file
        self._lines = lines
        self._found: list[ConfigError] = []

    def add(self, path: Path, message: str) -> None:
        named = f"{dotted(path)}: {message}" if path else message
        self._found.append(ConfigError(self._file, self._lines.line(path), named))

    def tell(self) -> None:
        """Raise them all, in the order of the file."""
        if self._found:
            found = sorted(self._found, key=lambda error: error.line)
            raise ConfigError(found[0].file, found[0].line, found[0].message, found)


class ConfigTable:
    """One table of the file. What is wrong in it is noted, and reading goes on with the default."""

    def __init__(self, values: object, path: Path, problems: Problems) -> None:
        self.path = path
        self._problems = problems
        self.values: Mapping[str, object] = {}
        if isinstance(values, dict):
            self.values = values
        else:
            self.wrong(f"must be a table, not {kind(values)}")

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def wrong(self, message: str, *steps: str | int) -> None:
        """Note what is wrong with this table, or with something in it."""
        self._problems.add((*self.path, *steps), message)

    def only(self, known: Collection[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Note every name that is not one of these. `elsewhere` says of other names where they belong."""
        for name in self.values:
            if name not in known:
                self.wrong(f"there is no such setting{_advice(name, known, elsewhere or {})}", name)

    def read(self, name: str, reader: Callable[[object], T], default: D) -> T | D:
        """What a reader makes of a value; the default where there is none, or a wrong one."""
        if name not in self.values:
            return default
        try:
            return reader(self.values[name])
        except Wrong as wrong:
            self.wrong(str(wrong), name)
            return default

    def table(self, name: str) -> ConfigTable:
        return ConfigTable(self.values.get(name, {}), (*self.path, name), self._problems)

    def tables(self) -> Iterator[tuple[str, ConfigTable]]:
        """Every value that is a table; the others are noted."""
        for name, values in self.values.items():
            table = ConfigTable(values, (*self.path, name), self._problems)
            if isinstance(values, dict):
                yield name, table

    def array(self, name: str) -> list[ConfigTable]:
        """The tables that are written as `[[name]]`."""
        values = self.values.get(name, [])
        if not isinstance(values, list):
            self.wrong(f"must be written as [[{name}]], once for each", name)
            return []
        tables = [
            ConfigTable(each, (*self.path, name, index), self._problems) for index, each in enumerate(values)
        ]
        return [table for table, each in zip(tables, values, strict=True) if isinstance(each, dict)]

    def texts(self, name: str) -> dict[int, str]:
        """The texts of a list, each with its index; what is no text is noted and left out."""
        values = self.values.get(name, [])
        if not isinstance(values, list):
            self.wrong(f'must be a list, such as ["one", "two"], not {kind(values)}', name)
            return {}
        found: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                found[index] = word(value)
            except Wrong as wrong:
                self.wrong(str(wrong), name, index)
        return found


def dotted(path: Path) -> str:
    """A path as it is written in TOML; the elements of an array are counted from 0, in brackets."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{key(step)}" for step in path]
    return "".join(steps).removeprefix(".")


def key(name: str) -> str:
    """A name as a key of TOML."""
    if _BARE_KEY.fullmatch(name):
        return name
    return quoted(name) if name.isprintable() else ascii(name)


def quoted(text: str) -> str:
    """A printable text as a string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def kind(value: object) -> str:
    """What a value is, in words."""
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or a time"


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be a text in quotes, not {kind(value)}")
    return value


def word(value: object) -> str:
    """A text that says something."""
    found = text(value).strip()
    if not found:
        raise Wrong("must not be empty; leave it out if there is none")
    return found


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, without quotes, not {kind(value)}")
    return value


def whole(least: int, most: int | None = None) -> Callable[[object], int]:
    """Reads a whole number."""
    allowed = f"{least} or more" if most is None else f"from {least} to {most}"

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(f"must be a whole number, {allowed}, not {_but_whole(value)}")
        if value < least or (most is not None and value > most):
            raise Wrong(f"must be a whole number, {allowed}")
        return value

    return read


def whole_or_off(value: object) -> int:
    return 0 if value == OFF else whole(0)(value)


def seconds(value: object) -> float:
    """A time: a number of seconds, or such as "30s" or "5m"."""
    found = -1.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(min(value, 2 * MOST_SECONDS))
    elif isinstance(value, str) and (written := _TIME.fullmatch(value.strip())):
        found = float(written[1]) * _SECONDS[written[2]]
    if math.isnan(found) or found < 0:
        raise Wrong('must be a time: seconds as a number, or such as "500ms", "30s" or "5m"')
    if found > MOST_SECONDS:
        raise Wrong("is longer than a year: write a shorter time")
    return found


def some_seconds(value: object) -> float:
    """A time that passes."""
    found = seconds(value)
    if found == 0:
        raise Wrong("must be above 0")
    return found


def seconds_or_off(value: object) -> float | None:
    """A time; 0 or "off" means that there is no limit."""
    if value == OFF:
        return None
    try:
        return seconds(value) or None
    except Wrong as wrong:
        raise Wrong(f'{wrong}, or "off"') from None


def size(value: object) -> int:
    """A number of bytes, or such as "64MB" or "64MiB"."""
    found = 0
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and (written := _SIZE.fullmatch(value.strip())):
        unit = (written[2] or "").lower()
        base = 1024 if unit.endswith("i") else 1000
        found = int(float(written[1]) * base ** _POWERS[unit[:1]])
    if found < 1:
        raise Wrong('must be a size above 0: bytes as a number, or such as "64MB" or "64MiB"')
    return found


def one_of(what: str, known: Collection[str]) -> Callable[[object], str]:
    """Reads a name that is in a table."""

    def read(value: object) -> str:
        name = word(value)
        if name not in known:
            raise Wrong(unknown(what, name, known))
        return name

    return read


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """Why a name that is in no table is wrong: the nearest are offered, or else all of them."""
    shown = quoted(name) if name.isprintable() and len(name) <= 64 else "that"
    return f"there is no {what} called {shown}{_advice(name, known, {})}"


def _advice(name: str, known: Collection[str], elsewhere: Mapping[str, str]) -> str:
    if name in elsewhere:
        return f"; {elsewhere[name]}"
    near = get_close_matches(name.lower(), known, n=2, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there are {', '.join(sorted(known))}" if known else "; there are none at all"


def _but_whole(value: object) -> str:
    return "one with a fraction" if isinstance(value, float) else kind(value)
