"""How a Responses stream ends: usage, and the reason why a response is incomplete."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.responses import DIALECT
from penstock.dialects.responses.finishes import read_incomplete
from penstock.stream.deltas import DiagnosticDelta, ErrorDelta, FinishDelta, FinishReason
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.responses.stream_events import DELTAS, added, call, completed, done, ended, inner, message


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_output_tokens", "max_output_tokens"),
        ("content_filter", "content_filter"),
        ("pause_turn", "pause_turn"),
        ("steered", "steered"),
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
    assert checks.usage(DIALECT, [completed(usage=usage)]) == counts


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"reason": "length"}, FinishReason.LENGTH),
        ({"reason": "max_tokens"}, FinishReason.LENGTH),
        ({"reason": "content_filter"}, FinishReason.CONTENT_FILTER),
    ],
)
def test_a_known_reason_needs_no_diagnostic(details: Any, reason: FinishReason) -> None:
    assert read_incomplete({"incomplete_details": details}) == [FinishDelta(reason)]


@pytest.mark.parametrize("details", [None, {}, {"reason": 5}, {"reason": "moonlight" * 50}])
def test_an_unknown_reason_counts_as_length_and_is_reported(details: Any) -> None:
    """The answer must not look complete."""
    diagnostic, finish = read_incomplete({"incomplete_details": details})
    assert isinstance(diagnostic, DiagnosticDelta)
    assert diagnostic.code == "unknown_finish"
    assert len(diagnostic.message) < 200
    assert finish == FinishDelta(FinishReason.LENGTH)


def test_a_cancelled_response_is_an_error() -> None:
    [error] = read_incomplete({"incomplete_details": {"reason": "cancelled"}})
    assert isinstance(error, ErrorDelta)
    assert error.code == "server_error"
