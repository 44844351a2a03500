"""Durations, sizes and times in options."""

from __future__ import annotations

import pytest

from penstock.cli import UsageError
from penstock.cli.quantities import parse_moment, parse_size, parse_span


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("1.5m", 90), ("0s", 0), (" 2 w ", 1_209_600)]
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_span(text, "--older-than") == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "30 days", "1e9d", "999999999w", "nan"])
def test_a_wrong_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="--older-than needs a duration such as 30d"):
        parse_span(text, "--older-than")


@pytest.mark.parametrize(
    ("text", "count"), [("500MB", 500_000_000), ("1GiB", 1 << 30), ("1.5kb", 1_500), ("7", 7), ("0b", 0)]
)
def test_sizes_are_parsed(text: str, count: int) -> None:
    assert parse_size(text, "--max-size") == count


@pytest.mark.parametrize("text", ["", "MB", "-1", "1 potato", "1EB", "inf"])
def test_a_wrong_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="--max-size needs a size such as 500MB"):
        parse_size(text, "--max-size")


def test_a_time_is_a_duration_ago_or_a_date() -> None:
    assert parse_moment("1h", "--since", 10_000.0) == 6_400.0
    assert parse_moment("1970-01-02", "--since", 0.0) == 86_400.0
    assert parse_moment("1970-01-01T02:00+01:00", "--since", 0.0) == 3_600.0
    with pytest.raises(UsageError, match="--since needs a duration"):
        parse_moment("yesterday", "--since", 0.0)
