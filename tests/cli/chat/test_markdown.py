"""Rendering streamed Markdown: independent of how the text is split, and safe for any text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.chat.markdown import MarkdownRenderer
from penstock.cli.chat.markdown_inline import MAX_SPAN
from penstock.cli.terminal_text import safe
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
def test_the_output_does_not_depend_on_how_the_text_is_split(text: str, data: st.DataObject) -> None:
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
    """Markers may be removed, but not the text between them."""
    words = re.findall(r"[a-z]{4}|水", safe(text))
    written = shown(text)
    assert all(word in written for word in words)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("**bold** text", "<1>bold</> text"),
        ("an *italic* word", "an <3>italic</> word"),
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


def test_text_is_written_as_it_arrives() -> None:
    renderer = MarkdownRenderer()
    assert renderer.feed("Hello, ") == "Hello, "
    assert renderer.feed("wor") == "wor"
    assert renderer.feed("ld **now") == "ld "
    assert STYLE.sub("", renderer.feed("** and")) == "now and"
    assert renderer.feed("\n```\ncode without") != ""
    assert "an end" in renderer.feed(" an end")


def test_an_unclosed_marker_becomes_text_after_a_limit() -> None:
    renderer = MarkdownRenderer()
    assert renderer.feed("**" + "a" * MAX_SPAN) == ""
    assert renderer.feed("aa") == "**" + "a" * (MAX_SPAN + 2)


def test_the_end_resets_the_renderer() -> None:
    renderer = MarkdownRenderer()
    renderer.feed("```\nnever closed")
    renderer.end()
    assert renderer.feed("# T") + renderer.end() == "\x1b[1;4mT\x1b[0m"


def test_without_colour_the_text_stays_unchanged() -> None:
    assert rendered("# A\n**b** ", "\x1b[1mc\n", coloured=False) == "# A\n**b** \\x1b[1mc\n"
