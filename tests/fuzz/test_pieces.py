"""Inputs are cut the same way every time, and their options are a comment."""

from __future__ import annotations

import pytest
from fuzz.targets.pieces import after_options, ways_to_cut
from hypothesis import given
from hypothesis import strategies as st


@given(st.binary(max_size=300))
def test_the_pieces_join_to_the_input(data: bytes) -> None:
    ways = list(ways_to_cut(data))
    assert all(b"".join(pieces) == data for pieces in ways)
    assert ways == list(ways_to_cut(data))


@pytest.mark.parametrize(
    ("data", "options", "rest"),
    [
        (b":fuzz a b c\ndata", {"a", "b"}, b"data"),
        (b":fuzz\n", set(), b""),
        (b": another comment\na", set(), b": another comment\na"),
        (b":fuzz a", set(), b":fuzz a"),
    ],
)
def test_options_are_in_the_first_line(data: bytes, options: set[str], rest: bytes) -> None:
    assert after_options(data, frozenset({"a", "b"})) == (frozenset(options), rest)
