"""Token usage over a stream."""

from __future__ import annotations

import pytest

from penstock.stream.deltas import (
    FinishReason,
    TextDelta,
    UsageDelta,
)
from penstock.stream.usage import UsageTally
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


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([UsageDelta(input_tokens=-5, output_tokens=3)], (0, 3, 3)),
        ([UsageDelta(input_tokens=0)], (0, 0, 0)),
        ([UsageDelta(input_tokens=9), UsageDelta(input_tokens=7)], (7, 0, 7)),
    ],
    ids=["negative", "zero is known", "a later count replaces an earlier one"],
)
def test_counts_are_never_negative_and_the_last_one_counts(
    deltas: list[UsageDelta], expected: tuple[int, int, int]
) -> None:
    tally = UsageTally()
    assert not tally.is_known
    for delta in deltas:
        tally.take(delta)
    assert tally.is_known
    usage = tally.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == expected


def test_an_exact_count_after_an_estimate_is_not_an_estimate() -> None:
    tally = UsageTally()
    tally.take(UsageDelta(input_tokens=3, estimated=True))
    assert tally.estimated
    tally.take(UsageDelta(input_tokens=4))
    assert not tally.estimated


def test_a_boolean_is_not_a_count() -> None:
    tally = UsageTally()
    with pytest.raises(TypeError, match="a token count must be an integer"):
        tally.take(UsageDelta(output_tokens=5, input_tokens=True))
    assert not tally.is_known, "no count of a refused delta is taken"
