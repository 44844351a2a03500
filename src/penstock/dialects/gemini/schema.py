"""Convert JSON schemas to the subset of OpenAPI that Gemini accepts.

Gemini rejects a schema with an unknown keyword, or sends an empty answer (ask B12). So only keywords that it
is known to accept are used; the others are removed or expressed differently, and losses are reported.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.dialects.schemas import DEPTH, Schema, SchemaBudget, inlined

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})

_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")

_FORMATS: dict[str, frozenset[str]] = {
    "string": frozenset({"date-time", "enum"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
"""The accepted formats. Gemini rejects any other."""

_IGNORABLE = frozenset(
    {
        *("$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "default", "examples", "example"),
        *("additionalProperties", "unevaluatedProperties", "deprecated", "readOnly", "writeOnly", "title"),
    }
)
"""Keywords that are removed without a diagnostic: the model calls the tool the same way without them."""

_SUPPORTED = frozenset(
    {
        *("type", "format", "description", "enum", "const", "nullable", "properties", "required", "items"),
        *("anyOf", "oneOf", "allOf", "prefixItems", "minimum", "maximum", "pattern", *_COUNTS),
    }
)


class CleanedSchema:
    """A schema that Gemini accepts. `changed`: it lost something. `cut`: recursive references were cut."""

    def __init__(self, schema: Schema, budget: SchemaBudget | None = None) -> None:
        self.changed = False
        plain, self.cut = inlined(schema, budget)
        self.schema = self._clean(plain, 0)

    def _clean(self, schema: Any, depth: int) -> Schema:
        if not isinstance(schema, dict) or depth > DEPTH:
            schema = {}
        schema = self._merge_variants(self._merge_all_of(schema))
        self.changed |= bool(schema.keys() - _SUPPORTED - _IGNORABLE)
        types, nullable = _types_of(schema)
        cleaned: Schema = {}
        if isinstance(schema.get("description"), str):
            cleaned["description"] = schema["description"]
        if variants := _variants_of(schema):
            cleaned |= self._variants(variants, depth)
        elif len(types) > 1:
            cleaned["anyOf"] = [self._typed({**schema, "description": None}, type, depth) for type in types]
        else:
            cleaned |= self._typed(schema, types[0] if types else self._guess_type(schema), depth)
        if nullable:
            cleaned["nullable"] = True
        return cleaned

    def _merge_all_of(self, schema: Schema) -> Schema:
        """Merge `allOf` into one schema: Gemini does not support the keyword."""
        members = schema.get("allOf")
        if not isinstance(members, list):
            return schema
        merged: Schema = {}
        own = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
        for member in (own, *(self._merge_all_of(each) for each in members if isinstance(each, dict))):
            for keyword, value in member.items():
                earlier = merged.get(keyword)
                if isinstance(earlier, dict) and isinstance(value, dict):
                    for name, inner in value.items():
                        earlier.setdefault(name, inner)
                elif isinstance(earlier, list) and isinstance(value, list) and keyword == "required":
                    earlier += value
                elif keyword not in merged:
                    # Copied, because the next member may be merged into it.
                    merged[keyword] = value.copy() if isinstance(value, dict | list) else value
        return merged

    def _merge_variants(self, schema: Schema) -> Schema:
        """Merge the variants of an object: all their properties, requiring what all of them require.

        A union is not allowed next to properties, nor at the root of a function's parameters.
        """
        variants = [each for each in _variants_of(schema) if isinstance(each, dict)]
        if not variants or not (schema.get("type") == "object" or "properties" in schema):
            return schema
        self.changed = True
        merged = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "oneOf")}
        properties = dict(_object(schema.get("properties")))
        for variant in variants:
            for name, inner in _object(variant.get("properties")).items():
                properties.setdefault(name, inner)
        required_by = [_texts(variant.get("required")) for variant in variants]
        all_require = set(required_by[0]).intersection(*required_by)
        common = [name for name in required_by[0] if name in all_require]
        return {**merged, "properties": properties, "required": _list(schema.get("required")) + common}

    def _variants(self, variants: list[Any], depth: int) -> Schema:
        """Replace a null variant by `nullable`, and a union of one variant by the variant."""
        others = [each for each in variants if not (isinstance(each, dict) and each.get("type") == "null")]
        cleaned = [self._clean(each, depth + 1) for each in others]
        nullable = {"nullable": True} if len(others) < len(variants) else {}
        if not cleaned:
            return {"type": "string", **nullable}
        return {**cleaned[0], **nullable} if len(cleaned) == 1 else {"anyOf": cleaned, **nullable}

    def _guess_type(self, schema: Schema) -> str:
        """Guess the type of a schema without one: Gemini requires it everywhere."""
        for keyword, type in (("properties", "object"), ("items", "array"), ("prefixItems", "array")):
            if keyword in schema:
                return type
        values = _values_of(schema)
        if values and all(isinstance(value, int | float) for value in values):
            return "boolean" if all(isinstance(value, bool) for value in values) else "number"
        self.changed |= not values
        return "string"

    def _typed(self, schema: Schema, type: str, depth: int) -> Schema:
        cleaned: Schema = {"type": type}
        if str(schema.get("format")) in _FORMATS.get(type, ()):
            cleaned["format"] = schema["format"]
        for keyword in ("minimum", "maximum") if type in ("number", "integer") else ():
            if isinstance(schema.get(keyword), int | float):
                cleaned[keyword] = schema[keyword]
        for keyword in _COUNTS:
            count = schema.get(keyword)
            if isinstance(count, int) and keyword.endswith(_COUNT_SUFFIXES.get(type, "-")):
                cleaned[keyword] = count
        if type == "string" and isinstance(schema.get("pattern"), str):
            cleaned["pattern"] = schema["pattern"]
        self._add_values(cleaned, schema)
        if type == "object":
            self._add_properties(cleaned, schema, depth)
        elif type == "array":
            cleaned["items"] = self._items(schema, depth)
        return cleaned

    def _add_values(self, cleaned: Schema, schema: Schema) -> None:
        """Add the enum. It may only have strings that are not empty; other values go into the description."""
        values = [value for value in _values_of(schema) if value is not None and value != ""]
        if not values:
            return
        if cleaned["type"] == "string" and all(isinstance(value, str) for value in values):
            cleaned["enum"] = list(dict.fromkeys(values))
            return
        listed = "One of: " + ", ".join(msgspec.json.encode(value).decode() for value in values)
        description = schema.get("description")
        cleaned["description"] = f"{description}\n{listed}" if isinstance(description, str) else listed

    def _add_properties(self, cleaned: Schema, schema: Schema, depth: int) -> None:
        properties = _object(schema.get("properties"))
        if not properties:
            return
        cleaned["properties"] = {name: self._clean(inner, depth + 1) for name, inner in properties.items()}
        known = [
            name for name in _list(schema.get("required")) if isinstance(name, str) and name in properties
        ]
        if known:
            cleaned["required"] = list(dict.fromkeys(known))

    def _items(self, schema: Schema, depth: int) -> Schema:
        """Return the schema of the items. A tuple becomes a list: Gemini allows only one item schema."""
        items = schema.get("items")
        tuple_members = schema.get("prefixItems") if not isinstance(items, list) else items
        if isinstance(tuple_members, list) and tuple_members:
            self.changed = True
            return self._clean({"anyOf": tuple_members}, depth + 1)
        return self._clean(items, depth + 1)


_COUNT_SUFFIXES = {"array": "Items", "string": "Length", "object": "Properties"}


def _types_of(schema: Schema) -> tuple[list[str], bool]:
    given = schema.get("type")
    listed = [given] if isinstance(given, str) else _list(given)
    nullable = "null" in listed or schema.get("nullable") is True or None in _values_of(schema)
    return [each for each in dict.fromkeys(_texts(listed)) if each in _TYPES], nullable


def _values_of(schema: Schema) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return _list(schema.get("enum"))


def _variants_of(schema: Schema) -> list[Any]:
    return _list(schema.get("anyOf")) or _list(schema.get("oneOf"))


def _texts(value: Any) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}
