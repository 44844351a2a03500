"""Failing inputs become as small as they can, and go on failing."""

from __future__ import annotations

import json

import pytest
from fuzz.minimise import minimised
from hypothesis import given
from hypothesis import strategies as st


@given(st.binary(min_size=1, max_size=200), st.data())
def test_the_result_fails_and_is_not_larger(data: bytes, draw: st.DataObject) -> None:
    needed = data[draw.draw(st.integers(0, len(data) - 1)) :][:3]
    small = minimised(data, lambda each: needed in each)
    assert small == needed


@pytest.mark.parametrize(
    ("data", "needed", "expected"),
    [
        (b"a: 1\r\nb: 2\r\nc: 3\r\n", b"b: 2", b"b: 2"),
        (b"data: 1\n\ndata: 2\n\ndata: 3\n\n", b"data: 2\n\n", b"data: 2\n\n"),
    ],
)
def test_lines_and_blocks_are_removed(data: bytes, needed: bytes, expected: bytes) -> None:
    assert minimised(data, lambda each: needed in each) == expected


def test_values_are_removed_from_json_that_must_stay_valid() -> None:
    def fails(data: bytes) -> bool:
        try:
            return bool(json.loads(data)["a"][1]["b"] is None)
        except (ValueError, LookupError, TypeError):
            return False

    data = json.dumps({"x": "y" * 500, "a": [{"c": [1, 2]}, {"b": None, "d": "text"}, 3], "z": {}}).encode()
    assert minimised(data, fails) == b'{"a":[{},{"b":null}]}'


def test_the_number_of_tries_is_limited() -> None:
    tries = []

    def fails(data: bytes) -> bool:
        tries.append(data)
        return True

    minimised(b"x" * 5000, fails, most_tries=5)
    assert len(tries) == 5
