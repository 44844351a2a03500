"""The base modules of the page: numbers as `penstock explain` writes them, text, links, events in pieces."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Error, Page

from penstock.formatting import counted, format_duration, format_size
from tests.inspector.browser.conftest import Visits

pytestmark = pytest.mark.page

_RUN = """async ([file, value]) => {
    const module = await import(new URL(`inspector/${file}`, document.baseURI).href);
    return (FUNCTION)(module, value);
}"""


@pytest.fixture
def page(visit: Visits) -> Page:
    return visit().go("", view="turns")


def run(page: Page, file: str, function: str, value: Any = None) -> Any:
    """Call a function of JavaScript with a module of the page and a value."""
    return page.evaluate(_RUN.replace("FUNCTION", function), [file, value])


def test_durations_and_sizes_are_written_as_in_explain(page: Page) -> None:
    milliseconds = [12.0, 350.0, 999.4, 999.6, 2100.0, 59_994.0, 59_996.0, 200_000.0, 3_725_000.0]
    written = run(
        page, "format.js", "(module, all) => all.map((each) => module.duration(each))", milliseconds
    )
    assert written == [format_duration(each / 1000) for each in milliseconds]
    sizes = [0, 1, 999, 1000, 9_949, 9_951, 34_000, 999_499, 999_999, 1_200_000, 5 * 10**9]
    written = run(page, "format.js", "(module, all) => all.map((each) => module.bytes(each))", sizes)
    assert written == [format_size(each) for each in sizes]
    counts = [0, 1, 2, 20_000]
    written = run(
        page, "format.js", "(module, all) => all.map((each) => module.counted(each, 'turn'))", counts
    )
    assert written == [counted(each, "turn") for each in counts]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with\ttabs\nand lines", "plain, with\ttabs\nand lines"),
        ("\x1b[2J\x07", "⟦ESC⟧[2J⟦U+0007⟧"),
        ("a\u202eb\u2066c\u200bd\ufeff", "a⟦RLO⟧b⟦LRI⟧c⟦ZWSP⟧d⟦BOM⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("👨\u200d👩\u200d👧 می\u200cخواهم", "👨\u200d👩\u200d👧 می\u200cخواهم"),
        ("a\u200db", "a⟦ZWJ⟧b"),
    ],
)
def test_hidden_characters_become_marks(page: Page, text: str, shown: str) -> None:
    assert run(page, "text.js", "(module, text) => module.clean(text)", text) == shown


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://evil.example",
        "\tjava\nscript:alert(1)",
        "vbscript:x",
    ],
)
def test_an_unsafe_link_is_refused(page: Page, url: str) -> None:
    with pytest.raises(Error, match="a link must be relative"):
        run(page, "dom.js", "(module, href) => { module.h('a', { href }); }", url)


@pytest.mark.parametrize("attribute", ["srcdoc", "formaction", "onclick", "innerHTML", "xlink:href"])
def test_an_unknown_attribute_is_refused(page: Page, attribute: str) -> None:
    with pytest.raises(Error, match="is not allowed"):
        run(page, "dom.js", "(module, name) => { module.h('div', { [name]: 'x' }); }", attribute)


def test_a_stream_is_read_from_pieces_of_any_size(page: Page) -> None:
    stream = (
        ": hi\nevent: a\ndata: 1\n\ndata: 2\r\ndata: 3\r\n\r\nevent: b\rdata: 4\r\rdata\n\nid: 7\ndata:5\n\n"
    )
    code = """(module, [stream, size]) => {
        const found = [];
        const decoder = new module.EventDecoder(({ event, data }) => found.push([event, data]));
        for (let at = 0; at < stream.length; at += size) decoder.feed(stream.slice(at, at + size));
        return found;
    }"""
    expected = [["a", "1"], ["message", "2\n3"], ["b", "4"], ["message", ""], ["message", "5"]]
    for size in (1, 2, 3, 5, len(stream)):
        assert run(page, "api.js", code, [stream, size]) == expected
