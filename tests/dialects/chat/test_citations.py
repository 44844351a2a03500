"""Sources that a vendor lists next to its text."""

from __future__ import annotations

from penstock.protocol.content import UrlCitation
from penstock.stream.deltas import (
    AnnotationDelta,
    DiagnosticDelta,
)
from tests.dialects.chat_streams import answer, chunk, of, read


def test_a_citation_is_emitted_once() -> None:
    nested = {
        "type": "url_citation",
        "url_citation": {"url": "http://a", "title": "A", "start_index": 0, "end_index": 0},
    }
    deltas = read(
        chunk({"content": "", "annotations": [nested]}), chunk({"content": "x", "annotations": [nested]})
    )
    assert of(deltas, AnnotationDelta) == [AnnotationDelta(UrlCitation(url="http://a", title="A"))]


def test_citations_of_one_url_differ_by_position() -> None:
    flat = [
        {"type": "url_citation", "url": "http://a", "start_index": 3, "end_index": end} for end in (5, 9, 1)
    ]
    deltas = read(chunk({"content": "x", "annotations": flat}))
    assert [
        (each.annotation.start_index, each.annotation.end_index) for each in of(deltas, AnnotationDelta)
    ] == [
        (3, 5),
        (3, 9),
        (3, 3),
    ]


def test_sources_next_to_the_text_become_citations() -> None:
    sources = {
        "citations": ["http://a", {"url": "http://b"}, 7],
        "search_results": [{"url": "http://a", "title": "A"}],
    }
    response = answer(
        chunk({}, **sources), chunk({"content": "x"}, **sources), chunk(finish="stop", **sources)
    )
    annotations = response["output"][0]["content"][0]["annotations"]
    assert [(each["url"], each["title"]) for each in annotations] == [("http://a", "A"), ("http://b", "")]


def test_an_annotation_without_a_url_is_reported() -> None:
    deltas = read(chunk({"annotations": [{"type": "file", "file": {"name": "a.pdf"}}]}))
    assert [each.code for each in of(deltas, DiagnosticDelta)] == ["annotation_left_out"]
