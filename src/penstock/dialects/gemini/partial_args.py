"""Convert arguments that arrive as values at JSON paths (quirk G5) to JSON text, as a stream.

Gemini fills in arguments from front to back, so each value extends the text. If a value arrives for a place
that is already written, its top-level field is written again at the end: of two JSON fields with the same
name, the last one is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from penstock.lenient import camel_field, text_of

Step = str | int
Path = tuple[Step, ...]

_STEP = re.compile(
    r"""
    \.? (?P<name> [^.\[\]'"]+ )
    | \[ (?P<index> \d{1,9} ) \]
    | \[ (?P<quote> ['"] ) (?P<key> .*? ) (?P=quote) \]
    """,
    re.VERBOSE | re.DOTALL,
)
_MAX_DEPTH = 100
_MISSING = object()


class OpenContainer(Struct):
    """An object or an array that is not closed yet, with its fields so far."""

    step: Step
    is_array: bool
    fields: set[Step]

    def accepts(self, step: Step) -> bool:
        """Return whether this can be the next field."""
        if self.is_array:
            return step == len(self.fields)
        return isinstance(step, str) and step not in self.fields

    def begin(self, step: Step) -> str:
        comma = "," if self.fields else ""
        self.fields.add(step)
        return comma if self.is_array else f"{comma}{_json(step)}:"


class PartialArguments:
    """The arguments of one call. `add` and `close` return the text that they append."""

    def __init__(self) -> None:
        self._open: list[OpenContainer] = []
        self._string: Path | None = None
        """The path of the string that is still open; the next value may extend it."""
        self._values: list[tuple[Path, Any]] = []
        self.rewritten: dict[Step, None] = {}
        """The top-level fields whose values arrived out of order."""
        self.invalid_paths: list[str] = []
        """Paths that could not be parsed."""

    def add(self, partial: dict[str, Any]) -> str:
        """Add an entry of `partialArgs`: a path, and a value or the next piece of a string."""
        value = _value_of(partial)
        if value is _MISSING:
            return ""
        path = path_of(text_of(camel_field(partial, "jsonPath")))
        if path is None:
            self.invalid_paths.append(str(camel_field(partial, "jsonPath"))[:200])
            return ""
        self._values.append((path, value))
        if path[0] in self.rewritten:
            return ""
        if path == self._string and isinstance(value, str):
            return _json(value)[1:-1]
        depth = self._depth_shared_with(path)
        if not self._can_begin(path, depth):
            self.rewritten[path[0]] = None
            return ""
        return self._begin(path, depth) + self._write(path, value)

    def close(self) -> str:
        """Return the end of the text. Without any value there is no text: the call has no arguments."""
        if not self._values:
            return ""
        text = self._begin_root() + self._end_string() + self._close_containers(1)
        for name in self.rewritten:
            text += self._open[0].begin(name) + _json(self._assembled(name))
        return text + self._close_containers(0)

    def _depth_shared_with(self, path: Path) -> int:
        """Return how many open containers contain this path, including the root."""
        depth = 1
        for container, step in zip(self._open[1:], path[:-1], strict=False):
            if container.step != step:
                break
            depth += 1
        return depth

    def _can_begin(self, path: Path, depth: int) -> bool:
        """Return whether the rest of the path is new. A new array must begin at index 0."""
        parent = self._open[depth - 1] if self._open else OpenContainer("", False, set())
        new = path[depth:]
        return parent.accepts(path[depth - 1]) and all(isinstance(step, str) or step == 0 for step in new)

    def _begin(self, path: Path, depth: int) -> str:
        text = self._begin_root() + self._end_string() + self._close_containers(depth)
        for step, inner in zip(path[depth - 1 :], path[depth:], strict=False):
            text += self._open[-1].begin(step) + self._open_container(step, is_array=isinstance(inner, int))
        return text + self._open[-1].begin(path[-1])

    def _begin_root(self) -> str:
        return "" if self._open else self._open_container("", is_array=False)

    def _open_container(self, step: Step, *, is_array: bool) -> str:
        self._open.append(OpenContainer(step, is_array, set()))
        return "[" if is_array else "{"

    def _close_containers(self, depth: int) -> str:
        closed = self._open[depth:]
        del self._open[depth:]
        return "".join("]" if container.is_array else "}" for container in reversed(closed))

    def _write(self, path: Path, value: Any) -> str:
        if not isinstance(value, str):
            return _json(value)
        self._string = path
        return _json(value)[:-1]

    def _end_string(self) -> str:
        text = '"' if self._string is not None else ""
        self._string = None
        return text

    def _assembled(self, name: Step) -> Any:
        """Assemble a top-level field: pieces of a string are joined, otherwise the last value is used."""
        root: dict[Step, Any] = {}
        for path, value in self._values:
            if path[0] != name:
                continue
            node = root
            for step in path[:-1]:
                inner = node.get(step)
                if not isinstance(inner, dict):
                    inner = node[step] = {}
                node = inner
            pieces = node.get(path[-1])
            if isinstance(value, str) and isinstance(pieces, list):
                pieces.append(value)
            else:
                node[path[-1]] = [value] if isinstance(value, str) else value
        return _plain(root[name])


def path_of(text: str) -> Path | None:
    """Split `$.recipe.steps[0]['a key']` into steps; return None if it is not a path to an object's field."""
    steps = list(_steps(text.removeprefix("$")))
    if not steps or None in steps or len(steps) > _MAX_DEPTH or not isinstance(steps[0], str):
        return None
    return tuple(step for step in steps if step is not None)


def _steps(text: str) -> Iterator[Step | None]:
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            yield None
            return
        position = step.end()
        yield int(step["index"]) if step["index"] else step["name"] or step["key"] or ""


def _value_of(partial: dict[str, Any]) -> Any:
    """Return the value from whichever field has it, or `_MISSING`."""
    for name, types in (("stringValue", str), ("boolValue", bool), ("numberValue", int | float)):
        value = camel_field(partial, name)
        if isinstance(value, types):
            return value
    return None if "nullValue" in partial or "null_value" in partial else _MISSING


def _plain(node: Any) -> Any:
    """Convert nodes to objects and arrays, and pieces to strings. Gaps in an array are closed."""
    if isinstance(node, list):
        return "".join(node)
    if not isinstance(node, dict):
        return node
    if all(isinstance(step, int) for step in node):
        return [_plain(node[step]) for step in sorted(node)]
    return {str(step): _plain(inner) for step, inner in node.items()}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
