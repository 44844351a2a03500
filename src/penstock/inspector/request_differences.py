"""What became of each field of a request on its way to the upstream.

Dialects have other names for many fields, so a field that seems to be gone is looked for by its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

LONGEST = 2000
"""Bytes of a value. A longer one is left out here: the page has both requests."""
_DEEPEST = 3
_HISTORY = {"input": ("messages", "contents", "prompt", "history", "turns")}
"""Fields with the same purpose, whose values differ in every dialect."""

Json = Mapping[str, Any]


class RequestDifference(Struct, frozen=True):
    path: str
    kind: Literal["same", "changed", "dropped", "added"]
    client: Any = None
    upstream: Any = None


def request_differences(client: Json, upstream: Json) -> list[RequestDifference]:
    """Return one entry per field, in the order of the client's request; what was added follows."""
    before, after = dict(_fields(client)), dict(_fields(upstream))
    found: list[RequestDifference] = []
    added = {path: value for path, value in after.items() if path not in before}
    for path, value in before.items():
        if path in after:
            kind: Literal["same", "changed"] = "same" if _is_same(after[path], value) else "changed"
            found.append(RequestDifference(path, kind, _short(value), _short(after[path])))
            continue
        other = _counterpart(path, value, added)
        if not other:
            found.append(RequestDifference(path, "dropped", _short(value)))
            continue
        kind = "same" if _is_same(added[other], value) else "changed"
        moved = added.pop(other)
        found.append(RequestDifference(f"{path} → {other}", kind, _short(value), _short(moved)))
    found += [RequestDifference(path, "added", None, _short(value)) for path, value in added.items()]
    return found


def _fields(value: Json, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the fields of objects within objects; lists count as one value."""
    for name, each in value.items():
        if isinstance(each, dict) and each and depth < _DEEPEST:
            yield from _fields(each, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", each


def _counterpart(path: str, value: Any, added: Json) -> str:
    """Return the added field that a field has become; empty if none is like it."""
    for name in _HISTORY.get(path, ()):
        if name in added:
            return name
    if value in (None, "", [], {}) or isinstance(value, bool):
        return ""  # too many fields have such values
    last = path.rpartition(".")[2]
    same = [each for each, other in added.items() if _is_same(other, value)]
    return next((each for each in same if each.rpartition(".")[2] == last), same[0] if len(same) == 1 else "")


def _is_same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _short(value: Any) -> Any:
    size = len(msgspec.json.encode(value))
    return value if size <= LONGEST else f"({size:,} bytes)"
