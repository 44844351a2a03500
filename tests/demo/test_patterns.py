"""Texts that match the patterns of schemas."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.demo.patterns import write_match
from tests.effort import examples


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("^[A-Z]{2,5}$", ["AA", "BB"]),
        (r"^\d{3}-\d{4}$", ["000-0000", "111-1111"]),
        (r"^(foo|bar)(-\w+)?$", ["foo", "bar"]),
        (r"^v?\d+\.\d+\.\d+$", ["0.0.0", "1.1.1"]),
        (r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", ["a@a.aa", "b@b.bb"]),
        (r"^[\u00e0-\u00ff]+$", ["à", "á"]),
        ("^$", ["", ""]),
        ("(?:ab)+?c", ["abc", "abc"]),
        ("^a$|^b$", ["a", "b"]),
        (r"[\]]+", ["]", "]"]),
    ],
)
def test_each_variant_is_a_text_that_matches(pattern: str, texts: list[str]) -> None:
    assert [write_match(pattern, variant=number) for number in range(2)] == texts


@settings(max_examples=examples(200), deadline=None)
@given(
    st.from_regex(
        re.compile(
            r"\A(\^?([a-c.]|\\d|\\w|\[a-c\]|\[^x\]|\(a\|bc?\)|\(\^a\|b\$\))([*+?]|\{1,2\})?){0,6}\$?\Z"
        )
    ),
    st.integers(0, 5),
)
def test_what_is_written_matches_according_to_python(pattern: str, variant: int) -> None:
    pattern = pattern.rstrip("\n")
    text = write_match(pattern, variant=variant)
    try:
        compiled = re.compile(pattern)
    except re.error:
        return  # two repetitions in a row
    assert text is None or compiled.search(text)


def test_repetitions_grow_until_the_text_is_long_enough() -> None:
    text = write_match(r"^[A-Z]+-\d+$", minimum=12, maximum=20)
    assert text is not None
    assert re.fullmatch(r"[A-Z]+-\d+", text)
    assert 12 <= len(text) <= 20


def test_a_text_that_cannot_be_short_enough_is_not_written() -> None:
    assert write_match("^a{5}$", maximum=4) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)b",
        "(?<!a)b",
        "(?P<name>a)",
        r"(a)\1",
        r"\p{L}",
        r"\bend$",
        "a^b",
        "a$b",
        "x(^a)",
        "[",
        "[z-a]",
        "[]",
        "(",
        ")",
        "*",
        "a{3,2}",
        "a" * 2000,
        "(" * 99 + ")" * 99,
        "(((a{900}){900}){900})",
    ],
)
def test_a_pattern_outside_the_subset_is_refused(pattern: str) -> None:
    assert write_match(pattern) is None
