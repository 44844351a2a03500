"""Inline Markdown: emphasis, code and links, also when the rest of the line has not arrived."""

from __future__ import annotations

import pytest

from penstock.cli.chat.markdown_inline import MAX_SPAN, Span, read_spans


def marked(spans: list[Span]) -> str:
    return "".join(f"<{';'.join(span.codes)}>{span.text}</>" if span.codes else span.text for span in spans)


CASES = [
    ("**bold** text", "<1>bold</> text"),
    ("an *italic* word", "an <3>italic</> word"),
    ("***both***", "<1;3>both</>"),
    ("**a *b* c**", "<1>a </><1;3>b</><1> c</>"),
    ("**a *b***", "<1>a </><1;3>b</>"),
    ("~~struck~~", "<9>struck</>"),
    ("~one~", "~one~"),
    ("`a ** b`", "<36>a ** b</>"),
    ("`` ` ``", "<36>`</>"),
    ("**`x**`**", "<1;36>x**</>"),
    ("这是**重点**内容", "这是<1>重点</>内容"),
    ("snake_case_name and __init__", "snake_case_name and <1>init</>"),
    ("2 * 3 * 4, 2*3*4, 2**3**4", "2 * 3 * 4, 2*3*4, 2**3**4"),
    ("pass **kwargs on", "pass **kwargs on"),
    ("a \\*b\\* c", "a *b* c"),
    ("a \\n b\\", "a \\n b\\"),
    ("[docs](https://a.example/b_(c)) here", "<4>docs</><2> (https://a.example/b_(c))</> here"),
    ('[docs](<https://a.example> "title")', "<4>docs</><2> (https://a.example)</>"),
    ("[https://a.example](https://a.example)", "<4>https://a.example</>"),
    ("[*a*](b)", "<4;3>a</><2> (b)</>"),
    ("![a cat](cat.png)", "<2>[image: a cat]</><2> (cat.png)</>"),
    ("see [1] and [x](", "see [1] and [x]("),
    ("wow! ok", "wow! ok"),
]


@pytest.mark.parametrize(("line", "expected"), CASES)
def test_a_complete_line_is_styled(line: str, expected: str) -> None:
    spans, length = read_spans(line, True)
    assert marked(spans) == expected
    assert length == len(line)


@pytest.mark.parametrize(
    ("start", "read"),
    [
        ("plain text", "plain text"),
        ("ab **cd", "ab "),
        ("ab **cd*", "ab "),
        ("ab *", "ab "),
        ("code `x", "code "),
        ("a [link](http", "a "),
        ("a [link]", "a "),
        ("look!", "look"),
        ("a \\", "a "),
        ("**a** and", "<1>a</> and"),
    ],
)
def test_an_open_marker_waits_for_the_rest_of_the_line(start: str, read: str) -> None:
    spans, length = read_spans(start, False)
    assert marked(spans) == read
    assert length < len(start) or marked(spans) in (start, "<1>a</> and")


@pytest.mark.parametrize("marker", ["**", "`", "[", "*"])
def test_an_unclosed_marker_becomes_text_after_a_limit(marker: str) -> None:
    waiting, too_long = marker + "a" * (MAX_SPAN - 2), marker + "a" * (MAX_SPAN + 2)
    assert read_spans(waiting, False) == ([], 0)
    assert read_spans(too_long, False) == ([Span(too_long)], len(too_long))


def test_the_character_before_decides_about_emphasis() -> None:
    """After a letter, stars are a product and underscores part of a name."""
    assert marked(read_spans("_b_", True, before="a")[0]) == "_b_"
    assert marked(read_spans("_b_", True, before=" ")[0]) == "<3>b</>"


def test_nesting_is_limited() -> None:
    nested = "**a *b **c *d **e** d* c** b* a**"
    spans, _ = read_spans(nested, True)
    assert max(len(span.codes) for span in spans) <= 5


def test_outer_styles_are_kept() -> None:
    assert read_spans("a **b**", True, codes=("4",))[0] == [Span("a ", ("4",)), Span("b", ("4", "1"))]
