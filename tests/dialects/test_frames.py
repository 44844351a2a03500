"""Decoding the frames of an upstream."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.frames import MOST_VALUES, CommonShape, common_reader, error_delta, read_object
from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta


def test_an_object_is_decoded() -> None:
    assert read_object(Frame(None, ' {"a": [1]} ')) == {"a": [1]}


@pytest.mark.parametrize("data", ["<html>", "[1]", '"text"', "null", '{"a":', ""])
def test_any_other_frame_is_an_error_that_quotes_it(data: str) -> None:
    error = read_object(Frame(None, data))
    assert isinstance(error, ErrorDelta)
    assert error.code == "upstream_invalid"
    assert error.message.endswith(f"not a JSON object: {data}")


def test_only_the_start_of_an_invalid_frame_is_quoted() -> None:
    error = read_object(Frame(None, "< " * 10_000))
    assert isinstance(error, ErrorDelta)
    assert error.message.count("<") == 99
    assert error.message.endswith("< < …")


@pytest.mark.parametrize(
    ("before", "shown"), [("x" * 180 + " key: ", "x key: …"), ("", "object: …"), ("\n" * 190, "object: …")]
)
def test_a_key_at_the_end_of_the_quoted_start_is_left_out(before: str, shown: str) -> None:
    error = read_object(Frame(None, f"{before}sk-{'7' * 300}"))
    assert isinstance(error, ErrorDelta)
    assert "7" not in error.message
    assert error.message.endswith(shown)


@pytest.mark.parametrize(
    ("payload", "code", "message"),
    [
        ({"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}, "rate_limit_exceeded", "Slow"),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
            "server_is_overloaded",
            "no",
        ),
        ({"error": "broken"}, "server_error", "broken"),
        ({"unknown": 1}, "server_error", ""),
    ],
)
def test_an_error_object_is_classified(payload: dict[str, Any], code: str, message: str) -> None:
    error = error_delta(payload)
    assert error.code == code
    assert error.message.startswith(message)
    assert error.message


class Shape(CommonShape):
    text: str
    index: int = 0


def test_a_common_frame_is_read_as_its_type() -> None:
    assert common_reader(Shape)('{"index": 1, "text": "a"} ') == Shape("a", 1)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "[DONE]",
        "[]",
        '{"text": 1}',
        '{"text": "a", "more": 1}',
        '{"text": "\\ud83d"}',
        '"\ud83d"',
        "[" * 10_000,
    ],
)
def test_any_other_frame_is_not_read(data: str) -> None:
    assert common_reader(Shape)(data) is None


def test_a_frame_has_a_limited_number_of_values_whatever_its_size() -> None:
    assert isinstance(read_object(Frame(None, '{"a": "' + "," * 3 * MOST_VALUES + '"}')), dict)
    error = read_object(Frame(None, '{"a": [' + "{}," * MOST_VALUES + "{}]}"))
    assert isinstance(error, ErrorDelta)
    assert (error.code, "500,000 JSON values" in error.message) == ("upstream_invalid", True)
