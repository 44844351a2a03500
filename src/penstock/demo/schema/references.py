"""References within a schema, and several schemas as the one that asks for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice, product
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

Schema = dict[str, Any]

_DEEPEST = 32
_BRANCHES = 64
"""Branches of two choices that are multiplied out."""
_BRANCHES_DEPTH = 2
_PARTS = 64
"""References and members of `allOf` that are joined into one schema."""


class Flat(Struct, frozen=True):
    """A schema without `$ref` and `allOf` at its top, and the references that led there."""

    schema: Schema
    references: tuple[str, ...] = ()


def target_of(root: Schema, reference: str) -> Any:
    """What a reference into this document points at (RFC 6901). One that leads nowhere allows anything."""
    if not reference.startswith("#"):
        return True
    found: Any = root
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return True
    return found


def flat(root: Schema, schema: Schema) -> Flat:
    return _Flattening(root).flat(schema, 0)


class _Flattening:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _PARTS

    def flat(self, schema: Schema, depth: int) -> Flat:
        references: tuple[str, ...] = ()
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
            found = target_of(self._root, reference)
            references = (reference,)
            if isinstance(found, dict) and self._takes(depth):
                there = self.flat(found, depth + 1)
                schema, references = merged(there.schema, schema), (*references, *there.references)
        parts = schema.get("allOf")
        if isinstance(parts, list):
            schema = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
            for part in parts[:_PARTS]:
                if isinstance(part, dict) and self._takes(depth):
                    there = self.flat(part, depth + 1)
                    schema, references = merged(schema, there.schema), (*references, *there.references)
        return Flat(schema, references)

    def _takes(self, depth: int) -> bool:
        """Definitions that use each other twice would be joined without end."""
        self._left -= 1
        return self._left >= 0 and depth < _DEEPEST


def merged(one: Any, other: Any, depth: int = 0) -> Any:
    """A schema for what fits both. Where two keywords cannot be joined, the first one's stands."""
    if one is False or other is False:
        return False
    if not isinstance(other, dict) or depth > _DEEPEST:
        return one
    if not isinstance(one, dict):
        return other
    result = dict(one)
    for keyword, value in other.items():
        if keyword not in result:
            result[keyword] = value
        elif keyword in _JOINED:
            result[keyword] = _JOINED[keyword](result[keyword], value, depth + 1)
    return result


def _by_name(one: Any, other: Any, depth: int) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    both = {name: merged(one[name], other[name], depth) for name in one if name in other}
    return {**one, **other, **both}


def _union(one: Any, other: Any, _: int) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return one
    return list(dict.fromkeys(each for each in (*one, *other) if isinstance(each, str)))


def _texts(value: Any) -> dict[str, None]:
    """The texts of a keyword that holds one or a list of them, each once."""
    return dict.fromkeys(
        each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)
    )


def _larger(one: Any, other: Any, _: int) -> Any:
    return max(one, other) if isinstance(one, int | float) and isinstance(other, int | float) else one


def _smaller(one: Any, other: Any, _: int) -> Any:
    return min(one, other) if isinstance(one, int | float) and isinstance(other, int | float) else one


def _types(one: Any, other: Any, _: int) -> Any:
    first, second = _texts(one), _texts(other)
    both = [each for each in first if each in second]
    if "integer" not in both and "integer" in (*first, *second) and "number" in (*first, *second):
        both.append("integer")
    return both or one


def _common(one: Any, other: Any, _: int) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return one
    wanted = {json.dumps(each, sort_keys=True) for each in other}
    return [each for each in one if json.dumps(each, sort_keys=True) in wanted] or one


def _product(one: Any, other: Any, depth: int) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return one
    if depth > _BRANCHES_DEPTH:
        return one
    pairs = islice(product(one, other), _BRANCHES)
    return [merged(first, second, depth) for first, second in pairs]


_JOINED: dict[str, Callable[[Any, Any, int], Any]] = {
    "properties": _by_name,
    "patternProperties": _by_name,
    "dependentSchemas": _by_name,
    "required": _union,
    "type": _types,
    "enum": _common,
    "anyOf": _product,
    "oneOf": _product,
    "items": merged,
    "additionalProperties": merged,
    "contains": merged,
    "minimum": _larger,
    "exclusiveMinimum": _larger,
    "minLength": _larger,
    "minItems": _larger,
    "minProperties": _larger,
    "maximum": _smaller,
    "exclusiveMaximum": _smaller,
    "maxLength": _smaller,
    "maxItems": _smaller,
    "maxProperties": _smaller,
}
"""How two values of one keyword become one that asks for both."""
