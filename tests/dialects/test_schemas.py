"""Inlining references and removing keywords in JSON schemas."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.schemas import DEPTH, SIZE, SchemaBudget, inlined, without

POINT = {"type": "object", "properties": {"x": {"type": "number"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {"properties": {"a": {"$ref": "#/$defs/Point"}}, "$defs": {"Point": POINT}},
            {"properties": {"a": POINT}},
            id="a definition",
        ),
        pytest.param(
            {"items": {"$ref": "#/definitions/a~1b%20c"}, "definitions": {"a/b c": POINT}},
            {"items": POINT},
            id="an escaped name",
        ),
        pytest.param(
            {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": POINT}},
            POINT,
            id="a chain from the root",
        ),
        pytest.param(
            {"anyOf": [POINT, {"$ref": "#/anyOf/0", "description": "Again."}]},
            {"anyOf": [POINT, {**POINT, "description": "Again."}]},
            id="an index, with a keyword next to the reference",
        ),
        pytest.param(
            {
                "properties": {"$ref": {"type": "string"}, "$defs": {"$ref": "#/$defs/P"}},
                "$defs": {"P": POINT},
            },
            {"properties": {"$ref": {"type": "string"}, "$defs": POINT}},
            id="properties called like keywords",
        ),
        pytest.param(
            {"enum": [{"$ref": "#/no"}], "default": {"$ref": "#/no"}, "const": {"$defs": 1}},
            {"enum": [{"$ref": "#/no"}], "default": {"$ref": "#/no"}, "const": {"$defs": 1}},
            id="data that looks like references",
        ),
        pytest.param(
            {"items": [True, {"$ref": "#/$defs/P"}], "additionalProperties": False, "$defs": {"P": POINT}},
            {"items": [True, POINT], "additionalProperties": False},
            id="true and false as schemas",
        ),
    ],
)
def test_local_references_are_inlined(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    before = deepcopy(schema)
    assert inlined(schema) == (expected, False)
    assert schema == before


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"$ref": "#"}, {}, id="itself"),
        pytest.param(
            {"properties": {"next": {"$ref": "#", "description": "More."}}},
            {
                "properties": {
                    "next": {"properties": {"next": {"description": "More."}}, "description": "More."}
                }
            },
            id="a list",
        ),
        pytest.param({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, {}, id="a loop"),
        pytest.param({"items": {"$ref": "https://example.org/a"}}, {"items": {}}, id="another document"),
        pytest.param({"items": {"$ref": "#/$defs/Gone"}}, {"items": {}}, id="nowhere"),
        pytest.param({"anyOf": [{"$ref": "#/anyOf/7"}]}, {"anyOf": [{}]}, id="after the end"),
        pytest.param(
            {"items": {"$ref": "#/type"}, "type": "array"}, {"items": {}, "type": "array"}, id="no schema"
        ),
    ],
)
def test_a_reference_that_cannot_be_inlined_is_cut_and_reported(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert inlined(schema) == (expected, True)


def test_definitions_that_double_each_other_stay_bounded() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 40):
        reference = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"properties": {"a": reference, "b": reference}}
    whole, cut = inlined({"$ref": "#/$defs/d39", "$defs": definitions})
    assert cut
    assert str(whole).count("properties") <= SIZE


def test_a_very_deep_schema_is_cut() -> None:
    deep: dict[str, Any] = {"secret": 1}
    for _ in range(DEPTH * 3):
        deep = {"items": deep}
    assert inlined(deep)[1]
    assert "secret" not in str(without(deep, frozenset({"format"})))


def test_keywords_are_removed_at_every_level_but_property_names_stay() -> None:
    schema = {
        "$schema": "x",
        "properties": {"format": {"type": "string", "format": "uri"}, "$id": {"$id": "x", "type": "string"}},
        "anyOf": [{"format": "date", "type": "string"}],
        "additionalProperties": {"format": "date"},
        "default": {"format": "date"},
        "required": ["format", "$id"],
    }
    before = deepcopy(schema)
    assert without(schema, frozenset({"$schema", "format", "$id"})) == {
        "properties": {"format": {"type": "string"}, "$id": {"type": "string"}},
        "anyOf": [{"type": "string"}],
        "additionalProperties": {},
        "default": {"format": "date"},
        "required": ["format", "$id"],
    }
    assert schema == before


_words = st.sampled_from(
    [
        "$ref",
        "$defs",
        "properties",
        "items",
        "anyOf",
        "not",
        "enum",
        "type",
        "a",
        "#",
        "#/$defs/a",
        "#/properties/a",
    ]
)
_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), _words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_words, inner, max_size=4)),
    max_leaves=20,
)


@settings(max_examples=60)
@given(st.dictionaries(_words, _values, max_size=5))
def test_any_object_can_be_inlined_and_stripped(schema: dict[str, Any]) -> None:
    before = deepcopy(schema)
    whole, _ = inlined(schema)
    assert inlined(whole) == (whole, False)
    lean = without(schema, frozenset({"enum", "type"}))
    assert without(lean, frozenset({"enum", "type"})) == lean
    assert schema == before


def test_schemas_of_one_request_share_the_budget() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/P"}}, "$defs": {"P": POINT}}
    budget = SchemaBudget()
    budget.bytes = 100  # enough for one copy of POINT
    assert inlined(schema, budget) == ({"properties": {"a": POINT}}, False)
    assert inlined(schema, budget) == ({"properties": {"a": {}}}, True)
    assert budget.is_used_up


def test_a_reference_to_a_schema_that_is_too_deep_to_encode_is_cut() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    schema = {"properties": {"a": {"$ref": "#/$defs/Deep", "description": "D"}}, "$defs": {"Deep": deep}}
    assert inlined(schema) == ({"properties": {"a": {"description": "D"}}}, True)
