"""The types for what is known about a model."""

from __future__ import annotations

import pytest

from penstock.models.enrich import enrich
from penstock.models.info import MAX_TOKENS, MIN_WINDOW, LearnedLimit, ModelFacts, is_count, is_window


@pytest.mark.parametrize(
    ("value", "can_be_window", "can_be_count"),
    [
        (-1, False, False),
        (0, False, False),
        (1, False, True),
        (MIN_WINDOW - 1, False, True),
        (MIN_WINDOW, True, True),
        (MAX_TOKENS, True, True),
        (MAX_TOKENS + 1, False, False),
    ],
)
def test_windows_and_counts_have_a_valid_range(value: int, can_be_window: bool, can_be_count: bool) -> None:
    assert (is_window(value), is_count(value)) == (can_be_window, can_be_count)


def test_default_efforts_are_not_listed_ones() -> None:
    guessed, listed = (enrich(ModelFacts(reasoning=True, efforts=each)) for each in (None, ("low",)))
    assert (guessed.efforts, guessed.listed_efforts) == (("low", "medium", "high"), ())
    assert listed.efforts == listed.listed_efforts == ("low",)


@pytest.mark.parametrize(
    ("then", "now", "is_outdated"),
    [
        (100_000, 100_000, False),
        (100_000, 200_000, True),
        (0, 200_000, True),
        (100_000, 0, False),
        (0, 0, False),
        (100_000, None, False),
        (None, 200_000, False),  # from an older file
    ],
)
def test_a_learned_limit_is_outdated_once_another_window_is_stated(
    then: int | None, now: int | None, is_outdated: bool
) -> None:
    assert LearnedLimit(48_000, 0, None, then).is_outdated(now) is is_outdated
