"""Adapts the JSON schemas of tools and answers to upstreams that support only part of JSON Schema.

A schema is walked by its grammar and not by its keys: a property may be called `$ref`, `format` or `$id`, and
an enum or a default holds data, not schemas (ask B12). The input is never modified.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

Schema = dict[str, Any]

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas under names chosen by the author."""

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
"""Keywords that hold a schema or a list of schemas. True and false are schemas too, and stay unchanged."""

_DEFINITIONS = frozenset({"$defs", "definitions"})

DEPTH = 64
"""The maximum nesting. A schema below that is replaced by one that allows anything."""

SIZE = 5_000
"""The most subschemas that inlining may add to a schema: definitions that use each other twice would grow
exponentially."""

ADDED_BYTES = 4 * 1024 * 1024
"""The most bytes of JSON that inlining may add to all schemas of one request together."""


class SchemaBudget:
    """How much inlining may still add to the schemas of one request."""

    def __init__(self) -> None:
        self.schemas = 4 * SIZE
        self.bytes = ADDED_BYTES

    @property
    def is_used_up(self) -> bool:
        return self.schemas < 0 or self.bytes < 0


def inlined(schema: Schema, budget: SchemaBudget | None = None) -> tuple[Schema, bool]:
    """Return the schema without references, and whether anything was cut.

    A reference that is recursive, external or broken becomes a schema that allows anything, so that nothing
    the author meant to allow is refused. So does every reference once `budget` is used up.
    """
    inliner = _Inliner(schema, budget or SchemaBudget())
    return inliner.inline(schema, (), 0), inliner.cut


def without(schema: Schema, keywords: frozenset[str]) -> Schema:
    """Return the schema without these keywords, at every level."""
    return _without(schema, keywords, 0)


def _without(schema: Schema, keywords: frozenset[str], depth: int) -> Schema:
    if depth > DEPTH:
        return {}
    kept = {keyword: value for keyword, value in schema.items() if keyword not in keywords}
    return _mapped(kept, lambda inner: _without(inner, keywords, depth + 1))


def _mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return the schema with `change` applied to its direct subschemas."""
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
        """The size in bytes of each reference's target."""
        self.cut = False

    def inline(self, schema: Schema, within: tuple[str, ...], depth: int) -> Schema:
        """Return the schema without references. `within` has the references that led to it: one of them
        inside it is a recursion."""
        if depth > DEPTH or (within and not self._spend_schema()):
            self.cut = True
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            kept = {keyword: value for keyword, value in schema.items() if keyword not in _DEFINITIONS}
            return _mapped(kept, lambda inner: self.inline(inner, within, depth + 1))
        # Keywords next to a reference refine it, most often with a description.
        siblings = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        target = None if reference in within or self._is_full else self._target(reference)
        if target is None or not self._spend_bytes(reference, target):
            self.cut = True
            return self.inline(siblings, within, depth + 1)
        return self.inline({**target, **siblings}, (*within, reference), depth + 1)

    def _spend_schema(self) -> bool:
        """Count a schema that inlining copies; return whether it fits the budget."""
        self._added += 1
        self._budget.schemas -= 1
        return not self._is_full

    def _spend_bytes(self, reference: str, target: Schema) -> bool:
        if reference not in self._sizes:
            try:
                self._sizes[reference] = len(msgspec.json.encode(target))
            except RecursionError:  # nested too deeply to encode
                self._sizes[reference] = ADDED_BYTES + 1
        self._budget.bytes -= self._sizes[reference]
        return not self._is_full

    @property
    def _is_full(self) -> bool:
        return self._added > SIZE or self._budget.is_used_up

    def _target(self, reference: str) -> Schema | None:
        """Return the schema that a reference into this document points to (RFC 6901), or None."""
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
    """Decode percent-encoded characters: a reference is part of a URI."""
    return _PERCENT.sub(
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), pointer
    )
