"""Bytes are split into lines of bounded length, and parsed."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DecodeError
from penstock.parts.wire import encode_line
from penstock.provider.host.lines import LineSplitter, read_object

LIMIT = 8
DEEP = b'{"a":' * 995 + rb'"\ud83d"' + b"}" * 995
"""One parser accepts it, but it is too deep for the next step."""

text = st.lists(st.sampled_from([b"\n", b"a", b"bc", b" ", b"\r", "水".encode(), b"x" * 9]), max_size=40)


def expected_lines(data: bytes) -> list[bytes | None]:
    """Return the expected lines, computed differently."""
    lines = data.split(b"\n")
    return [None if len(line) > LIMIT else line for line in lines if len(line) > LIMIT or line.strip()]


@given(text, st.lists(st.integers(0, 60), max_size=12))
def test_lines_do_not_depend_on_the_chunks(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    splitter = LineSplitter(LIMIT)
    positions = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = [line for start, end in pairwise(positions) for line in splitter.feed(data[start:end])]
    assert [*found, *splitter.end()] == expected_lines(data)


def test_a_line_over_the_limit_is_reported_immediately_and_not_kept() -> None:
    splitter = LineSplitter(LIMIT)
    assert splitter.feed(b"x" * 9) == [None]
    for _ in range(3):
        assert splitter.feed(b"x" * 1000) == []
    assert sum(map(len, splitter._pieces)) == 0
    assert splitter.feed(b"x\nnext\n") == [b"next"]


def test_a_line_of_exactly_the_limit_is_a_line() -> None:
    assert LineSplitter(LIMIT).feed(b"x" * 8 + b"\n" + b"y" * 9 + b"\n") == [b"x" * 8, None]


def test_lone_surrogates_are_replaced_and_pairs_are_joined() -> None:
    raw = read_object(rb'{"id": 1, "a": "x\ud83d", "b": ["\ude00"], "\ud800": "\ud83d\ude00"}')
    assert raw == {"id": 1, "a": "x�", "b": ["�"], "�": "😀"}


def test_a_byte_order_mark_is_ignored() -> None:
    assert read_object(b'\xef\xbb\xbf{"id": 1}') == {"id": 1}
    assert read_object(b'\xef\xbb\xbf{"id": 1, "a": "\\ud83d"}') == {"id": 1, "a": "\ufffd"}


def test_a_lone_surrogate_can_be_encoded() -> None:
    line = encode_line({"type": "tool_call", "input": {"a": "\ud83d", "b": "水"}})
    assert line.endswith(b"}\n")
    assert json.loads(line)["input"] == {"a": "\ud83d", "b": "水"}


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"1", b'"a"', b"{", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, DEEP]
)
def test_anything_but_an_object_is_rejected(line: bytes) -> None:
    with pytest.raises(DecodeError):
        read_object(line)


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_rejected(line: bytes) -> None:
    with suppress(DecodeError):
        assert isinstance(read_object(line), dict)
