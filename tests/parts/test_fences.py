"""An open code block is closed, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from penstock.parts.fences import closing_fence
from tests.effort import examples

OPEN = {
    "```py\nx = 1": "\n```",
    "```py\nx = 1\n": "```",
    "Look:\r\n\r\n~~~\r\nx": "\n~~~",
    "Look:\n  ````\n```\nx": "\n````",
    "```": "\n```",
    "```\n~~~": "\n```",
    "```\n``` no": "\n```",
    "```\n``": "\n```",
    "~~~ a`b\nx": "\n~~~",
    "- a\n\n```\nx": "\n```",
    "> a\n```\nx": "\n```",
    "- ```\n  x\n\n```\ny": "\n```",
    "* * *\n  ```\nx": "\n```",
    "```\na\n```\n```\nb": "\n```",
}
CLOSED = {
    "nothing": "",
    "no fence": "Water flows.",
    "a closed fence": "```py\nx = 1\n```",
    "a closed fence with spaces": "```\nx\n  ````  \n\nSo.",
    "code in a line": "Use ```x``` here.\n```a`b```",
    "an indented block": "    ```\n    x",
    "a fence in a list": "1. Do\n\n   ```py\n   x = 1",
    "a fence in a nested list": "- a\n  - b\n\n    ```\n    x",
    "a fence on the line of an item": "- ```\n  x",
    "a fence in a quote": "> ```\n> x",
    "a fence in a list in a quote": "> 1. ```\n>    x",
    "a fence in an empty item": "-\n  ```\n  x",
    "a fence that its list ended": "- ```\n  x\n\nSo.",
}


@pytest.mark.parametrize(("text", "closing"), OPEN.items(), ids=range(len(OPEN)))
def test_an_open_fence_is_closed(text: str, closing: str) -> None:
    assert closing_fence(text) == closing


@pytest.mark.parametrize("text", CLOSED.values(), ids=CLOSED.keys())
def test_nothing_is_appended_to_other_texts(text: str) -> None:
    assert closing_fence(text) == ""


lines = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", " ", "  ", "   ", "    ", "      ", "\t"]),
    st.sampled_from(["", "", "- ", "1. ", "* ", "> ", "> - ", "- 2) ", "-   ", "-      "]),
    st.sampled_from(["", "```", "```py", "````", "~~~", "``` x`y", "``", "a", "---", "b ```"]),
)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(lines, max_size=8).map("\n".join))
def test_what_follows_any_text_is_not_code(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(f"{text}{closing_fence(text)}\n\n---\n\nEND")
    assert [token.type for token in tokens[-4:]] == ["hr", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[-2].content == "END"
    assert tokens[-4].level == 0
