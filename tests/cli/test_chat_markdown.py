"""Markdown on a terminal: the same whatever the pieces, safe whatever the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.chat.markdown import MarkdownRenderer
from penstock.cli.chat.markdown_inline import MAX_SPAN
from penstock.cli.chat.markdown_tables import MAX_BUFFERED
from penstock.cli.terminal_text import columns, one_line, safe, shortened
from tests.effort import examples

STYLE = re.compile(r"\x1b\[[0-9;]*m")

MARKERS = [
    *(
        "*",
        "**",
        "***",
        "_",
        "__",
        "`",
        "``",
        "```",
        "~~",
        "~~~",
        "#",
        "## ",
        "> ",
        ">",
        "- ",
        "+ ",
        "1. ",
        "---",
    ),
    *(
        "[",
        "](",
        ")",
        "![",
        "\\",
        "|",
        "|-|",
        "| a | b |\n|---|--:|\n",
        "\n",
        "\n\n",
        " ",
        "\t",
        "a",
        "word",
        "水",
    ),
    *("https://x.example", "```python\n", "\x1b[31m", "\x9b", "\r\n", "\u202e", "é", "👩‍💻"),
]
texts = st.lists(st.sampled_from(MARKERS) | st.text(max_size=4), max_size=40).map("".join)


def rendered(*pieces: str, coloured: bool = True) -> str:
    renderer = MarkdownRenderer(coloured=coloured)
    return "".join([*map(renderer.feed, pieces), renderer.end()])


def shown(*pieces: str) -> str:
    return STYLE.sub("", rendered(*pieces))


@settings(max_examples=examples(600))
@given(texts, st.data())
def test_what_is_shown_does_not_depend_on_how_the_text_was_cut(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert shown(*pieces) == shown(text)


@settings(max_examples=examples(300))
@given(texts)
def test_one_character_at_a_time_shows_the_same(text: str) -> None:
    assert shown(*text) == shown(text)


@given(texts | st.text())
def test_no_escape_sequence_of_the_text_survives(text: str) -> None:
    for coloured in (True, False):
        written = STYLE.sub("", rendered(*text, coloured=coloured))
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", written)


@given(texts)
def test_every_word_is_shown(text: str) -> None:
    """Markers may go; what stands between them may not."""
    words = re.findall(r"[a-z]{4}|水", safe(text))
    written = shown(text)
    assert all(word in written for word in words)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("**bold** text", "<1>bold</> text"),
        ("an *italic* word", "an <3>italic</> word"),
        ("***both***", "<1;3>both</>"),
        ("**a *b* c**", "<1>a </><1;3>b</><1> c</>"),
        ("**a *b***", "<1>a </><1;3>b</>"),
        ("~~gone~~", "<9>gone</>"),
        ("`a ** b`", "<36>a ** b</>"),
        ("`` ` ``", "<36>`</>"),
        ("**`x**`**", "<1;36>x**</>"),
        ("这是**重点**内容", "这是<1>重点</>内容"),
        ("snake_case_name and __init__", "snake_case_name and <1>init</>"),
        ("2 * 3 * 4, 2*3*4, 2**3**4", "2 * 3 * 4, 2*3*4, 2**3**4"),
        ("pass **kwargs on", "pass **kwargs on"),
        ("a \\*b\\* c", "a *b* c"),
        ("[docs](https://a.example/b_(c)) here", "<4>docs</><2> (https://a.example/b_(c))</> here"),
        ("[https://a.example](https://a.example)", "<4>https://a.example</>"),
        ("![a cat](cat.png)", "<2>[image: a cat]</><2> (cat.png)</>"),
        ("see [1] and [x](", "see [1] and [x]("),
        ("# Title", "<1;4>Title</>"),
        ("## Part `x`", "<1>Part </><1;36>x</>"),
        ("#hashtag", "#hashtag"),
        ("- one\n  * two\n1. three", "• one\n  • two\n1. three"),
        ("* **a**: b", "• <1>a</>: b"),
        ("> said\n> > twice", "<2>│ </>said\n<2>│ </><2>│ </>twice"),
        ("---\n***", "<2>────────────────────────</>\n<2>────────────────────────</>"),
        ("```py\na = '**'\n```\nb", "<2>```py</>\n<36>a = '**'</>\n<2>```</>\nb"),
        ("  ```\n  x\n  ```", "<2>  ```</>\n<36>  x</>\n<2>  ```</>"),
        ("````\n```\n````", "<2>````</>\n<36>```</>\n<2>````</>"),
        ("> ```\n> x\n> ```", "<2>│ </><2>```</>\n<2>│ </><36>x</>\n<2>```</>"),
        ("```a``` b", "<36>a</> b"),
        ("| not a table\nx", "| not a table\nx"),
    ],
)
def test_markdown_is_styled(text: str, wanted: str) -> None:
    written = rendered(text).replace("\x1b[0m", "</>")
    assert re.sub(r"\x1b\[([0-9;]+)m", r"<\1>", written) == wanted


def test_a_table_has_columns() -> None:
    text = "| city | °C |\n|:--|--:|\n| Oslo | 3 |\n| 東京 | **21** |\n\nAnd so on."
    assert shown(text).splitlines() == [
        "city │ °C",
        "─────┼───",
        "Oslo │  3",
        "東京 │ 21",
        "",
        "And so on.",
    ]


def test_a_long_table_is_shown_before_it_is_over() -> None:
    renderer = MarkdownRenderer()
    written = renderer.feed("| a | b |\n|---|---|\n" + "| x | y |\n" * (MAX_BUFFERED - 1))
    assert STYLE.sub("", written).count("x │ y") == MAX_BUFFERED - 1
    assert STYLE.sub("", renderer.feed("| longer | y | z |\n")) == "longer │ y │ z\n"


def test_text_goes_out_as_it_comes() -> None:
    renderer = MarkdownRenderer()
    assert renderer.feed("Hello, ") == "Hello, "
    assert renderer.feed("wor") == "wor"
    assert renderer.feed("ld **now") == "ld "
    assert STYLE.sub("", renderer.feed("** and")) == "now and"
    assert renderer.feed("\n```\ncode without") != ""
    assert "an end" in renderer.feed(" an end")


def test_a_marker_without_its_other_half_is_text_and_does_not_wait_for_ever() -> None:
    renderer = MarkdownRenderer()
    assert renderer.feed("**" + "a" * MAX_SPAN) == ""
    assert renderer.feed("aa") == "**" + "a" * (MAX_SPAN + 2)


def test_the_next_answer_begins_anew() -> None:
    renderer = MarkdownRenderer()
    renderer.feed("```\nnever closed")
    renderer.end()
    assert renderer.feed("# T") + renderer.end() == "\x1b[1;4mT\x1b[0m"


def test_without_colour_the_text_is_left_as_it_is() -> None:
    assert rendered("# A\n**b** ", "\x1b[1mc\n", coloured=False) == "# A\n**b** \\x1b[1mc\n"


def test_safe_text_keeps_what_languages_and_emoji_need() -> None:
    kept = "a\tb\n\u00a0\u3000می\u200cخواهم 👩\u200d💻 🏳\ufe0f"
    assert safe(kept) == kept
    assert safe("a\x1b]0;t\x07\r\nb\u202e\ud800") == "a\\x1b]0;t\\x07\nb\\u202e\\ud800"


def test_a_line_is_cut_by_columns() -> None:
    assert shortened("水水水", 4) == "水…"
    assert (columns("水e\u0301"), shortened("abc", 3), one_line(" a\n b ", 9)) == (3, "abc", "a b")
