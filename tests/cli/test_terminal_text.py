"""Text for a terminal: escaping and width in columns."""

from __future__ import annotations

import pytest

from penstock.cli.terminal_text import one_line, safe, shortened
from penstock.formatting import columns


def test_joiners_and_spaces_of_languages_and_emoji_stay() -> None:
    text = "a\tb\n\u00a0\u3000می\u200cخواهم 👩\u200d💻 🏳\ufe0f"
    assert safe(text) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\x1b]0;t\x07", "a\\x1b]0;t\\x07"),
        ("a\r\nb\rc", "a\nbc"),
        ("\u202e\u2066", "\\u202e\\u2066"),
        ("\ud800\x9b", "\\ud800\\x9b"),
    ],
)
def test_control_characters_are_escaped(text: str, escaped: str) -> None:
    assert safe(text) == escaped
    assert "".join(map(safe, text)) == escaped  # in any pieces


def test_the_width_counts_wide_and_combining_characters() -> None:
    assert [columns(text) for text in ("abc", "水", "e\u0301", "")] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("line", "width", "result"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("水水水", 4, "水…"), ("水水", 4, "水水"), ("a b c", 3, "a…")],
)
def test_a_line_is_shortened_by_columns(line: str, width: int, result: str) -> None:
    assert shortened(line, width) == result


def test_one_line_joins_lines_and_shortens() -> None:
    assert one_line(" a\n b ") == "a b"
    assert one_line("a\tb\x1b c d", 8) == "a b\\x1b…"
