"""Tools that the vendor ran itself, and images that it generated."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.content import UrlCitation
from penstock.stream.deltas import (
    AnnotationDelta,
    DiagnosticDelta,
    ItemDelta,
    ToolCallDelta,
)
from tests.dialects.chat_streams import DONE, answer, chunk, of, read

SEARCH = {"index": 0, "type": "search", "arguments": '{"query": "q"}'}


RESULTS = {"results": [{"url": "http://a", "title": "A"}]}


def test_a_search_that_the_vendor_ran_is_an_item_and_not_a_call() -> None:
    found = {**SEARCH, "output": "Title: …", "search_results": RESULTS}
    deltas = read(
        chunk({"executed_tools": [SEARCH]}),
        chunk({"executed_tools": [found]}),
        chunk({"executed_tools": [found]}),
    )
    items = of(deltas, ItemDelta)
    assert [(each.item.type, each.done) for each in items] == [
        ("web_search_call", False),
        ("web_search_call", True),
    ]
    assert items[1].item.action == {
        "type": "search",
        "query": "q",
        "sources": [{"type": "url", "url": "http://a"}],
    }
    assert of(deltas, AnnotationDelta) == [AnnotationDelta(UrlCitation(url="http://a", title="A"))]
    assert of(deltas, ToolCallDelta) == []
    response = answer(
        chunk({"executed_tools": [SEARCH]}), chunk({"executed_tools": [found], "content": "x"}), DONE
    )
    assert [item["type"] for item in response["output"]] == ["web_search_call", "message"]


EXECUTED: list[tuple[dict[str, Any], Any]] = [
    (
        {"type": "visit", "arguments": '{"url": "http://a"}', "output": ""},
        ("action", {"type": "open_page", "url": "http://a"}),
    ),
    ({"type": "search", "arguments": "{", "output": ""}, ("action", {"type": "search", "query": ""})),
]


@pytest.mark.parametrize(("tool", "expected"), EXECUTED)
def test_other_tools_that_the_vendor_ran(tool: dict[str, Any], expected: tuple[str, Any]) -> None:
    (item,) = of(read(chunk({"executed_tools": [tool]})), ItemDelta)
    assert getattr(item.item, expected[0]) == expected[1]


def test_code_that_the_vendor_ran_is_an_item_with_its_output() -> None:
    tool = {"type": "python", "arguments": '{"code": "1+1"}', "output": "2"}
    (item,) = of(read(chunk({"executed_tools": [tool]})), ItemDelta)
    assert item.item.type == "code_interpreter_call"
    assert item.item.extra["outputs"] == [{"type": "logs", "logs": "2"}]


def test_an_unknown_tool_of_the_vendor_is_reported_once() -> None:
    deltas = read(*[chunk({"executed_tools": [{"type": "oracle"}]})] * 2)
    assert [each.code for each in of(deltas, DiagnosticDelta)] == ["executed_tool_left_out"]


def test_generated_images_are_items() -> None:
    images = [
        {"type": "image_url", "image_url": {"url": url}} for url in ("data:image/png;base64,AAAA", "http://a")
    ]
    deltas = read(*[chunk({"images": images})] * 2)
    (item,) = of(deltas, ItemDelta)
    assert (item.item.type, item.item.extra) == ("image_generation_call", {"result": "AAAA"})
    assert [each.code for each in of(deltas, DiagnosticDelta)] == ["image_left_out"]
