"""Sizes, durations and times as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formatting import columns, counted, format_duration, format_size, format_time, wrapped


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (34_400, "34 kB"),
        (999_999, "1.0 MB"),
        (2e12, "2.0 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 ms"), (0.35, "350 ms"), (2.1, "2.10 s"), (200, "3 min 20 s"), (7260, "2 h 1 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [1e30, float("nan"), float("inf")])
def test_an_invalid_timestamp_is_reported(seconds: float) -> None:
    assert format_time(seconds) == "invalid time"
    assert format_time(0) == "1970-01-01 00:00:00 UTC"


def test_counts() -> None:
    assert (counted(1, "turn"), counted(1200, "turn")) == ("1 turn", "1,200 turns")


def test_text_is_wrapped_at_spaces_and_urls_stay_whole() -> None:
    text = "see https://gateway.example/a-rather-long-path for more"
    assert wrapped(text, 24, "  ") == ["see", "  https://gateway.example/a-rather-long-path", "  for more"]
    assert wrapped("", 24) == [""]
    assert wrapped("five small words in one", 3) == ["five small words in", "one"]  # 20 columns at least


def test_long_words_are_broken_and_wide_characters_take_two_columns() -> None:
    lines = ["* the model", "  " + "x" * 18, "  " + "x" * 12]
    assert wrapped("the model " + "x" * 30, 20, "  ", first="* ") == lines
    assert wrapped("水" * 15, 20) == ["水" * 10, "水" * 5]


@given(st.text(st.sampled_from("ab 水-\u0301"), max_size=200), st.integers(20, 60))
def test_no_line_is_longer_and_no_character_is_lost(text: str, width: int) -> None:
    lines = wrapped(text, width, "  ", first="> ")
    assert max(map(columns, lines)) <= width
    assert "".join("".join(lines).removeprefix(">").split()) == "".join(text.split())
