"""The demo model's tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.demo.counting import count, pieces


@given(st.text())
def test_tokens_are_the_pieces_of_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert count(text) == len(pieces(text))
    assert all(pieces(text))
