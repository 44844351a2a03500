"""Values that the demo model makes for JSON schemas."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.demo.hints import DEFAULT_COMMAND, Hints
from penstock.demo.schema import make
from tests.effort import examples

PROMPT = (
    'What is the weather in San Francisco, CA for 3 days? unit: celsius. Say "hello" to ada@example.com, see '
    "https://example.org/a?b=1 and src/main.py; run `ls -la`. It is 2026-02-03."
)
HINTS = Hints(PROMPT)

POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x"],
}

SCHEMAS: dict[str, Any] = {
    "nothing": {},
    "an object without properties": {"type": "object"},
    "a definition": {"properties": {"a": {"$ref": "#/$defs/P"}}, "required": ["a"], "$defs": {"P": POINT}},
    "an escaped name": {
        "type": "array",
        "minItems": 1,
        "items": {"$ref": "#/definitions/a~1b%20c"},
        "definitions": {"a/b c": POINT},
    },
    "a chain of references": {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": POINT}},
    "a reference with a keyword next to it": {
        "$ref": "#/$defs/P",
        "required": ["y"],
        "$defs": {"P": POINT},
    },
    "a list that leads back into itself": {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["value", "next"],
        "additionalProperties": False,
    },
    "a tree": {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["name", "children"],
            }
        },
    },
    "nullable": {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["null", "integer"]}},
        "required": ["a", "b"],
    },
    "anyOf": {"anyOf": [{"type": "string", "maxLength": 0}, {"type": "integer", "minimum": 7}]},
    "anyOf of one type": {
        "anyOf": [{"type": "string", "pattern": "^\\d{9}$"}, {"type": "string", "format": "date-time"}]
    },
    "oneOf with branches that overlap": {
        "oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5, "minimum": 1}]
    },
    "oneOf by a discriminator": {
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "a": {"type": "string"}}, "required": ["kind", "a"]},
            {"properties": {"kind": {"const": "b"}, "b": {"type": "string"}}, "required": ["kind", "b"]},
        ]
    },
    "allOf": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5}}, "required": ["a"]},
            {
                "properties": {"a": {"type": "number", "maximum": 6}, "b": {"type": "string"}},
                "required": ["b"],
            },
            {"anyOf": [{"required": ["c"]}, {"required": ["d"]}]},
        ]
    },
    "a tuple": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "number"}],
        "items": False,
        "minItems": 2,
    },
    "a tuple, as it was": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "string"}, {"type": "number"}],
        "additionalItems": False,
        "minItems": 2,
    },
    "items that differ": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 5},
    "patterns that differ": {
        "type": "array",
        "items": {"type": "string", "pattern": "^[a-z]{3}$"},
        "uniqueItems": True,
        "minItems": 4,
    },
    "enums that differ": {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3},
    "any names": {"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}},
    "a name that nothing describes": {"type": "object", "required": ["mystery"]},
    "a number between": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
    "a multiple": {"type": "number", "multipleOf": 0.1, "minimum": 3.05, "maximum": 3.2},
    "a large multiple": {"type": "integer", "multipleOf": 64, "minimum": 1000, "maximum": 1060},
    "a negative number": {"type": "integer", "maximum": -10},
    "a draft 4 bound": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "integer",
        "minimum": 3,
        "exclusiveMinimum": True,
        "maximum": 4,
    },
    "a long text": {"type": "string", "minLength": 300, "maxLength": 310},
    "a short text": {"type": "string", "maxLength": 2},
    "a pattern with a length": {"type": "string", "pattern": "^[A-Z]+-\\d+$", "minLength": 12},
    "an enum that refuses the default": {"enum": ["a", "b"], "default": "c"},
    "no type, but bounds": {"minimum": 10, "maximum": 12},
    "true": {"properties": {"a": True}, "required": ["a"]},
}

UNSUPPORTED: dict[str, Any] = {
    "if": {
        "type": "object",
        "properties": {"kind": {"enum": ["file", "folder"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "file"}}},
        "then": {"properties": {"size": {"type": "integer"}}, "required": ["size"]},
        "else": {"properties": {"count": {"type": "integer"}}, "required": ["count"]},
    },
    "not": {"type": "string", "not": {"enum": ["hello", "demo"]}},
    "contains": {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}, "minItems": 3},
    "names by a pattern": {
        "type": "object",
        "minProperties": 2,
        "patternProperties": {"^x-": {"type": "integer"}},
        "additionalProperties": False,
    },
    "names of a kind": {
        "type": "object",
        "minProperties": 2,
        "propertyNames": {"pattern": "^[A-Z]+$"},
        "additionalProperties": {"type": "boolean"},
    },
    "names that need others": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}},
        "required": ["a"],
        "dependentRequired": {"a": ["b"], "b": ["c"]},
    },
    "a pattern that must be padded": {"type": "string", "pattern": "cat", "minLength": 8},
}

TOOLS: dict[str, Any] = {
    "a file editor": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Absolute path"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}},
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
            "dryRun": {"type": "boolean", "default": False},
        },
        "required": ["path", "edits"],
        "additionalProperties": False,
    },
    "a shell": {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}},
            "workdir": {"type": "string"},
            "timeout_ms": {"type": "number"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    "a plan": {
        "type": "object",
        "properties": {
            "explanation": {"type": "string"},
            "plan": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "step": {"type": "string"},
                        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                    },
                    "required": ["step", "status"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["plan"],
        "additionalProperties": False,
    },
    "a graph": {
        "type": "object",
        "properties": {
            "entities": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "minLength": 1},
                        "entityType": {"type": "string"},
                        "observations": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["name", "entityType", "observations"],
                },
            }
        },
        "required": ["entities"],
    },
    "a calendar": {
        "type": "object",
        "properties": {
            "start": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "attendees": {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 2},
            "id": {"type": "string", "format": "uuid"},
            "colour": {"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"},
            "repeat": {
                "anyOf": [
                    {"type": "null"},
                    {
                        "type": "object",
                        "properties": {"every": {"$ref": "#/$defs/Unit"}},
                        "required": ["every"],
                    },
                ]
            },
        },
        "required": ["start", "day", "attendees", "id", "colour", "repeat"],
        "additionalProperties": False,
        "$defs": {"Unit": {"type": "string", "enum": ["day", "week"]}},
    },
    "a structured answer": {
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}, "title": "Steps"},
            "final_answer": {"type": "string", "title": "Final Answer"},
            "confidence": {"anyOf": [{"type": "number"}, {"type": "null"}], "title": "Confidence"},
        },
        "required": ["steps", "final_answer", "confidence"],
        "additionalProperties": False,
        "$defs": {
            "Step": {
                "type": "object",
                "properties": {"explanation": {"type": "string"}, "output": {"type": "string"}},
                "required": ["explanation", "output"],
                "additionalProperties": False,
            }
        },
    },
}


@pytest.mark.parametrize("name", [*SCHEMAS, *TOOLS])
@pytest.mark.parametrize("prompt", [PROMPT, "", "0"], ids=["a rich prompt", "no prompt", "a zero"])
def test_a_made_value_matches_its_schema(name: str, prompt: str) -> None:
    schema = (SCHEMAS | TOOLS)[name]
    before = deepcopy(schema)
    made = make(schema, Hints(prompt))
    assert not made.problem
    assert jsonschema_rs.is_valid(schema, made.value, validate_formats=True), made.value
    assert schema == before


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_keyword_that_is_not_supported_is_reported(name: str) -> None:
    assert "does not support" in make(UNSUPPORTED[name], HINTS).problem


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"city": {"type": "string"}}, "San Francisco, CA"),
        ({"days": {"type": "integer"}}, 3),
        ({"days": {"type": "integer", "maximum": 2}}, 1),
        ({"unit": {"enum": ["fahrenheit", "celsius"]}}, "celsius"),
        ({"unit": {"type": "string"}}, "celsius"),
        ({"email": {"type": "string"}}, "ada@example.com"),
        ({"to": {"type": "string", "format": "email"}}, "ada@example.com"),
        ({"page_url": {"type": "string", "format": "uri"}}, "https://example.org/a?b=1"),
        ({"filePath": {"type": "string"}}, "src/main.py"),
        ({"command": {"type": "string"}}, "ls -la"),
        ({"command": {"type": "array", "items": {"type": "string"}}}, ["ls", "-la"]),
        ({"greeting": {"type": "string"}}, "hello"),
        ({"due": {"type": "string", "format": "date"}}, "2026-02-03"),
        ({"mood": {"type": "string", "default": "calm"}}, "calm"),
    ],
)
def test_the_prompt_fills_the_fields_it_mentions(schema: dict[str, Any], expected: Any) -> None:
    name = next(iter(schema))
    made = make({"type": "object", "properties": schema, "required": [name]}, HINTS)
    assert made.value == {name: expected}


def test_an_optional_property_is_given_when_the_prompt_names_it() -> None:
    schema = {"type": "object", "properties": {"days": {"type": "integer"}, "hours": {"type": "integer"}}}
    assert make(schema, HINTS).value == {"days": 3}


def test_the_default_command_is_harmless() -> None:
    """Clients run the command, and a prompt that names the tool is not a command."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    assert make(schema, Hints("use the shell to delete everything")).value == {"command": DEFAULT_COMMAND}


def test_an_example_in_the_description_is_used() -> None:
    schema = {"type": "string", "description": "The name of a river, e.g. Rhine or Danube."}
    assert make(schema, Hints("")).value == "Rhine or Danube"


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(False, id="false"),
        pytest.param({"type": "integer", "minimum": 5, "maximum": 4}, id="no number"),
        pytest.param({"type": "string", "pattern": "(?=a)b"}, id="a pattern that is not understood"),
        pytest.param({"type": "array", "minItems": 10**9, "items": {"type": "null"}}, id="too many items"),
        pytest.param({"type": "string", "minLength": 10**9}, id="too long"),
        pytest.param(
            {
                "$ref": "#/$defs/A",
                "$defs": {
                    "A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}
                },
            },
            id="an endless object",
        ),
    ],
)
def test_a_value_that_cannot_be_made_is_reported(schema: Any) -> None:
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"], **_definitions(schema)}
    assert make(whole, HINTS).problem


def _definitions(schema: Any) -> dict[str, Any]:
    return {"$defs": schema["$defs"]} if isinstance(schema, dict) and "$defs" in schema else {}


@pytest.mark.parametrize("dead_end", [False, {"not": {}}, {"enum": [1], "type": "string"}], ids=str)
def test_the_work_for_a_hostile_schema_is_bounded(dead_end: Any) -> None:
    """Nested choices and patterns that backtrack are limited by a budget, not by a clock."""
    choice: Any = {"type": "string", "pattern": "^((((a*)*)*)*)*b$"}
    for _ in range(40):
        choice = {"anyOf": [dead_end, choice, choice]}
    schema = {
        "type": "object",
        "properties": {f"p{number}": choice for number in range(200)},
        "required": [f"p{number}" for number in range(200)],
    }
    assert isinstance(make(schema, HINTS).value, dict)


def test_a_recursion_is_cut_off_early() -> None:
    """Two levels are enough to show a tree."""
    node = {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
    schema = {
        "type": "object",
        "properties": {"left": node, "right": node},
        "required": ["left", "right"],
    }
    leaf = {"left": None, "right": None}
    assert make(schema, HINTS).value == {"left": leaf, "right": leaf}


def test_definitions_that_double_each_other_stay_bounded() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 40):
        inner = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"properties": {"a": inner, "b": inner}, "required": ["a", "b"]}
    make({"$ref": "#/$defs/d39", "$defs": definitions}, HINTS)


# -- for every schema


_names = st.sampled_from(["city", "days", "name", "url", "command", "note", "x-y", "id"])
_texts = st.builds(
    lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
    st.integers(0, 40),
    st.integers(0, 40),
)
_formats = st.builds(
    lambda name: {"type": "string", "format": name},
    st.sampled_from(
        ["date-time", "date", "time", "email", "uri", "uuid", "ipv4", "ipv6", "hostname", "duration"]
    ),
)
_patterned = st.builds(
    lambda pattern: {"type": "string", "pattern": pattern},
    st.sampled_from(
        [
            "^[A-Z]{2,5}$",
            r"^\d{3}-\d{4}$",
            r"^(foo|bar)(-\w+)?$",
            "x+y",
            r"^v?\d+\.\d+\.\d+$",
            r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$",
            "^$",
            r"^[\u00e0-\u00ff]+$",
        ]
    ),
)
_integers = st.builds(
    lambda low, more, step: {
        "type": "integer",
        "minimum": low,
        "maximum": low + more + step,
        "multipleOf": step,
    },
    st.integers(-1000, 1000),
    st.integers(0, 100),
    st.integers(1, 20),
)
_numbers = st.builds(
    lambda low, more: {"type": "number", "exclusiveMinimum": low, "maximum": low + more},
    st.integers(-1000, 1000),
    st.integers(1, 100),
)
_values = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=5))
_leaves: st.SearchStrategy[Any] = st.one_of(
    _texts,
    _formats,
    _patterned,
    _integers,
    _numbers,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, {"type": ["string", "null"]}]),
    st.builds(lambda values: {"enum": values}, st.lists(_values, min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, _values),
    st.just({"$ref": "#/$defs/Shared"}),
    st.just({"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
)


def _object(properties: dict[str, Any], all_required: bool, closed: bool) -> dict[str, Any]:
    required = list(properties) if all_required else list(properties)[::2]
    more = {"additionalProperties": False} if closed else {}
    return {"type": "object", "properties": properties, "required": required, **more}


def _composites(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(_object, st.dictionaries(_names, inner, max_size=4), st.booleans(), st.booleans()),
        st.builds(
            lambda items, low, more: {
                "type": "array",
                "items": items,
                "minItems": low,
                "maxItems": low + more,
            },
            inner,
            st.integers(0, 3),
            st.integers(0, 3),
        ),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda one, other: {
                "allOf": [{"properties": {"a": one}, "required": ["a"]}, _object({"b": other}, True, False)]
            },
            inner,
            inner,
        ),
    )


_schemas = st.builds(
    lambda properties, shared: {**_object(properties, True, True), "$defs": {"Shared": shared}},
    st.dictionaries(_names, st.recursive(_leaves, _composites, max_leaves=8), max_size=4),
    st.one_of(_texts, _integers, st.just({"enum": ["red", "green"]})),
)
_prompts = st.one_of(st.sampled_from([PROMPT, "", "7"]), st.text(max_size=60))


_TREE = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "minItems": 3, "maxItems": 3}


@example(_object({"city": _TREE, "days": {**_TREE, "items": _TREE}}, True, True), PROMPT)
@settings(max_examples=examples(300), deadline=None)
@given(_schemas, _prompts)
def test_every_supported_schema_gets_a_matching_value(schema: dict[str, Any], prompt: str) -> None:
    made = make(schema, Hints(prompt))
    assert not made.problem
    assert jsonschema_rs.is_valid(schema, made.value, validate_formats=True), made.value


_KEYWORDS = """
$ref $defs properties items anyOf oneOf allOf not if then else enum const type required minItems maxItems
pattern minLength minimum multipleOf exclusiveMinimum additionalProperties patternProperties propertyNames
contains uniqueItems prefixItems minProperties dependentRequired examples default format # #/$defs/a
#/properties/a string object array integer number null boolean a (a|b)* [ ^x$
"""
_words = st.sampled_from(_KEYWORDS.split())
_rubbish: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_values, _words, st.floats(allow_nan=False, allow_infinity=False), st.integers()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_words, inner, max_size=4)),
    max_leaves=20,
)


@example({"minimum": 1e28})
@example({"minimum": 1e308, "multipleOf": 5e-324})
@settings(max_examples=examples(300), deadline=None)
@given(st.dictionaries(_words, _rubbish, max_size=6))
def test_any_object_is_accepted_as_a_schema(schema: dict[str, Any]) -> None:
    before = deepcopy(schema)
    first, second = make(schema, HINTS), make(schema, HINTS)
    assert first == second
    assert schema == before
