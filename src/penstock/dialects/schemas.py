"""JSON schemas of tools and answers, made acceptable for upstreams that know only part of the language.

A schema is walked by its grammar and not by its keys: a property may be called `$ref`, `format` or `$id`, and
an enum or a default holds data and no schema (ask B12). What comes in is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

Schema = dict[str, Any]

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas by names which are the author's."""

_ONE_OR_MANY = frozenset(
    {
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
    }
)
"""Keywords that hold a schema or a list of them. True and false are schemas as well, and stay."""

_DEFINITIONS = frozenset({"$defs", "definitions"})

DEPTH = 64
"""Schemas are walked this deep; what lies deeper allows anything."""

SIZE = 5_000
"""Schemas that one may be inlined into: definitions that use each other twice grow without end otherwise."""


ADDED_BYTES = 4 * 1024 * 1024
"""Of JSON, that references may add to all schemas of one request together."""


class SchemaBudget:
    """How much more references may add to the schemas of one request."""

    def __init__(self) -> None:
        self.schemas = 4 * SIZE
        self.bytes = ADDED_BYTES

    @property
    def is_used_up(self) -> bool:
        return self.schemas < 0 or self.bytes < 0


def inlined(schema: Schema, budget: SchemaBudget | None = None) -> tuple[Schema, bool]:
    """The schema without references, and whether something had to be cut to get there.

    A reference that leads back into itself, out of the document or nowhere becomes a schema that allows
    anything, which is the one that never refuses what the author meant to allow. So does every reference
    once `budget` is used up.
    """
    inliner = _Inliner(schema, budget or SchemaBudget())
    return inliner.inline(schema, (), 0), inliner.cut


def without(schema: Schema, keywords: frozenset[str]) -> Schema:
    """The schema without these keywords, at every level."""
    return _without(schema, keywords, 0)


def _without(schema: Schema, keywords: frozenset[str], depth: int) -> Schema:
    if depth > DEPTH:
        return {}
    kept = {keyword: value for keyword, value in schema.items() if keyword not in keywords}
    return _mapped(kept, lambda inner: _without(inner, keywords, depth + 1))


def _mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """The schema with every schema right below it changed."""
    return {keyword: _mapped_value(keyword, value, change) for keyword, value in schema.items()}


def _mapped_value(keyword: str, value: Any, change: Callable[[Schema], Schema]) -> Any:
    if keyword in _MAPS and isinstance(value, dict):
        return {name: change(inner) if isinstance(inner, dict) else inner for name, inner in value.items()}
    if keyword in _ONE_OR_MANY:
        if isinstance(value, dict):
            return change(value)
        if isinstance(value, list):
            return [change(inner) if isinstance(inner, dict) else inner for inner in value]
    return value


class _Inliner:
    def __init__(self, root: Schema, budget: SchemaBudget) -> None:
        self._root = root
        self._budget = budget
        self._added = 0
        self._sizes: dict[str, int] = {}
        """The JSON bytes of what a reference points at."""
        self.cut = False

    def inline(self, schema: Schema, within: tuple[str, ...], depth: int) -> Schema:
        """`within` are the references that lead here: meeting one of them again is recursion."""
        if depth > DEPTH or (within and not self._takes_schema()):
            self.cut = True
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            kept = {keyword: value for keyword, value in schema.items() if keyword not in _DEFINITIONS}
            return _mapped(kept, lambda inner: self.inline(inner, within, depth + 1))
        # What stands beside a reference refines it, most often with a description.
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        target = None if reference in within or self._is_full else self._target(reference)
        if target is None or not self._takes_bytes(reference, target):
            self.cut = True
            return self.inline(beside, within, depth + 1)
        return self.inline({**target, **beside}, (*within, reference), depth + 1)

    def _takes_schema(self) -> bool:
        """What a reference leads to is written once more for each reference, so it uses up the budget."""
        self._added += 1
        self._budget.schemas -= 1
        return not self._is_full

    def _takes_bytes(self, reference: str, target: Schema) -> bool:
        if reference not in self._sizes:
            try:
                self._sizes[reference] = len(msgspec.json.encode(target))
            except RecursionError:  # nested too deeply to be written at all
                self._sizes[reference] = ADDED_BYTES + 1
        self._budget.bytes -= self._sizes[reference]
        return not self._is_full

    @property
    def _is_full(self) -> bool:
        return self._added > SIZE or self._budget.is_used_up

    def _target(self, reference: str) -> Schema | None:
        """What a reference into this document points at (RFC 6901), if that is a schema."""
        if not reference.startswith("#"):
            return None
        found: Any = self._root
        for step in _unquoted(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                if not _INDEX.fullmatch(name) or int(name) >= len(found):
                    return None
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                return None
        return found if isinstance(found, dict) else None


_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")


def _unquoted(pointer: str) -> str:
    """A reference is part of a URI, so its characters may be percent-encoded."""
    return _PERCENT.sub(
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), pointer
    )
