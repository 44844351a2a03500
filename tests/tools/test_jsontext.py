from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.tools.jsontext import MAX_BRACKETS, ObjectScanner, StringDecoder, StringValues
from tests.stream.strategies import cut, json_objects


@given(cut(json_objects), st.text(max_size=5))
def test_the_end_of_an_object_is_found_wherever_it_is_cut(pieces: list[str], trailing: str) -> None:
    scanner = ObjectScanner()
    for piece in pieces[:-1]:
        if scanner.feed(piece) >= 0:
            assert not "".join(pieces[pieces.index(piece) + 1 :])
            return
    end = scanner.feed(pieces[-1] + trailing)
    assert scanner.ended
    assert end in (len(pieces[-1]), -1)


def test_what_is_no_object_has_no_end() -> None:
    for text in ("[1]", '"x"', "12", "}"):
        scanner = ObjectScanner()
        assert scanner.feed(text) == -1
        assert not scanner.ended


def test_blanks_before_an_object_are_passed_over() -> None:
    scanner = ObjectScanner()
    assert scanner.feed(" \n") == -1
    assert scanner.feed(' {"a":"\\') == -1
    assert scanner.feed('"}') == -1
    assert scanner.feed('"}x') == 2
    assert scanner.feed("{}") == -1


def test_an_object_of_brackets_is_not_searched_without_end() -> None:
    """Every bracket takes a step: 20 MB of them would block the event loop for many seconds."""
    scanner = ObjectScanner()
    pairs = MAX_BRACKETS
    assert scanner.feed('{"a":[' + "[]," * pairs + "[]]}") == -1
    assert not scanner.ended


def test_a_long_string_is_passed_over_whatever_is_in_it() -> None:
    inside = "{[]}" * MAX_BRACKETS + '\\"\\\\' * MAX_BRACKETS
    text = f'{{"a":"{inside}"}}'
    assert ObjectScanner().feed(text + "trailing") == len(text)


def decode(pieces: list[str]) -> tuple[str, StringDecoder]:
    decoder = StringDecoder()
    out = ""
    for piece in pieces:
        if not decoder.ended:
            out += decoder.feed(piece)
    return out, decoder


@given(cut(st.text(max_size=20).map(lambda text: json.dumps(text)[1:])))
@example(['\\ud83d\\ude00"'])
@example(["\\", "ud8", "3d", "\\u", 'de00"'])
def test_a_string_is_decoded_wherever_it_is_cut(pieces: list[str]) -> None:
    expected = json.loads('"' + "".join(pieces))
    out, decoder = decode(pieces)
    assert out == expected
    assert decoder.ended
    assert not decoder.flawed


@given(cut(st.text(alphabet='\\u"nd8de0x', max_size=30)))
def test_any_text_decodes_to_valid_unicode_wherever_it_is_cut(pieces: list[str]) -> None:
    whole, _ = decode(["".join(pieces)])
    out, _ = decode(pieces)
    assert out == whole
    out.encode()


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ('\\ud83d"', "\N{REPLACEMENT CHARACTER}"),
        ('\\ud83dx"', "\N{REPLACEMENT CHARACTER}x"),
        ('\\ud83d\\ud83d\\ude00"', "\N{REPLACEMENT CHARACTER}😀"),
        ('\\ude00"', "\N{REPLACEMENT CHARACTER}"),
        ('\\d\\u12"', "\\d\\u12"),
    ],
)
def test_invalid_json_is_kept_or_replaced_and_flagged(text: str, decoded: str) -> None:
    out, decoder = decode([text])
    assert out == decoded
    assert decoder.flawed


def test_text_after_the_closing_quote_is_the_rest() -> None:
    _, decoder = decode(['a" , 1'])
    assert decoder.rest == " , 1"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def strings_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str) and len(path) <= 3:
        yield path, value
    if isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in children:
            yield from strings_in(child, (*path, key))


@given(json_values, st.integers(1, 20), st.booleans())
def test_every_string_is_reported_with_its_place(value: Any, size: int, compact: bool) -> None:
    text = json.dumps(value, indent=None if compact else 2)
    reader, found = StringValues(), list[tuple[tuple[str | int, ...], str]]()
    open_string = ""
    for start in range(0, len(text), size):
        for piece in reader.feed(text[start : start + size]):
            open_string += piece.text
            if piece.ended:
                found.append((piece.path, open_string))
                open_string = ""
    assert found == list(strings_in(value))
    assert open_string == ""


@given(st.text(alphabet='{}[],:"\\a ', max_size=40))
def test_text_that_is_not_json_does_no_harm(text: str) -> None:
    StringValues().feed(text)


def test_a_long_text_of_short_strings_is_read_in_windows() -> None:
    values = ["ab"] * 5000
    pieces = StringValues().feed(json.dumps(values))
    assert "".join(piece.text for piece in pieces) == "ab" * 5000
    assert [piece.path for piece in pieces if piece.ended] == [(index,) for index in range(5000)]
