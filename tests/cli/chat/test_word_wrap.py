"""Wrapping streamed text at words: the same lines for every way to split the text, and no line too long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.chat.markdown import MarkdownRenderer
from penstock.cli.chat.markdown_inline import Span
from penstock.cli.chat.word_wrap import WordWrap
from penstock.formatting import columns
from tests.effort import examples

WIDTH = 20
STYLE = re.compile(r"\x1b\[[0-9;]*m")
texts = st.text(alphabet="abc .\n\t水é•1", max_size=120)


def shown(*pieces: str, width: int = WIDTH) -> str:
    """Return what the chat shows, without styles."""
    renderer = MarkdownRenderer(width=lambda: width)
    return STYLE.sub("", "".join([*map(renderer.feed, pieces), renderer.end()]))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three four five six", ["one two three four", "five six"]),
        ("exactly twenty chars and", ["exactly twenty chars", "and"]),
        ("- a point that needs two lines", ["• a point that needs", "  two lines"]),
        ("10. a point that needs two", ["10. a point that", "    needs two"]),
        ("> quoted words that need two lines", ["│ quoted words that", "│ need two lines"]),
        ("a **bold phrase that** wraps as well", ["a bold phrase that", "wraps as well"]),
        ("see https://a.example/a-long-address now", ["see", "https://a.example/a-long-address", "now"]),
        ("水門は水を通す門である、という説明", ["水門は水を通す門であ", "る、という説明"]),
        ("short\n\nlines stay", ["short", "", "lines stay"]),
    ],
)
def test_lines_break_at_words(text: str, lines: list[str]) -> None:
    assert shown(text).split("\n") == lines
    assert shown(*text).split("\n") == lines


@pytest.mark.parametrize(
    "text",
    ["```\nx = call(first, second, third)\n```\n", "| a long header | another one |\n|---|---|\n| 1 | 2 |\n"],
)
def test_code_and_tables_are_not_wrapped(text: str) -> None:
    assert shown(text) == shown(text, width=200)


def test_everything_but_the_last_word_is_written_at_once() -> None:
    wrap = WordWrap(lambda: WIDTH)
    assert wrap.feed([Span("one two thr")]) == [Span("one two")]
    assert wrap.feed([Span("ee ")]) == [Span(" three")]
    assert wrap.end() == [Span(" ")]


def test_a_word_that_fits_on_no_line_is_written_while_it_arrives() -> None:
    wrap = WordWrap(lambda: WIDTH)
    assert wrap.feed([Span("x" * 15)]) == []
    assert wrap.feed([Span("y" * 15)]) == [Span("x" * 15 + "y" * 15)]
    assert wrap.feed([Span("z")]) == [Span("z")]


def test_the_width_may_change_between_two_words() -> None:
    widths = [30, 10]
    wrap = WordWrap(lambda: widths[0])
    wrap.feed([Span("one two three ")])
    del widths[0]
    assert wrap.feed([Span("four ")]) == [Span("\nfour")]


@settings(max_examples=examples(200))
@given(texts, st.data())
def test_the_lines_do_not_depend_on_how_the_text_is_split(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert shown(text) == shown(text[:cut], text[cut:])
    assert shown(text) == shown(*text)


@settings(max_examples=examples(200))
@given(texts)
def test_only_words_that_fit_on_no_line_are_longer_than_the_line(text: str) -> None:
    wrap = WordWrap(lambda: WIDTH)
    written = "".join(span.text for span in [*wrap.feed([Span(text)]), *wrap.end()])
    assert re.sub(r"\s", "", written) == re.sub(r"\s", "", text)
    for line in written.expandtabs(1).split("\n"):
        if columns(line.rstrip()) > WIDTH:
            assert max(columns(word) for word in line.split()) > WIDTH // 2
