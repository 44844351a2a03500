"""How a Responses stream ends: usage, and the reason why a response is incomplete."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.responses import DIALECT
from penstock.stream.deltas import (
    UsageDelta,
)
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.responses.stream_events import DELTAS, added, call, completed, done, ended, inner, message


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_output_tokens", "max_output_tokens"),
        ("content_filter", "content_filter"),
        ("pause_turn", "pause_turn"),
        ("moonlight", "max_output_tokens"),
        (None, "max_output_tokens"),
    ],
)
def test_an_incomplete_response_stays_incomplete(reason: Any, expected: str) -> None:
    events = [
        *(*DELTAS, done(0, message("Hello", status="incomplete"))),
        *(added(1, call("")), inner("function_call_arguments.delta", 1, delta='{"a"')),
        done(1, call('{"a"', status="incomplete")),
        ended("incomplete", incomplete_details={"reason": reason}),
    ]
    response = checks.answer(DIALECT, events)
    assert (response["status"], response["incomplete_details"]["reason"]) == ("incomplete", expected)
    assert [item["status"] for item in response["output"]] == ["incomplete", "incomplete"]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (
            {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 15,
            },
            (10, 5, 4, 1, 2),
        ),
        ({"input_tokens": 10, "output_tokens": 5}, (10, 5, None, None, None)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 7},
                "total_tokens": 21,
            },
            (9, 12, None, None, 7),
        ),
        ({"input_tokens": "10", "output_tokens": None, "input_tokens_details": 5}, (None,) * 5),
    ],
)
def test_usage_and_its_details(usage: Any, counts: tuple[int | None, ...]) -> None:
    deltas = checks.deltas(DIALECT, [completed(usage=usage)])
    [counted] = [each for each in deltas if isinstance(each, UsageDelta)]
    assert counts == (
        counted.input_tokens,
        counted.output_tokens,
        counted.cached_tokens,
        counted.cache_write_tokens,
        counted.reasoning_tokens,
    )
