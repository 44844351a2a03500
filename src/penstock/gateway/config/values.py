"""Read the values of a configuration: a reader takes one value and raises `InvalidValue` if it is invalid.

No message repeats a value, because any may be a secret in the wrong place. The exception is a name that was
looked up and is unknown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, time
from typing import Any, Generic, TypeVar

from penstock.errors import ConfigError
from penstock.gateway.config.toml_lines import Path, TomlLines
from penstock.suggestions import advice, unknown

T = TypeVar("T")
D = TypeVar("D")

MOST_SECONDS = 365 * 24 * 3600.0
OFF = "off"

ABOVE = dict.fromkeys(
    ("default_model", "passthrough"), "it belongs at the top of the file, above the first [table]"
)
"""In TOML, a setting belongs to the last header above it; this is a common mistake."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TIME = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmg]i?)?b", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}


class InvalidValue(Exception):  # noqa: N818 - internal to the readers
    """An invalid value; the message contains what to write instead."""


class ValueReader(Generic[T]):
    """A reader with the JSON Schema of the values that it accepts. A schema cannot express everything: it may
    accept more than the reader, but never less."""

    def __init__(self, read: Callable[[object], T], schema: Mapping[str, Any]) -> None:
        self._read = read
        self.schema = schema

    def __call__(self, value: object) -> T:
        return self._read(value)


def reads(**schema: Any) -> Callable[[Callable[[object], T]], ValueReader[T]]:
    """Return a decorator that gives a reader its JSON Schema."""
    return lambda read: ValueReader(read, schema)


def matching(shape: re.Pattern[str]) -> dict[str, str]:
    """Return the schema of strings that are of this shape, with spaces around it or not."""

    def in_both_cases(found: re.Match[str]) -> str:
        letters = found[0].strip("[]")
        return found[0] if found[0][0] == "\\" else f"[{letters}{letters.upper()}]"

    pattern = shape.pattern
    if shape.flags & re.IGNORECASE:  # JSON Schema has no such flag
        pattern = re.sub(r"\\.|\[[^]]*\]|[a-z]", in_both_cases, pattern)
    return {"type": "string", "pattern": rf"^\s*(?:{pattern})\s*$"}


class Problems:
    """The errors found so far in one file."""

    def __init__(self, file: str, lines: TomlLines) -> None:
        self._file = file
        self._lines = lines
        self._found: list[ConfigError] = []

    def add(self, path: Path, message: str) -> None:
        named = f"{dotted(path)}: {message}" if path else message
        self._found.append(ConfigError(self._file, self._lines.line(path), named))

    def raise_any(self) -> None:
        """Raise one `ConfigError` with all errors in the order of the file, if there are any."""
        if self._found:
            found = sorted(self._found, key=lambda error: error.line)
            raise ConfigError(found[0].file, found[0].line, found[0].message, found)


class ConfigTable:
    """One table of the file. Errors are recorded, and reading continues with the default."""

    def __init__(self, values: object, path: Path, problems: Problems) -> None:
        self.path = path
        self._problems = problems
        self.values: Mapping[str, object] = {}
        if isinstance(values, dict):
            self.values = values
        else:
            self.report(f"must be a table, not {kind(values)}")

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def report(self, message: str, *steps: str | int) -> None:
        """Record an error of this table, or of something in it."""
        self._problems.add((*self.path, *steps), message)

    def only(self, known: Collection[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Record an error for every name that is not known. `elsewhere` has advice for misplaced names."""
        for name in self.values:
            if name not in known:
                instead = (elsewhere or {}).get(name) or advice(name, known)
                self.report(f"there is no such setting; {instead}", name)

    def read(self, name: str, reader: Callable[[object], T], default: D) -> T | D:
        """Return the value from `reader`, or the default if it is missing or invalid."""
        if name not in self.values:
            return default
        try:
            return reader(self.values[name])
        except InvalidValue as error:
            self.report(str(error), name)
            return default

    def table(self, name: str) -> ConfigTable:
        return ConfigTable(self.values.get(name, {}), (*self.path, name), self._problems)

    def tables(self) -> Iterator[tuple[str, ConfigTable]]:
        """Yield every value that is a table; record an error for the others."""
        for name, values in self.values.items():
            table = ConfigTable(values, (*self.path, name), self._problems)
            if isinstance(values, dict):
                yield name, table

    def inner(self, values: object, *steps: str | int) -> ConfigTable:
        """Return a table at a path in this one, such as one in a list."""
        return ConfigTable(values, (*self.path, *steps), self._problems)

    def array(self, name: str) -> list[ConfigTable]:
        """Return the tables that are written as `[[name]]`."""
        values = self.values.get(name, [])
        if not isinstance(values, list):
            self.report(f"must be written as [[{name}]], once per entry", name)
            return []
        tables = [
            ConfigTable(each, (*self.path, name, index), self._problems) for index, each in enumerate(values)
        ]
        return [table for table, each in zip(tables, values, strict=True) if isinstance(each, dict)]

    def texts(self, name: str) -> dict[int, str]:
        """Return the strings of a list by index; record an error for other values and omit them."""
        values = self.values.get(name, [])
        if not isinstance(values, list):
            self.report(f'must be a list, such as ["one", "two"], not {kind(values)}', name)
            return {}
        found: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                found[index] = nonempty(value)
            except InvalidValue as error:
                self.report(str(error), name, index)
        return found


def dotted(path: Path) -> str:
    """Return a path as written in TOML, with the indices of array elements in brackets, from 0."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{key(step)}" for step in path]
    return "".join(steps).removeprefix(".")


def key(name: str) -> str:
    """Return a name as a TOML key."""
    if _BARE_KEY.fullmatch(name):
        return name
    return quoted(name) if name.isprintable() else ascii(name)


def quoted(text: str) -> str:
    """Return a printable text as a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Literal(str):
    """A text that is written to a file without quotes, such as a date."""

    __slots__ = ()


def toml_value(value: object) -> str:
    """Return a text, a number, a date, true, false, or a list or table of these as in a TOML file."""
    match value:
        case list():
            return f"[{', '.join(map(toml_value, value))}]"
        case dict():
            return f"{{ {', '.join(f'{key(name)} = {toml_value(each)}' for name, each in value.items())} }}"
        case bool():
            return str(value).lower()
        case Literal():
            return str(value)
        case str():
            return quoted(value) if value.isprintable() else json.dumps(value)
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)


def kind(value: object) -> str:
    """Return the type of a value, in words."""
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


@reads(type="string")
def text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValue(f"must be a string in quotes, not {kind(value)}")
    return value


@reads(type="string", pattern=r"\S")
def nonempty(value: object) -> str:
    """Read a string that is not empty."""
    found = text(value).strip()
    if not found:
        raise InvalidValue("must not be empty; remove the setting if there is no value")
    return found


@reads(type="boolean")
def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(f"must be true or false, without quotes, not {kind(value)}")
    return value


def whole_number(least: int, most: int | None = None) -> ValueReader[int]:
    """Return a reader of whole numbers."""
    allowed = f"{least} or more" if most is None else f"from {least} to {most}"
    limits = {"minimum": least} if most is None else {"minimum": least, "maximum": most}

    @reads(type="integer", **limits)
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidValue(f"must be a whole number, {allowed}, not {_kind_of_number(value)}")
        if value < least or (most is not None and value > most):
            raise InvalidValue(f"must be a whole number, {allowed}")
        return value

    return read


@reads(anyOf=[{"type": "integer", "minimum": 0}, {"const": OFF}])
def number_or_off(value: object) -> int:
    return 0 if value == OFF else whole_number(0)(value)


MOST_WORKERS = 256
AUTO = "auto"


@reads(anyOf=[{"type": "integer", "minimum": 1, "maximum": MOST_WORKERS}, {"const": AUTO}])
def worker_number(value: object) -> int:
    """Read a number of processes; 0 stands for "auto", which is one for each processor."""
    if value == AUTO:
        return 0
    try:
        return whole_number(1, MOST_WORKERS)(value)
    except InvalidValue as error:
        raise InvalidValue(f'{error}, or "{AUTO}" for one per processor') from None


@reads(anyOf=[{"type": "integer", "minimum": 0}, {"const": AUTO}])
def number_or_auto(value: object) -> int:
    """Read a whole number; 0 and "auto" let the gateway choose."""
    return 0 if value == AUTO else whole_number(0)(value)


_DURATION = matching(_TIME)


@reads(anyOf=[{"type": "number", "minimum": 0, "maximum": MOST_SECONDS}, _DURATION])
def seconds(value: object) -> float:
    """Read a duration: a number of seconds, or a string such as "30s" or "5m"."""
    found = -1.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(min(value, 2 * MOST_SECONDS))
    elif isinstance(value, str) and (written := _TIME.fullmatch(value.strip())):
        found = float(written[1]) * _SECONDS[written[2]]
    if math.isnan(found) or found < 0:
        raise InvalidValue(
            'must be a duration: a number of seconds, or a string such as "500ms", "30s" or "5m"'
        )
    if found > MOST_SECONDS:
        raise InvalidValue("is longer than a year: use a shorter duration")
    return found


@reads(anyOf=[{"type": "number", "exclusiveMinimum": 0, "maximum": MOST_SECONDS}, _DURATION])
def positive_seconds(value: object) -> float:
    """Read a duration above 0."""
    found = seconds(value)
    if found == 0:
        raise InvalidValue("must be above 0")
    return found


@reads(anyOf=[*seconds.schema["anyOf"], {"const": OFF}])
def seconds_or_off(value: object) -> float | None:
    """Read a duration; 0 or "off" means no limit."""
    if value == OFF:
        return None
    try:
        return seconds(value) or None
    except InvalidValue as error:
        raise InvalidValue(f'{error}, or "off"') from None


@reads(anyOf=[{"type": "integer", "minimum": 1}, matching(_SIZE)])
def size(value: object) -> int:
    """Read a size: a number of bytes, or a string such as "64MB" or "64MiB"."""
    found = 0
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and (written := _SIZE.fullmatch(value.strip())):
        unit = (written[2] or "").lower()
        base = 1024 if unit.endswith("i") else 1000
        found = int(float(written[1]) * base ** _POWERS[unit[:1]])
    if found < 1:
        raise InvalidValue('must be a size above 0: a number of bytes, or a string such as "64MB" or "64MiB"')
    return found


def one_of(what: str, known: Collection[str]) -> ValueReader[str]:
    """Return a reader of names that must be one of `known`."""

    @reads(enum=sorted(known))
    def read(value: object) -> str:
        name = nonempty(value)
        if name not in known:
            raise InvalidValue(unknown(what, name, known))
        return name

    return read


def _kind_of_number(value: object) -> str:
    return "a fraction" if isinstance(value, float) else kind(value)
