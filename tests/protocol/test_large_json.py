"""Large documents are read and written in pieces without a difference."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from penstock.errors import DecodeError
from penstock.protocol import large_json
from penstock.protocol.content import OutputText
from penstock.protocol.events import Event
from penstock.protocol.items import Message
from penstock.protocol.large_json import encode_in_pieces, encode_stepwise, has_more_values, parse_in_pieces
from penstock.protocol.wire import Wire, encode, parse
from tests.protocol.samples import samples


class Holder(Wire):
    anything: Any = UNSET


@pytest.mark.parametrize("event", samples(), ids=lambda event: str(event.type))
def test_the_pieces_join_to_the_same_json(event: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "LONG_TEXT", 3)
    assert b"".join(encode_in_pieces(event)) == encode(event)


@given(
    st.recursive(
        st.none() | st.integers(-9, 9) | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
        ),
        max_leaves=12,
    )
)
def test_unknown_fields_are_written_in_pieces_too(value: Any) -> None:
    holder = Holder(anything=value, extra={"more": value})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "LONG_TEXT", 3)
        assert b"".join(encode_in_pieces(holder)) == encode(holder)


@pytest.mark.parametrize("depth", [10, 100, 600])
def test_a_deeply_nested_value_is_written_in_pieces_too(depth: int) -> None:
    """Requests may be nested as deep as the interpreter allows, and a response repeats their tools."""
    value: Any = ["x" * (large_json.LONG_TEXT + 1)]
    for _ in range(depth):
        value = [value]
    holder = Holder(anything=value)
    assert b"".join(encode_in_pieces(holder)) == encode(holder)


def test_no_piece_is_much_longer_than_a_long_text() -> None:
    text = "\x00" * (3 * large_json.LONG_TEXT)  # six bytes each in JSON
    message = Message(role="assistant", content=[OutputText(text=text), OutputText(text=text)])
    pieces = list(encode_in_pieces(message))
    assert max(map(len, pieces)) <= 6 * large_json.LONG_TEXT
    assert b"".join(pieces) == encode(message)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text('a,[{"\\\n水', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text('a,[{"\\', max_size=4), inner, max_size=5)
    ),
    max_leaves=30,
)


def separators(value: Any) -> int:
    """Count in the value what `has_more_values` counts."""
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(len(value) - 1, 0) + sum(map(separators, inner))
    return 0


@given(json_values, st.integers(1, 7))
def test_characters_in_strings_are_not_counted_as_values(value: Any, slice: int) -> None:
    data, expected = msgspec.json.encode(value), separators(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "_SLICE", slice)
        assert not has_more_values(data, expected)
        if len(data) > expected > 0:
            assert has_more_values(data, expected - 1)


@given(json_values, st.sampled_from([2, 10, 40]))
def test_a_document_is_parsed_and_encoded_in_pieces_without_a_difference(value: Any, at_once: int) -> None:
    data = msgspec.json.encode(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "_AT_ONCE_VALUES", at_once)
        patch.setattr(large_json, "_AT_ONCE_BYTES", 8)
        patch.setattr(large_json, "_MEMBERS_AT_ONCE", 1)
        assert parse_in_pieces(data) == parse(data) == value
        assert encode_stepwise(value) == data
        with pytest.raises(DecodeError):
            parse_in_pieces(data + b"]")
