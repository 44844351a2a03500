"""Tools that the vendor ran itself, and images that it generated."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.chat.hosted import Hosted
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


# Edge cases, directly


@pytest.mark.parametrize(
    ("tools", "keys"),
    [
        ([{"type": "search", "index": 3}, {"type": "visit", "index": 5}], ["3", "5"]),
        ([{"type": "search"}, {"type": "visit"}], ["0", "1"]),
        ([{"type": "search", "index": None}, {"type": "visit", "index": [1]}], ["0", "1"]),
    ],
)
def test_a_tool_is_identified_by_its_index_or_else_its_position(
    tools: list[dict[str, Any]], keys: list[str]
) -> None:
    deltas = Hosted().read({"executed_tools": tools})
    assert [each.key for each in of(deltas, ItemDelta)] == [f"executed_tool {key}" for key in keys]


def test_a_tool_is_not_repeated_after_its_output() -> None:
    hosted = Hosted()
    done = {"executed_tools": [{"type": "search", "index": 0, "output": ""}]}
    assert len(hosted.read(done)) == 1
    assert hosted.read(done) == []


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '{"query": 5}', None, "[" * 100_000])
def test_invalid_arguments_give_an_item_with_an_empty_query(arguments: Any) -> None:
    [delta] = Hosted().read({"executed_tools": [{"type": "search", "arguments": arguments}]})
    assert isinstance(delta, ItemDelta)
    assert getattr(delta.item, "action", None) == {"type": "search", "query": ""}


@pytest.mark.parametrize("url", ["", "https://a/b.png", "data:text/plain;base64,AA", "data:image/png,AA"])
def test_an_image_without_its_data_is_reported(url: str) -> None:
    [delta] = Hosted().read({"images": [{"image_url": {"url": url}}]})
    assert isinstance(delta, DiagnosticDelta)
    assert delta.code == "image_left_out"
