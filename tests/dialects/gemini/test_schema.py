"""JSON schemas for Gemini."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.gemini.schema import CleanedSchema
from tests.dialects.gemini.rendered_requests import rendered
from tests.dialects.render_cases import (
    WEATHER,
    codes,
)
from tests.effort import examples


@pytest.mark.parametrize(
    ("schema", "expected", "changed"),
    [
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}, False),
        ({"type": "string", "format": "email"}, {"type": "string"}, False),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer"}, True),
        (
            {"type": "integer", "minimum": 1, "maximum": 9},
            {"type": "integer", "minimum": 1, "maximum": 9},
            False,
        ),
        ({"type": ["null", "string"]}, {"type": "string", "nullable": True}, False),
        (
            {"type": ["string", "integer"], "description": "d"},
            {"description": "d", "anyOf": [{"type": "string"}, {"type": "integer"}]},
            False,
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}, False),
        ({"const": 3}, {"type": "number", "description": "One of: 3"}, False),
        ({"const": True}, {"type": "boolean", "description": "One of: true"}, False),
        ({"enum": ["a", "", None, "a"]}, {"type": "string", "enum": ["a"], "nullable": True}, False),
        (
            {"type": "integer", "enum": [1, 2], "description": "d"},
            {"type": "integer", "description": "d\nOne of: 1, 2"},
            False,
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}, False),
        ({"anyOf": [{"type": "null"}]}, {"type": "string", "nullable": True}, False),
        (
            {"oneOf": [{"type": "string"}, {"type": "boolean"}], "description": "d"},
            {"description": "d", "anyOf": [{"type": "string"}, {"type": "boolean"}]},
            False,
        ),
        (
            {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxLength": 3},
            {"type": "array", "minItems": 1, "items": {"type": "number"}},
            False,
        ),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}, True),
        (
            {"items": [{"type": "number"}, {"type": "boolean"}]},
            {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "boolean"}]}},
            True,
        ),
        ({"prefixItems": [{"type": "number"}]}, {"type": "array", "items": {"type": "number"}}, True),
        (
            {"type": "string", "pattern": "^a", "minLength": 2},
            {"type": "string", "minLength": 2, "pattern": "^a"},
            False,
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}, False),
        ({"patternProperties": {}, "properties": {}}, {"type": "object"}, True),
        ({}, {"type": "string"}, True),
        ({"type": "strange", "format": ["x"], "enum": 3, "required": 1}, {"type": "string"}, True),
    ],
)
def test_a_schema_is_reduced_to_what_gemini_accepts(schema: Any, expected: Any, changed: bool) -> None:
    cleaned = CleanedSchema(schema)
    assert (cleaned.schema, cleaned.changed, cleaned.cut) == (expected, changed, False)


def test_properties_named_like_keywords_are_kept() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "x",
        "type": "object",
        "properties": {
            "$id": {"type": "string", "default": "y"},
            "format": {"$ref": "#/$defs/kind", "description": "which"},
            "tree": {"$ref": "#/$defs/tree"},
        },
        "required": ["$id", "gone", "$id", 3],
        "additionalProperties": False,
        "$defs": {
            "kind": {"type": "string", "enum": ["a", "b"]},
            "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}},
        },
    }
    cleaned = CleanedSchema(schema)
    assert cleaned.cut
    assert cleaned.schema == {
        "type": "object",
        "properties": {
            "$id": {"type": "string"},
            "format": {"type": "string", "enum": ["a", "b"], "description": "which"},
            "tree": {"type": "object", "properties": {"left": {"type": "string"}}},
        },
        "required": ["$id"],
    }
    result = rendered({"tools": [{**WEATHER, "parameters": schema}]})
    assert {"schema_cut", "schema_changed"} == codes(result)


def test_variants_of_an_object_are_merged() -> None:
    variants = [
        {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a"]},
    ]
    for keyword in ("anyOf", "oneOf"):
        cleaned = CleanedSchema(
            {"type": "object", keyword: variants, "required": ["d"], "properties": {"d": {"type": "null"}}}
        )
        assert set(cleaned.schema["properties"]) == {"a", "b", "c", "d"}
        assert set(cleaned.schema["required"]) == {"a", "d"}
        assert cleaned.changed
    joined = CleanedSchema(
        {"allOf": [*variants, {"description": "d", "allOf": [{"minimum": 1}]}], "type": "object"}
    )
    assert set(joined.schema["properties"]) == {"a", "b", "c"}
    assert joined.schema["required"] == ["a", "b"]
    assert joined.schema["description"] == "d"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "object", "null", "#", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "oneOf",
                    "allOf",
                    "enum",
                    "const",
                    "$ref",
                    "required",
                    "format",
                    "a",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    schema=st.dictionaries(
        st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "$ref", "enum"]), _json
    )
)
@settings(max_examples=examples(100), deadline=None)
def test_any_schema_becomes_one_that_gemini_accepts(schema: dict[str, Any]) -> None:
    def check(cleaned: dict[str, Any]) -> None:
        assert cleaned.keys() <= {
            *(
                "type",
                "anyOf",
                "nullable",
                "description",
                "enum",
                "format",
                "properties",
                "required",
                "items",
            ),
        }
        assert ("type" in cleaned) != ("anyOf" in cleaned)
        if cleaned.get("type") == "array":
            check(cleaned["items"])
        for inner in (*cleaned.get("properties", {}).values(), *cleaned.get("anyOf", [])):
            check(inner)
        assert set(cleaned.get("required", [])) <= set(cleaned.get("properties", {}))

    check(CleanedSchema(schema).schema)
