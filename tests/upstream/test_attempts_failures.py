"""Failures inside of a stream, as the exceptions that the policy knows."""

from __future__ import annotations

import pytest

from penstock.dialects.frames import error_delta
from penstock.dialects.pipeline import failure_of
from penstock.errors import KINDS, ServerError
from penstock.failures import ERROR_TYPES
from penstock.stream.deltas import ErrorDelta
from penstock.upstream.attempts import RATE_LIMITED, TRANSIENT, rule_for


@pytest.mark.parametrize("code", ERROR_TYPES)
def test_every_code_becomes_its_kind(code: str) -> None:
    error = failure_of(ErrorDelta(code, "words", param="input", retry_after=2.5))
    assert type(error) is KINDS[code]
    assert (error.code, error.message, error.param, error.retry_after) == (code, "words", "input", 2.5)
    assert error.status is None


@pytest.mark.parametrize(
    "code", ["upstream_truncated", "upstream_invalid", "upstream_empty", "something_new"]
)
def test_an_unknown_code_is_kept_and_may_pass(code: str) -> None:
    error = failure_of(ErrorDelta(code, "words"))
    assert type(error) is ServerError
    assert error.code == code
    assert rule_for(error) is TRANSIENT


def test_a_limit_in_a_stream_says_how_long_to_wait() -> None:
    delta = error_delta({"error": {"code": "rate_limit_exceeded", "message": "Please try again in 1.5s."}})
    assert delta.retry_after == 1.5
    error = failure_of(delta)
    assert error.retry_after == 1.5
    assert rule_for(error) is RATE_LIMITED
