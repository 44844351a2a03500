"""Markdown tables: aligned columns, and bounded buffering."""

from __future__ import annotations

import pytest

from penstock.cli.chat.markdown_inline import Span
from penstock.cli.chat.markdown_tables import LONGEST_ROW, MAX_BUFFERED, MarkdownTable, is_delimiter, is_row


def text(spans: list[Span]) -> str:
    return "".join(span.text for span in spans)


def table(*rows: str, delimiter: str = "|---|---|", unicode: bool = True) -> list[str]:
    header, *others = rows
    made = MarkdownTable(header, delimiter, unicode=unicode)
    assert [made.add(row) for row in others] == [[]] * len(others)
    return text(made.flush()).splitlines()


@pytest.mark.parametrize("line", ["|---|", "| :-- | --: |", "  |-|-|", "|:-:|:-"])
def test_a_delimiter_line_starts_a_table(line: str) -> None:
    assert is_delimiter(line)


@pytest.mark.parametrize("line", ["---", "| a |", "|", "", "|--|a|"])
def test_other_lines_do_not_start_a_table(line: str) -> None:
    assert not is_delimiter(line)


def test_a_line_that_is_too_long_is_not_a_row() -> None:
    assert is_row("|" + "a" * (LONGEST_ROW - 1))
    assert not is_row("|" + "a" * LONGEST_ROW)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """A wide character takes two columns, a style none; `--:` aligns to the right."""
    assert table("| city | °C |", "| Oslo | 3 |", "| 東京 | **21** |", delimiter="|:--|--:|") == [
        "city │ °C",
        "─────┼───",
        "Oslo │  3",
        "東京 │ 21",
    ]


def test_without_unicode_the_lines_are_ascii() -> None:
    assert table("| a | b |", "| c | d |", unicode=False) == ["a | b", "--+--", "c | d"]


def test_short_and_long_rows_and_escaped_bars_are_allowed() -> None:
    assert table("| a | b |", "| only |", r"| x \| y | z | more |") == [
        "a     │ b │     ",
        "──────┼───┼─────",
        "only  │   │     ",
        "x | y │ z │ more",
    ]


def test_the_header_is_bold() -> None:
    made = MarkdownTable("| *a* |", "|---|", unicode=True)
    assert made.flush()[0] == Span("a", ("1", "3"), is_verbatim=True)


def test_a_long_table_is_written_before_it_ends() -> None:
    made = MarkdownTable("| a | b |", "|---|---|", unicode=True)
    for _ in range(MAX_BUFFERED - 2):
        assert made.add("| x | y |") == []
    assert text(made.add("| x | y |")).count("x │ y") == MAX_BUFFERED - 1
    assert text(made.add("| longer | y | z |")) == "longer │ y │ z\n"
    assert made.flush() == []
