"""JSON schemas for Anthropic."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.anthropic.schema import enforceable, tool_schema
from tests.dialects.anthropic.rendered_requests import body, rendered
from tests.dialects.render_cases import (
    WEATHER,
    codes,
)


def test_an_accepted_schema_is_unchanged() -> None:
    schema = {
        "type": "object",
        "$defs": {"a": {"type": "string"}},
        "properties": {"$id": {"$ref": "#/$defs/a"}, "b": {"type": ["null", "string"], "minLength": 1}},
        "additionalProperties": False,
    }
    assert tool_schema(schema) == (schema, False)
    assert body({"tools": [{**WEATHER, "parameters": schema}]})["tools"][0]["input_schema"] == schema


def test_the_root_of_a_schema_becomes_a_plain_object() -> None:
    variants = [
        {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "integer"}, "c": {}}, "required": ["a", "c"]},
    ]
    changed, is_changed = tool_schema({"type": "object", "anyOf": variants, "description": "d"})
    assert is_changed
    assert changed == {
        "type": "object",
        "description": "d",
        "properties": {"a": {"type": "integer"}, "b": {}, "c": {}} | {"a": changed["properties"]["a"]},
        "required": ["a"],
    }
    both, _ = tool_schema({"allOf": variants, "properties": {"d": {}}, "required": ["d"]})
    assert set(both["required"]) == {"a", "b", "c", "d"}
    pointed, _ = tool_schema({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"e": {}}}}})
    assert pointed == {"type": "object", "properties": {"e": {}}, "required": []}
    result = rendered({"tools": [{**WEATHER, "parameters": {"oneOf": variants}}]})
    assert "schema_changed" in codes(result)


@pytest.mark.parametrize(
    "odd", [{"anyOf": 5}, {"allOf": [1, {"required": 3}]}, {"type": "array"}, {"oneOf": {}}]
)
def test_a_malformed_schema_becomes_a_plain_object(odd: dict[str, Any]) -> None:
    assert tool_schema(odd)[0]["type"] == "object"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer", "minimum": 3}, {"type": "integer"}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        ({"type": "string", "format": "phone"}, {"type": "string"}),
        ({"oneOf": [{"const": 1}, {"type": "null"}]}, {"anyOf": [{"const": 1}, {"type": "null"}]}),
        ({"type": "array", "items": {"enum": ["a"]}}, {"type": "array", "items": {"enum": ["a"]}}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"type": "null"}}}}},
            {"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": False},
        ),
    ],
)
def test_an_enforceable_schema_is_closed_and_reduced(schema: Any, expected: Any) -> None:
    assert enforceable(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array", "items": [{"type": "string"}]},
        {"anyOf": [{}]},
        {"anyOf": 5},
        {"not": {"type": "string"}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "string", "format": ["x"], "if": {}},
    ],
)
def test_a_schema_that_a_grammar_cannot_express_is_not_enforceable(schema: Any) -> None:
    assert enforceable(schema) is None
