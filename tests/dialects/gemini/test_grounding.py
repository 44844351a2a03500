"""Citations and searches of Gemini (quirk G9)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.grounding import Grounding, WrittenText
from penstock.protocol.content import FileCitation, UrlCitation
from penstock.stream.deltas import (
    AnnotationDelta,
    ItemDelta,
)
from tests.dialects.gemini.streams import call, chunk
from tests.dialects.recording_checks import (
    read,
    response,
)


def grounding(**more: Any) -> dict[str, Any]:
    return {
        "groundingChunks": [
            {"web": {"uri": "https://a.example", "title": "A"}},
            {"web": {"uri": "https://b.example", "title": "B"}},
        ],
        **more,
    }


def support(start: int, end: int, *indexes: Any) -> dict[str, Any]:
    return {"segment": {"startIndex": start, "endIndex": end}, "groundingChunkIndices": list(indexes)}


def citations(snapshot: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (each["url"], each["start_index"], each["end_index"])
        for item in snapshot["output"]
        if item["type"] == "message"
        for each in item["content"][0]["annotations"]
    ]


def test_citations_are_sent_once_with_character_offsets() -> None:
    supports = [support(3, 6, 0), support(0, 3, 0), support(0, 99, 7, "x")]
    chunks = [
        chunk({"text": "é°"}, groundingMetadata=grounding()),
        chunk({"text": "ßxy"}, groundingMetadata=grounding(groundingSupports=supports)),
        chunk(finish="STOP", groundingMetadata=grounding(groundingSupports=supports)),
    ]
    # Bytes 3 to 6 are the second half of the second character up to the end of the third.
    assert citations(response(DIALECT, chunks)) == [
        ("https://a.example", 1, 3),
        ("https://b.example", 0, 0),
    ]


def test_citation_offsets_are_relative_to_their_message() -> None:
    chunks = [
        chunk({"text": "one"}, call("f"), {"text": "two"}),
        chunk(
            finish="STOP",
            groundingMetadata=grounding(groundingSupports=[support(3, 6, 0), support(-5, 2, 1)]),
        ),
    ]
    assert citations(response(DIALECT, chunks)) == [
        ("https://a.example", 0, 3),
        ("https://b.example", 0, 0),
    ]


def test_a_truncated_stream_keeps_its_citations() -> None:
    snapshot = response(DIALECT, [chunk({"text": "x"}, groundingMetadata=grounding(webSearchQueries=["q"]))])
    assert [url for url, *_ in citations(snapshot)] == ["https://a.example", "https://b.example"]
    assert snapshot["error"]["code"] == "upstream_truncated"


def test_files_maps_and_images_are_cited() -> None:
    sources = [
        {"retrievedContext": {"fileSearchStore": "stores/1", "title": "facts.txt"}},
        {"retrievedContext": {"uri": "https://c.example"}},
        {"maps": {"uri": "https://d.example", "title": "D"}},
        {"image": {"sourceUri": "https://e.example"}},
        {"unknown": {}},
    ]
    cited = chunk(
        {"text": "x"},
        finish="STOP",
        groundingMetadata={"groundingChunks": sources},
        citationMetadata={
            "citationSources": [{"uri": "https://f.example", "endIndex": 1}, {"license": "mit"}]
        },
    )
    annotations = [delta.annotation for delta in read(DIALECT, [cited]) if isinstance(delta, AnnotationDelta)]
    assert [getattr(each, "url", "") for each in annotations] == [
        "https://f.example",
        "",
        "https://c.example",
        "https://d.example",
        "https://e.example",
    ]
    assert annotations[1] == FileCitation(file_id="stores/1", filename="facts.txt", index=0)


def test_searches_and_pages_are_items_after_the_message() -> None:
    chunks = [
        chunk(
            {"text": "x"},
            groundingMetadata={"webSearchQueries": ["q", "q", 1], "retrievalQueries": ["r"]},
            urlContextMetadata={
                "urlMetadata": [
                    {
                        "retrievedUrl": "https://a.example",
                        "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS",
                    },
                    {"retrievedUrl": "https://b.example", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
                ]
            },
        ),
        chunk({"text": "y"}, finish="STOP"),
        chunk(finish="STOP"),
    ]
    output = response(DIALECT, chunks)["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        ("message", "completed"),
        ("web_search_call", "completed"),
        ("file_search_call", "completed"),
        ("web_search_call", "completed"),
        ("web_search_call", "failed"),
    ]
    assert output[1]["action"] == {"type": "search", "query": "q", "queries": ["q"]}


@pytest.mark.parametrize(
    ("offset", "character"),
    [(-5, 0), (0, 0), (1, 1), (2, 1), (3, 2), (6, 3), (7, 4), (8, 5), (99, 5)],
)
def test_a_byte_offset_becomes_a_character_offset(offset: int, character: int) -> None:
    """A byte inside a character belongs to the character before it."""
    written = WrittenText()
    for piece in ("a\u00df", "\u20acx", "y"):  # 1, 2, 3, 1 and 1 bytes
        written.add(piece)
    assert written.character(offset) == character


def test_offsets_start_again_in_a_new_message() -> None:
    written = WrittenText()
    written.add("first")
    written.interrupt()
    written.interrupt()
    written.add("second")
    assert [written.character(offset) for offset in (0, 5, 7, 99)] == [0, 0, 2, 6]


def test_a_source_is_cited_once_even_if_its_position_arrives_late() -> None:
    grounding_ = Grounding()
    grounding_.text.add("text")
    metadata = {"groundingMetadata": grounding()}
    assert grounding_.read(metadata) == []
    placed = {"groundingMetadata": grounding(groundingSupports=[support(0, 4, 1)])}
    (first,) = grounding_.read(placed)
    assert isinstance(first, AnnotationDelta)
    assert isinstance(first.annotation, UrlCitation)
    assert (first.annotation.url, first.annotation.end_index) == ("https://b.example", 4)
    assert grounding_.read(placed) == []
    (last,) = grounding_.finish()
    assert isinstance(last, AnnotationDelta)
    assert isinstance(last.annotation, UrlCitation)
    assert last.annotation.url == "https://a.example"
    assert grounding_.finish() == []


def test_queries_of_tools_that_were_called_are_not_repeated() -> None:
    grounding_ = Grounding()
    grounding_.called_types.add("web_search_call")
    grounding_.read({"groundingMetadata": {"webSearchQueries": ["a"], "retrievalQueries": ["b"]}})
    assert [delta.item.type for delta in grounding_.finish() if isinstance(delta, ItemDelta)] == [
        "file_search_call"
    ]
