"""JSON schemas as Anthropic takes them.

A tool's schema is taken nearly as it is. A schema that the model is held to (`strict` and
`output_config.format`) is compiled into a grammar, which knows less and wants every object closed; where it
cannot say what the author meant, it is not used.
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.schemas import Schema, SchemaBudget, inlined, without

_COMBINED = ("allOf", "anyOf", "oneOf")

_NOT_ENFORCED = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern"),
        *("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "propertyNames", "dependentRequired"),
        *("$schema", "$id", "$anchor", "$comment", "examples", "deprecated", "readOnly", "writeOnly"),
    }
)
"""What the grammar cannot say and an answer may break without being another kind of answer."""

_NOT_SAYABLE = frozenset(
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

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


def tool_schema(schema: Schema, budget: SchemaBudget | None = None) -> tuple[Schema, bool]:
    """The schema with a plain object at its top, where nothing else is allowed; and if it was changed."""
    if schema.get("type") == "object" and not schema.keys() & {*_COMBINED, "$ref"}:
        return schema, False
    plain, _ = inlined(schema, budget)
    properties = dict(_object(plain.get("properties")))
    required = _names(plain.get("required"))
    for keyword in _COMBINED:
        members = [each for each in _list(plain.get(keyword)) if isinstance(each, dict)]
        for member in members:
            for name, inner in _object(member.get("properties")).items():
                properties.setdefault(name, inner)
        wanted = [_names(each.get("required")) for each in members]
        # All members of `allOf` hold, so all that they require; of the others one does.
        required |= set().union(*wanted) if keyword == "allOf" or not wanted else set.intersection(*wanted)
    kept = {keyword: value for keyword, value in plain.items() if keyword not in _COMBINED}
    known = [name for name in properties if name in required]
    return {**kept, "type": "object", "properties": properties, "required": known}, True


def enforceable(schema: Schema, budget: SchemaBudget | None = None) -> Schema | None:
    """The schema as a grammar can be made of it, or None if none can."""
    plain, cut = inlined(schema, budget)
    return None if cut else _closed(without(plain, _NOT_ENFORCED))


def _closed(schema: Any) -> Schema | None:
    """Every object with its properties and no others."""
    if not isinstance(schema, dict) or schema.keys() & _NOT_SAYABLE:
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
        says_something = schema.keys() & {"type", "enum", "const", "anyOf", "allOf"}
        return schema if says_something else None
    if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
        return None  # a map of anything: a grammar of named properties would empty it
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
