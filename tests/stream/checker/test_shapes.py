"""The tables of shapes agree with the published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.stream.checker.shapes import ITEM, PART, RESOURCE, Shape, faults
from tests.stream import lawful
from tests.stream.checker.broken_streams import LOGPROB
from tests.stream.lawful import Event

ROOT = Path(__file__).parents[3]
SPEC = ROOT.parent / "shared" / "spec" / "openapi-2026-04-24.json"
WRONG: list[Any] = [None, True, 7, 1.5, "wrong", [], {}, ["wrong"], {"type": "wrong"}]


def _variants(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Yield `value` with one thing in it replaced or removed, and its path."""
    made: list[tuple[tuple[Any, ...], Any]] = [(path, wrong) for wrong in WRONG] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            rest = {other: value[other] for other in value if other != key}
            made.append(((*path, key), rest))
            for where, changed in _variants(inner, (*path, key)):
                made.append((where, {**value, key: changed}))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for where, changed in _variants(inner, (*path, index)):
                made.append((where, [*value[:index], changed, *value[index + 1 :]]))
    return made


SCHEMA_FORMAT: Event = {
    "type": "json_schema",
    "name": "a",
    "description": None,
    "schema": None,
    "strict": True,
}
SAMPLES: list[tuple[str, Shape, Event]] = [
    ("ResponseResource", RESOURCE, lawful.snapshot("completed", [])),
    ("ResponseResource", RESOURCE, lawful.snapshot("failed", [])),
    ("ResponseResource", RESOURCE, lawful.snapshot("incomplete", [])),
    ("ResponseResource", RESOURCE, lawful.snapshot("in_progress", []) | {"text": {"format": SCHEMA_FORMAT}}),
    (
        "ResponseResource",
        RESOURCE,
        lawful.snapshot("in_progress", [])
        | {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
    ),
    (
        "ResponseResource",
        RESOURCE,
        lawful.snapshot("in_progress", [])
        | {"tool_choice": {"type": "allowed_tools", "tools": [], "mode": "auto"}},
    ),
    (
        "ItemField",
        ITEM,
        {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [],
            "phase": "commentary",
        },
    ),
    (
        "ItemField",
        ITEM,
        {
            "type": "function_call",
            "id": "f",
            "status": "completed",
            "call_id": "c",
            "name": "n",
            "arguments": "",
        },
    ),
    (
        "ItemField",
        ITEM,
        {"type": "function_call_output", "id": "f", "status": "completed", "call_id": "c", "output": ""},
    ),
    (
        "ItemField",
        ITEM,
        {
            "type": "reasoning",
            "id": "r",
            "status": "completed",
            "summary": [],
            "content": [],
            "encrypted_content": "x",
        },
    ),
    ("ItemField", ITEM, {"type": "compaction", "id": "c", "status": "completed", "encrypted_content": "x"}),
    (
        "OutputTextContent",
        PART,
        {"type": "output_text", "text": "", "annotations": [lawful.CITATION], "logprobs": [LOGPROB]},
    ),
    ("RefusalContent", PART, {"type": "refusal", "refusal": ""}),
    ("ReasoningTextContent", PART, {"type": "reasoning_text", "text": ""}),
    ("SummaryTextContent", PART, {"type": "summary_text", "text": ""}),
]
# What other rules check, or the tables allow although the schema's union is closed.
ELSEWHERE = {
    "id": "item.id and lifecycle.response-id",
    "type": "name.item, part.type and name.annotation: types outside the schema may be lawful",
    "status": "item.added-status and item.done-status; required of every item (spec N60)",
    "role": "item.role",
    "output": "terminal.output and snapshot.output",
    "content": "part.fields, when the parts are opened and closed",
    "summary": "part.fields, when the parts are opened and closed",
    "usage": "usage.shape",
    "tools": "declared tools are echoed unchanged",
    "tool_choice": "the tool choice is echoed unchanged",
    "bytes": "numbers inside log probabilities are not checked",
}


def _is_checked_elsewhere(path: tuple[Any, ...]) -> bool:
    if path[:2] == ("text", "format"):
        return False
    if path[0] == "tools" and len(path) > 2:
        return bool(path[2] == "type")
    return path == ("annotations", 0) or bool(ELSEWHERE.keys() & set(path))


@pytest.mark.skipif(not SPEC.exists(), reason="the published OpenAPI file (../shared/spec) is not available")
@pytest.mark.parametrize(("name", "shape", "sample"), SAMPLES)
def test_the_tables_of_shapes_agree_with_the_published_schema(name: str, shape: Shape, sample: Event) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    document = json.loads(SPEC.read_text(encoding="utf-8"))
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid(sample)
    assert list(faults(sample, shape, "x")) == []
    for path, variant in _variants(sample):
        if _is_checked_elsewhere(path):
            continue
        assert validator.is_valid(variant) == (not list(faults(variant, shape, "x"))), (path, variant)


@pytest.mark.skipif(not SPEC.exists(), reason="the published OpenAPI file (../shared/spec) is not available")
def test_a_snapshot_has_as_many_fields_as_the_published_schema_requires() -> None:
    document = json.loads(SPEC.read_text(encoding="utf-8"))
    required = document["components"]["schemas"]["ResponseResource"]["required"]
    assert set(RESOURCE.fields) == set(required)
    assert len(required) == 31


RECORD = Shape(
    (dict,),
    fields={"name": Shape((str,), values=("a", "b"))},
    optional={"tags": Shape((list,), each=Shape((str,)))},
    choose=lambda value: Shape((dict,), fields={"size": Shape((int,))}) if value.get("name") == "b" else None,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "a"}, []),
        ({"name": "a", "unknown": None}, []),
        (None, ["x is null, expected an object"]),
        ({}, ["x has no `name`"]),
        ({"name": 1}, ["x.name is an integer, expected a string"]),
        ({"name": "c"}, ["x.name is 'c', expected one of a, b"]),
        ({"name": "a", "tags": None}, ["x.tags is null, expected an array"]),
        ({"name": "a", "tags": ["t", True]}, ["x.tags[1] is a boolean, expected a string"]),
        ({"name": "b"}, ["x has no `size`"]),
        ({"name": "b", "size": True}, ["x.size is a boolean, expected an integer"]),
        ({"name": "b", "size": {1}}, ["x.size is not a JSON value, expected an integer"]),
    ],
)
def test_a_fault_names_the_path_and_the_expected_type(value: Any, expected: list[str]) -> None:
    assert [fault.message for fault in faults(value, RECORD, "x")] == expected


def test_only_an_absent_field_counts_as_missing() -> None:
    absent, null = faults({}, RECORD, "x"), faults({"name": None}, RECORD, "x")
    assert [(fault.path, fault.missing) for fault in (*absent, *null)] == [
        ("x.name", True),
        ("x.name", False),
    ]
