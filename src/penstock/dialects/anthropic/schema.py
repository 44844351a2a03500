"""Convert JSON schemas to the form that Anthropic accepts.

A tool's schema is accepted nearly unchanged. An enforced schema (`strict` and `output_config.format`) is
compiled into a grammar, which supports fewer keywords and requires every object to be closed. If the grammar
cannot express the schema, the schema is not enforced.
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.schemas import Schema, SchemaBudget, inlined, without

_COMBINATORS = ("allOf", "anyOf", "oneOf")

_REMOVABLE = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern"),
        *("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "propertyNames", "dependentRequired"),
        *("$schema", "$id", "$anchor", "$comment", "examples", "deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords that the grammar does not support, removed because the answer keeps its shape without them."""

_UNSUPPORTED = frozenset(
    {
        *(
            "patternProperties",
            "unevaluatedProperties",
            "unevaluatedItems",
            "dependentSchemas",
            "prefixItems",
        ),
        *("not", "if", "then", "else", "$ref", "$dynamicRef"),
    }
)
"""Keywords that the grammar does not support and that cannot be removed: the schema is not enforced."""

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


def tool_schema(schema: Schema, budget: SchemaBudget | None = None) -> tuple[Schema, bool]:
    """Return the schema with a plain object at its root, as required, and whether it was changed."""
    if schema.get("type") == "object" and not schema.keys() & {*_COMBINATORS, "$ref"}:
        return schema, False
    plain, _ = inlined(schema, budget)
    properties = dict(_object(plain.get("properties")))
    required = _names(plain.get("required"))
    for keyword in _COMBINATORS:
        members = [each for each in _list(plain.get(keyword)) if isinstance(each, dict)]
        for member in members:
            for name, inner in _object(member.get("properties")).items():
                properties.setdefault(name, inner)
        required_by = [_names(each.get("required")) for each in members]
        # Every member of `allOf` applies, so require what any requires; of a union, only what all require.
        required |= (
            set().union(*required_by)
            if keyword == "allOf" or not required_by
            else set.intersection(*required_by)
        )
    rest = {keyword: value for keyword, value in plain.items() if keyword not in _COMBINATORS}
    known = [name for name in properties if name in required]
    return {**rest, "type": "object", "properties": properties, "required": known}, True


def enforceable(schema: Schema, budget: SchemaBudget | None = None) -> Schema | None:
    """Return the schema in the form that a grammar supports, or None if that is not possible."""
    plain, cut = inlined(schema, budget)
    return None if cut else _closed(without(plain, _REMOVABLE))


def _closed(schema: Any) -> Schema | None:
    """Return the schema with every object closed, or None if that is not possible."""
    if not isinstance(schema, dict) or schema.keys() & _UNSUPPORTED:
        return None
    closed = {keyword: value for keyword, value in schema.items() if keyword not in ("oneOf", "format")}
    if str(schema.get("format")) in _FORMATS:
        closed["format"] = schema["format"]
    if "oneOf" in schema:
        closed.setdefault("anyOf", schema["oneOf"])
    for keyword in ("anyOf", "allOf"):
        if keyword in closed:
            members = (
                [_closed(each) for each in closed[keyword]] if isinstance(closed[keyword], list) else [None]
            )
            if None in members:
                return None
            closed[keyword] = members
    if "items" in closed:
        inner = _closed(closed["items"])
        if inner is None:
            return None
        closed["items"] = inner
    return _closed_object(closed)


def _closed_object(schema: Schema) -> Schema | None:
    properties = schema.get("properties")
    is_object = schema.get("type") == "object" or "properties" in schema
    if not is_object:
        is_constrained = schema.keys() & {"type", "enum", "const", "anyOf", "allOf"}
        return schema if is_constrained else None
    if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
        return None  # a map with arbitrary keys: a grammar of named properties would allow none
    inner = {name: _closed(each) for name, each in properties.items()}
    if None in inner.values():
        return None
    return {**schema, "type": "object", "properties": inner, "additionalProperties": False}


def _names(value: Any) -> set[str]:
    return {name for name in _list(value) if isinstance(name, str)}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}
