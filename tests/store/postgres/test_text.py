"""Text that PostgreSQL cannot hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.store.postgres.text import indexable, original, original_or_none, storable, storable_or_none

any_text = st.text(st.characters(exclude_categories=())) | st.text("\x00\x1a0#af\ud800")


@given(any_text)
def test_any_text_is_found_again(text: str) -> None:
    stored = storable(text)
    assert "\x00" not in stored
    stored.encode()
    assert original(stored) == text


@given(any_text, any_text)
def test_different_texts_stay_different(first: str, second: str) -> None:
    assert (storable(first) == storable(second)) is (first == second)
    assert (indexable(first, 4) == indexable(second, 4)) is (first == second)


def test_ordinary_text_is_stored_as_it_is() -> None:
    for text in ("resp_1", "", "é\n\t日本"):
        assert storable(text) == indexable(text) == original(text) == text
    assert storable_or_none(None) is None
    assert original_or_none(None) is None


def test_a_long_text_is_cut_and_stays_different() -> None:
    first, second = (indexable("x" * 100_000 + end) for end in "ab")
    assert first != second
    assert len(first) == len(second) < 300
