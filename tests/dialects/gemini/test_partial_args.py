"""Arguments that arrive as values at JSON paths (quirk G5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.partial_args import PartialArguments, path_of
from penstock.sse import Frame
from penstock.stream.deltas import (
    ToolCallDelta,
)
from tests.dialects.gemini.streams import END, NAME, calls_of, chunk, piece
from tests.dialects.recording_checks import (
    plan,
    response,
)
from tests.effort import examples

STREAMED: list[tuple[str, list[dict[str, Any]], str]] = [
    ("a string in pieces", [piece("$.a", stringValue="x"), piece("$.a", stringValue='"y')], '{"a":"x\\"y"}'),
    ("two fields", [piece("$.a", stringValue="x"), piece("$.b", numberValue=1.5)], '{"a":"x","b":1.5}'),
    ("every kind", [piece("$.a", boolValue=True), piece("$.b", nullValue=None)], '{"a":true,"b":null}'),
    (
        "nested",
        [
            piece("$.r.i[0].n", stringValue="x"),
            piece("$.r.i[0].m", numberValue=1),
            piece("$.r.i[1].n", stringValue="y"),
            piece("$.r.s[0]", stringValue="z"),
        ],
        '{"r":{"i":[{"n":"x","m":1},{"n":"y"}],"s":["z"]}}',
    ),
    ("quoted names", [piece("$['a b'][\"c.d\"]", numberValue=1)], '{"a b":{"c.d":1}}'),
    (
        "an array in an array",
        [piece("$.a[0][0]", numberValue=1), piece("$.a[1][0]", numberValue=2)],
        '{"a":[[1],[2]]}',
    ),
    ("nothing", [{"functionCall": {"willContinue": True}}], "{}"),
    ("a path without a value", [piece("$.a")], "{}"),
    (
        "a place that was left before",
        [piece("$.a.x", stringValue="1"), piece("$.b", numberValue=1), piece("$.a.x", stringValue="2")],
        '{"a":{"x":"1"},"b":1,"a":{"x":"12"}}',
    ),
    (
        "an array from its end",
        [piece("$.a[1]", numberValue=2), piece("$.a[0]", numberValue=1), piece("$.b", boolValue=False)],
        '{"b":false,"a":[1,2]}',
    ),
    (
        "a value that becomes an object",
        [piece("$.a", numberValue=2), piece("$.a.b", stringValue="x"), piece("$.a.c", numberValue=1)],
        '{"a":2,"a":{"b":"x","c":1}}',
    ),
    ("a value that changes", [piece("$.a", numberValue=2), piece("$.a", numberValue=3)], '{"a":2,"a":3}'),
    (
        "an object with names and indexes",
        [piece("$.a.b", numberValue=2), piece("$.a[0]", numberValue=3)],
        '{"a":{"b":2},"a":{"b":2,"0":3}}',
    ),
]


@pytest.mark.parametrize(
    ("pieces", "expected"), [row[1:] for row in STREAMED], ids=[row[0] for row in STREAMED]
)
@pytest.mark.parametrize("ending", ["marked", "unmarked"])
def test_partial_arguments_become_json(pieces: list[dict[str, Any]], expected: str, ending: str) -> None:
    chunks = [chunk(NAME), *(chunk(each) for each in pieces)]
    if ending == "marked":
        chunks.append(chunk(END))
    assert calls_of(response(DIALECT, [*chunks, chunk(finish="STOP")])) == [("f", expected)]


def test_streamed_arguments_are_sent_as_they_arrive() -> None:
    reader = DIALECT.reader(plan("gemini"))
    deltas = [
        delta
        for part in (NAME, piece("$.a", stringValue="x"), piece("$.a", stringValue="y"), END)
        for delta in reader.feed(Frame(None, json.dumps(chunk(part))))
    ]
    sent = [delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert sent == [None, '{"a":"x', "y", '"}', None]


@pytest.mark.parametrize("path", ["", "$", "$[0]", "$.a[", "$.a[x]", "$" + ".a" * 101, None])
def test_an_invalid_path_is_reported(path: Any) -> None:
    parts: list[dict[str, Any]] = [NAME, piece(path, stringValue="x"), END]
    snapshot = response(DIALECT, [chunk(*parts, finish="STOP")])
    assert calls_of(snapshot) == [("f", "{}")]
    assert [each["code"] for each in snapshot["diagnostics"]] == ["undeclared_tool", "left_out"]


LEAVES = st.sampled_from(
    [{"stringValue": "x"}, {"stringValue": "é\n"}, {"numberValue": 1}, {"boolValue": False}]
)


STEPS = st.lists(st.sampled_from([".a", ".b", "[0]", "[1]", "[2]", "['c d']"]), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["$.a", "$.b", "$.c"]), STEPS, LEAVES), max_size=8))
@settings(max_examples=examples(150), deadline=None)
def test_arguments_in_any_order_form_one_object(pieces: list[tuple[str, list[str], dict[str, Any]]]) -> None:
    """In any order, the text is JSON and contains all values."""
    writer = PartialArguments()
    text = "".join(writer.add({"jsonPath": root + "".join(steps), **leaf}) for root, steps, leaf in pieces)
    text += writer.close()
    parsed = json.loads(text or "{}")
    assert parsed.keys() == {root[-1] for root, *_ in pieces}
    if not writer.rewritten:
        expected: dict[Any, Any] = {}
        for root, steps, leaf in pieces:
            path, value = path_of(root + "".join(steps)), next(iter(leaf.values()))
            expected[path] = expected[path] + value if path in expected else value
        assert dict(leaves(parsed)) == expected
        json.loads(text or "{}", object_pairs_hook=_without_repeats)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value that is not an object or an array, with its path."""
    if not isinstance(value, dict | list):
        yield path, value
    else:
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, step))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("$.a", ("a",)),
        ("a.b", ("a", "b")),
        ("$.a[0].b", ("a", 0, "b")),
        ("$['a.b'][\"c d\"][12]", ("a.b", "c d", 12)),
        ("$['']", ("",)),
        ("$.a.", None),
        ("$..a", None),
        ("$[0].a", None),
        ("$.a[-1]", None),
        ("$.a[1234567890]", None),
        ("$['a]", None),
        ("$", None),
        ("", None),
    ],
)
def test_a_path_is_split_into_steps(text: str, path: Any) -> None:
    assert path_of(text) == path


def test_a_field_that_was_already_written_is_written_again_at_the_end() -> None:
    arguments = PartialArguments()
    assert arguments.add({"jsonPath": "$.a", "stringValue": "x"}) == '{"a":"x'
    assert arguments.add({"jsonPath": "$.b", "numberValue": 1}) == '","b":1'
    assert arguments.add({"jsonPath": "$.a", "stringValue": "y"}) == ""
    assert list(arguments.rewritten) == ["a"]
    assert arguments.close() == ',"a":"xy"}'


def test_an_invalid_path_is_recorded_and_skipped() -> None:
    arguments = PartialArguments()
    assert arguments.add({"jsonPath": "$[0]", "stringValue": "x"}) == ""
    assert arguments.add({"jsonPath": "$.a"}) == ""
    assert arguments.invalid_paths == ["$[0]"]
    assert arguments.close() == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": ""}, '""'),
        ({"boolValue": False}, "false"),
        ({"numberValue": 0}, "0"),
        ({"nullValue": None}, "null"),
        ({"null_value": "NULL_VALUE"}, "null"),
        ({"number_value": 1.5}, "1.5"),
    ],
)
def test_values_that_are_false_are_values(value: dict[str, Any], expected: str) -> None:
    arguments = PartialArguments()
    text = arguments.add({"json_path": "$.a", **value}) + arguments.close()
    assert text == f'{{"a":{expected}}}'
