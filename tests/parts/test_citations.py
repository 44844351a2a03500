"""Citations become links that nothing in a title or URL can break."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from penstock.parts.citations import CitationList, link_to
from penstock.protocol.content import FileCitation, UnknownAnnotation, UrlCitation
from tests.effort import examples

A = "https://a.example"

LINKS: dict[str, tuple[Any, str]] = {
    "with a title": (UrlCitation(url=A, title="A"), f" [A]({A})"),
    "without a title": (UrlCitation(url=f"{A}:8080/x?y#z"), f" [a.example]({A}:8080/x?y#z)"),
    "without a title, with a user": (
        UrlCitation(url="http://me:pw@b.example/"),
        " [b.example](http://me:pw@b.example/)",
    ),
    "an IPv6 address": (UrlCitation(url="http://[::1]/x"), " [\\[::1\\]](http://[::1]/x)"),
    "a title with brackets": (UrlCitation(url=A, title="A [draft] \\ 2"), f" [A \\[draft\\] \\\\ 2]({A})"),
    "a title with lines": (UrlCitation(url=A, title=" A\n\n# B\r\tC "), f" [A # B C]({A})"),
    "a title with markup": (
        UrlCitation(url=A, title="*A* `b` <i> $(x)"),
        f" [\\*A\\* \\`b\\` \\<i\\> \\$(x)]({A})",
    ),
    "a title with an entity": (UrlCitation(url=A, title="Q&A &lt;"), f" [Q&A \\&lt;]({A})"),
    "a long title": (UrlCitation(url=A, title="x" * 500), f" [{'x' * 200}…]({A})"),
    "an address with parentheses": (UrlCitation(url=f"{A}/x_(y)", title="A"), f" [A]({A}/x_%28y%29)"),
    "an address with one parenthesis": (UrlCitation(url=f"{A}/x)", title="A"), f" [A]({A}/x%29)"),
    "an address with spaces": (UrlCitation(url=f" {A}/x y\n", title="A"), f" [A]({A}/x%20y)"),
    "an address with angles": (UrlCitation(url=f"{A}/<x>", title="A"), f" [A]({A}/%3Cx%3E)"),
    "an address with a backslash": (UrlCitation(url=f"{A}/\\)", title="A"), f" [A]({A}/%5C%29)"),
    "an address with a bar": (UrlCitation(url=f"{A}/?x|y", title="A"), f" [A]({A}/?x%7Cy)"),
    "an address with entities": (
        UrlCitation(url=f"{A}/?a&copy;=1&b=2&#35;", title="A"),
        f" [A]({A}/?a&amp;copy;=1&b=2&amp;#35;)",
    ),
    "half a surrogate pair": (UrlCitation(url=f"{A}/\ud83d", title="\ud83d A"), f" [A]({A}/%3F)"),
    "capital letters": (UrlCitation(url="HTTPS://A.example/", title="A"), " [A](HTTPS://A.example/)"),
    "a script": (UrlCitation(url="javascript:alert(1)", title="A"), ""),
    "a command": (UrlCitation(url="command:workbench.action.quit", title="A"), ""),
    "a path": (UrlCitation(url="/etc/passwd", title="A"), ""),
    "no host": (UrlCitation(url="https:///x", title="A"), ""),
    "no address": (FileCitation(file_id="file_1", filename="a.txt"), ""),
    "an empty address": (UrlCitation(url=""), ""),
    "an unknown kind": (UnknownAnnotation(type="page", extra={"url": A}), ""),
    "nothing": (None, ""),
}


@pytest.mark.parametrize(("annotation", "link"), LINKS.values(), ids=LINKS.keys())
def test_a_citation_as_a_link(annotation: Any, link: str) -> None:
    assert link_to(annotation) == link


def listed(*annotations: Any) -> str:
    sources = CitationList()
    for each in annotations:
        sources.add(each)
    return sources.markdown


def test_a_list_has_each_url_once_in_the_order_of_the_first_citation() -> None:
    cited = [UrlCitation(url=f"{A}/{name}", title=name) for name in "babcb"]
    rows = [f"1. [b]({A}/b)", f"2. [a]({A}/a)", f"3. [c]({A}/c)"]
    assert listed(*cited) == "\n\n---\n\n" + "\n".join(rows) + "\n"


def test_a_later_citation_may_have_the_title() -> None:
    assert f"1. [Rivers]({A})\n" in listed(UrlCitation(url=A), UrlCitation(url=A, title="Rivers"))
    assert f"1. [Rivers]({A})\n" in listed(UrlCitation(url=A, title="Rivers"), UrlCitation(url=A, title="B"))


def test_without_web_addresses_there_is_no_list() -> None:
    assert listed(FileCitation(file_id="file_1"), UrlCitation(url="ftp://a.example")) == ""


def rendered(markdown: str) -> list[tuple[str, list[str]]]:
    """Return the blocks of a page: the tag of each, and the addresses of its links."""
    blocks: list[tuple[str, list[str]]] = []
    for token in MarkdownIt("commonmark").parse(markdown):
        if token.nesting != -1 and token.type != "inline":
            blocks.append((token.tag, []))
        links = [str(each.attrs["href"]) for each in token.children or [] if each.type == "link_open"]
        if token.type == "inline":
            blocks[-1][1].extend(links)
    return blocks


ANSWERS = ["Water flows.", "1. One\n2. Two", "- One", "| a |\n|---|\n| b |", "> quoted", "# Title"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_list_is_a_list_of_its_own_after_any_answer(answer: str) -> None:
    blocks = rendered(answer + listed(UrlCitation(url=A, title="A"), UrlCitation(url=f"{A}/2", title="B")))
    expected = [("hr", []), ("ol", []), ("li", []), ("p", [A]), ("li", []), ("p", [f"{A}/2"])]
    assert blocks[-len(expected) :] == expected


def test_a_link_stays_in_its_cell_of_a_table() -> None:
    row = f"| a{link_to(UrlCitation(url=f'{A}/x|y', title='X|Y'))} | b |"
    tokens = MarkdownIt("commonmark").enable("table").parse(f"| 1 | 2 |\n|---|---|\n{row}")
    cells = [token for token in tokens if token.type == "inline"][2:]
    links = [each.attrs["href"] for cell in cells for each in cell.children or [] if each.attrs]
    assert (len(cells), cells[1].content, links) == (2, "b", [f"{A}/x%7Cy"])


hostile = st.lists(
    st.sampled_from([*"ab \n\t\\`*_[]()<>!|~$&;#1.-:/\"'?=\u2028", "&copy;", "&amp;", "&#35;", "&#x41;"]),
    max_size=30,
).map("".join)


@settings(max_examples=examples(300), deadline=None)
@given(hostile, hostile)
def test_no_title_and_no_url_breaks_a_list(title: str, path: str) -> None:
    markdown = listed(
        UrlCitation(url=f"{A}/{path}", title=title), UrlCitation(url="https://z.example/", title="Z")
    )
    blocks = rendered(f"Water.{markdown}")
    assert [tag for tag, _ in blocks] == ["p", "hr", "ol", "li", "p", "li", "p"]
    first, last = (links for tag, links in blocks[4::2] if tag == "p")
    assert [unquote(each) for each in first] == [f"{A}/{path}".strip()]
    assert last == ["https://z.example/"]
