"""Arguments that come as values at paths (quirk G5), written as JSON text while they come.

Gemini fills in its arguments from front to back, so each value extends the text. Should a value come for a
place that is already written, its top-level field is left as it is and written once more at the end: in JSON
the last of two fields with one name counts.
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
_DEPTH = 100
_NOTHING = object()


class OpenContainer(Struct):
    """An object or an array that is not closed yet, and the fields that it has."""

    step: Step
    is_array: bool
    fields: set[Step]

    def takes(self, step: Step) -> bool:
        """Can this be the next field?"""
        if self.is_array:
            return step == len(self.fields)
        return isinstance(step, str) and step not in self.fields

    def begin(self, step: Step) -> str:
        comma = "," if self.fields else ""
        self.fields.add(step)
        return comma if self.is_array else f"{comma}{_json(step)}:"


class PartialArguments:
    """The arguments of one call. `take` and `close` return the text that they add."""

    def __init__(self) -> None:
        self._places: list[OpenContainer] = []
        self._string: Path | None = None
        """Where the text is inside a string, which the next value may lengthen."""
        self._taken: list[tuple[Path, Any]] = []
        self.rewritten: dict[Step, None] = {}
        """The top-level fields whose values did not come in order."""
        self.unread: list[str] = []
        """Paths that could not be read."""

    def take(self, partial: dict[str, Any]) -> str:
        """One of `partialArgs`: a path, and a value or the next piece of a string."""
        value = _value_of(partial)
        if value is _NOTHING:
            return ""
        path = path_of(text_of(camel_field(partial, "jsonPath")))
        if path is None:
            self.unread.append(str(camel_field(partial, "jsonPath"))[:200])
            return ""
        self._taken.append((path, value))
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
        """The end of the text. Without any value there is no text: the call has no arguments."""
        if not self._taken:
            return ""
        text = self._begin_root() + self._end_string() + self._leave(1)
        for name in self.rewritten:
            text += self._places[0].begin(name) + _json(self._gathered(name))
        return text + self._leave(0)

    def _depth_shared_with(self, path: Path) -> int:
        """How many of the open places are around this path; the root counts, and is around every path."""
        depth = 1
        for place, step in zip(self._places[1:], path[:-1], strict=False):
            if place.step != step:
                break
            depth += 1
        return depth

    def _can_begin(self, path: Path, depth: int) -> bool:
        """Is the rest of the path new? What it opens begins empty, so an array begins with its first."""
        around = self._places[depth - 1] if self._places else OpenContainer("", False, set())
        new = path[depth:]
        return around.takes(path[depth - 1]) and all(isinstance(step, str) or step == 0 for step in new)

    def _begin(self, path: Path, depth: int) -> str:
        text = self._begin_root() + self._end_string() + self._leave(depth)
        for step, inner in zip(path[depth - 1 :], path[depth:], strict=False):
            text += self._places[-1].begin(step) + self._enter(step, is_array=isinstance(inner, int))
        return text + self._places[-1].begin(path[-1])

    def _begin_root(self) -> str:
        return "" if self._places else self._enter("", is_array=False)

    def _enter(self, step: Step, *, is_array: bool) -> str:
        self._places.append(OpenContainer(step, is_array, set()))
        return "[" if is_array else "{"

    def _leave(self, depth: int) -> str:
        left = self._places[depth:]
        del self._places[depth:]
        return "".join("]" if place.is_array else "}" for place in reversed(left))

    def _write(self, path: Path, value: Any) -> str:
        if not isinstance(value, str):
            return _json(value)
        self._string = path
        return _json(value)[:-1]

    def _end_string(self) -> str:
        text = '"' if self._string is not None else ""
        self._string = None
        return text

    def _gathered(self, name: Step) -> Any:
        """All that came for one top-level field, put together: pieces of a string joined, else the last."""
        root: dict[Step, Any] = {}
        for path, value in self._taken:
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
    """`$.recipe.steps[0]['a key']` as its steps; None if it is no path to a field of an object."""
    steps = list(_steps(text.removeprefix("$")))
    if not steps or None in steps or len(steps) > _DEPTH or not isinstance(steps[0], str):
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
    """The value in whichever of the fields it came; `_NOTHING` if in none."""
    for name, types in (("stringValue", str), ("boolValue", bool), ("numberValue", int | float)):
        value = camel_field(partial, name)
        if isinstance(value, types):
            return value
    return None if "nullValue" in partial or "null_value" in partial else _NOTHING


def _plain(node: Any) -> Any:
    """Places as objects and arrays, and pieces as strings. Gaps in an array are closed."""
    if isinstance(node, list):
        return "".join(node)
    if not isinstance(node, dict):
        return node
    if all(isinstance(step, int) for step in node):
        return [_plain(node[step]) for step in sorted(node)]
    return {str(step): _plain(inner) for step, inner in node.items()}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
