"""Reading JSON and text that is almost valid."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import DecodeError
from penstock.lenient import (
    camel_field,
    count_of,
    has_surrogates,
    is_json,
    join_surrogates,
    join_surrogates_in,
    object_of,
    objects_of,
    parse_json,
    parse_with_surrogates,
    read_json,
    text_of,
)


def test_parse_raises_value_error_for_invalid_json() -> None:
    assert parse_json("[1]") == [1]
    for text in ("", "{", "[" * 100_000, '"\ud800"'):
        with pytest.raises(ValueError, match=r"\S"):
            parse_json(text)


def test_an_unpaired_surrogate_does_not_invalidate_the_rest() -> None:
    """It is valid JSON if it is escaped; some models end their output there."""
    assert parse_json(r'{"a": "x\ud83d", "b": ["\ud83d\ude00"]}') == {"a": "x\ufffd", "b": ["\U0001f600"]}
    for wrong in (r'{"a": "\ud83d"', r"\ud83d"):
        with pytest.raises(ValueError):  # noqa: PT011 - any kind
            parse_json(wrong)


@pytest.mark.parametrize(
    "data",
    [
        '{"a": "\\ud83d"',
        '{"a": "\\ud83d", "b": NaN}',
        '["\\ud83d"' + "[" * 100_000,
        '{"a": "\\ud83d", "b": ' + "9" * 5000 + "}",
    ],
)
def test_surrogates_do_not_make_invalid_json_valid(data: str) -> None:
    with pytest.raises(DecodeError):
        parse_with_surrogates(data)
    assert has_surrogates(data)


@pytest.mark.parametrize("value", [None, 5, True, ["x"], {"x": 1}])
def test_a_value_of_the_wrong_type_reads_as_empty(value: Any) -> None:
    assert text_of(value) == ""
    assert object_of(value) == (value if isinstance(value, dict) else {})
    assert objects_of(value) == []


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (5, 5),
        (5.9, 5),
        (-1, -1),
        (True, None),
        ("5", None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**15, None),
    ],
)
def test_a_count_is_a_finite_number_of_reasonable_size(value: Any, count: int | None) -> None:
    assert count_of(value) == count


def test_only_objects_are_taken_from_a_list() -> None:
    assert objects_of([{"a": 1}, None, "x", {}]) == [{"a": 1}, {}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"finishReason": "a", "finish_reason": "b"}, "a"),
        ({"finish_reason": "b"}, "b"),
        ({"finishReason": None, "finish_reason": "b"}, "b"),
        ({"finishReason": 0, "finish_reason": "b"}, 0),
        ({}, None),
    ],
)
def test_a_camel_case_field_may_be_spelled_in_snake_case(value: dict[str, Any], expected: object) -> None:
    assert camel_field(value, "finishReason") == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (r'["x\ud83d", "\ud83d\ude00"]', ["x\ufffd", "\U0001f600"]),
        ("{", None),
        ("[" * 100_000, None),
        ("null", None),
        ('"\ud83d"', "\ufffd"),
    ],
    ids=["valid", "surrogates", "incomplete", "too deep", "null", "not encodable"],
)
def test_read_json_returns_none_for_invalid_json(text: str, value: Any) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9" * 5000, True), (r'"\ud83d"', False), ("{}", True), ("{} {}", False), ("", False), ("NaN", False)],
)
def test_json_is_recognised_by_its_grammar(text: str, expected: bool) -> None:
    assert is_json(text) == expected


def test_surrogates_are_joined_in_every_string_of_a_value() -> None:
    pair, single = "\ud83d\ude00", "\ud83d"
    assert join_surrogates("plain") == "plain"
    assert join_surrogates("é" + pair) == "é\U0001f600"
    assert join_surrogates_in({single: [pair, 5, None]}) == {"\ufffd": ["\U0001f600", 5, None]}
