"""Histograms of times: how exact they are, and how they are written as text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.latencies import (
    BOUNDS,
    LatencyHistogram,
    bucket_of,
    compact,
    latencies_by,
    latencies_of,
    marks_of,
    shortens,
    sum_of_latencies,
)

_times = st.integers(0, 200) | st.integers(0, BOUNDS[-1]) | st.sampled_from(BOUNDS)


def histogram(times: list[int]) -> LatencyHistogram:
    return latencies_of({}, [marks_of(-1, time) for time in times]).duration


@given(st.lists(_times, min_size=1), st.floats(0, 100))
def test_a_percentile_is_wrong_by_at_most_five_percent(times: list[int], percent: float) -> None:
    exact = sorted(times)[max(math.ceil(len(times) * percent / 100), 1) - 1]
    found = histogram(times).percentile(percent)
    assert found is not None
    assert abs(found - exact) <= exact * 0.05


def test_a_histogram_without_turns_has_no_percentiles() -> None:
    empty = LatencyHistogram({})
    assert (empty.count, empty.percentile(50)) == (0, None)


def test_times_beyond_the_bounds_are_in_the_first_or_the_last_bucket() -> None:
    assert (bucket_of(-7), bucket_of(0), bucket_of(2**40)) == (0, 0, len(BOUNDS) - 1)
    assert histogram([2**40]).percentile(50) == BOUNDS[-1]


def test_a_turn_without_output_has_only_a_duration() -> None:
    found = latencies_of({"model": "demo"}, [marks_of(-1, 70) + marks_of(5, 70)])
    assert found.group == {"model": "demo"}
    assert (found.first_output.count, found.duration.count) == (1, 2)
    assert found.first_output.percentile(50) == 5
    assert found.duration.percentile(50) == pytest.approx(70, rel=0.05)


@given(st.lists(st.tuples(st.integers(-1, 50), _times)), st.lists(st.booleans(), min_size=1))
def test_texts_mean_the_same_however_they_are_joined_and_shortened(
    turns: list[tuple[int, int]], shortened: list[bool]
) -> None:
    text = ""
    for place, turn in enumerate(turns):
        text += marks_of(*turn)
        text = compact(text) if shortened[place % len(shortened)] else text
    assert latencies_of({}, [text]) == latencies_of({}, [marks_of(*turn) for turn in turns])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(-1, 50), _times)))
def test_groups_that_are_added_up_are_the_groups_of_all_their_turns(
    turns: list[tuple[str, str, int, int]],
) -> None:
    fine = [latencies_of({"model": turn[0], "day": turn[1]}, [marks_of(*turn[2:])]) for turn in turns]
    for place, dimension in enumerate(("model", "day")):
        for found in latencies_by(dimension, fine):
            [value] = found.group.values()
            texts = [marks_of(*turn[2:]) for turn in turns if turn[place] == value]
            assert found == latencies_of({dimension: value}, texts)
        assert len(latencies_by(dimension, fine)) == len({turn[place] for turn in turns})
    assert sum_of_latencies({}, fine) == latencies_of({}, [marks_of(*turn[2:]) for turn in turns])


def test_a_short_text_has_every_mark_once() -> None:
    assert compact(marks_of(0, 0) * 300 + marks_of(1, 0)) == "Aa300AbNa301"
    assert compact("") == ""


def test_about_one_turn_in_a_hundred_shortens_texts() -> None:
    assert 50 < sum(shortens(f"resp_{number}") for number in range(10_000)) < 200
    assert shortens("\ud800") == shortens("?")


def test_the_marks_that_are_stored_never_change() -> None:
    """They are in the files and databases of released versions."""
    assert (len(BOUNDS), sum(BOUNDS), BOUNDS[-1]) == (184, 986_679_937, 89_698_108)
    assert (marks_of(5, 70), marks_of(1_000, 60_000), marks_of(2**40, 2**40)) == ("AfOi", "ClRc", "HbUb")
