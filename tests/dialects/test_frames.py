"""Decoding the frames of an upstream."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.frames import error_delta, read_object
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
    error = read_object(Frame(None, "<" * 10_000))
    assert isinstance(error, ErrorDelta)
    assert error.message.count("<") == 200


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
