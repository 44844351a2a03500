"""Token usage over a stream."""

from __future__ import annotations

import pytest

from penstock.stream.deltas import (
    FinishReason,
    TextDelta,
    UsageDelta,
)
from tests.stream.running import (
    codes,
    machine,
    run,
)


# Usage and the upstream
def test_usage_zeros_never_overwrite_and_the_total_is_the_sum() -> None:
    _, events = run(
        [
            UsageDelta(input_tokens=10, output_tokens=1, cached_tokens=4, cache_write_tokens=2),
            TextDelta("x"),
            UsageDelta(output_tokens=7, reasoning_tokens=5),
            UsageDelta(input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0),
        ]
    )
    assert events[-1]["response"]["usage"] == {
        "input_tokens": 10,
        "output_tokens": 7,
        "total_tokens": 17,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 5},
    }


def test_usage_that_does_not_add_up_is_limited_and_reported() -> None:
    stream, events = run([UsageDelta(input_tokens=1, output_tokens=2, cached_tokens=5, reasoning_tokens=9)])
    usage = events[-1]["response"]["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == 1
    assert usage["output_tokens_details"]["reasoning_tokens"] == 2
    assert codes(stream) == {"usage_inconsistent"}


def test_a_count_that_is_not_an_integer_is_refused() -> None:
    stream = machine()
    stream.start()
    with pytest.raises(TypeError, match="integer"):
        stream.usage(UsageDelta(input_tokens=3, output_tokens="5"))  # type: ignore[arg-type]
    assert stream.snapshot.usage is None
    stream.finish(FinishReason.STOP)


def test_an_estimate_without_counts_is_not_reported() -> None:
    stream, _ = run([UsageDelta(estimated=True)])
    assert stream.diagnostics == []


def test_estimated_usage_is_reported_and_absent_usage_is_null() -> None:
    stream, _ = run([UsageDelta(input_tokens=3, estimated=True)])
    assert codes(stream) == {"usage_estimated"}
    assert run([])[1][-1]["response"]["usage"] is None
