"""Citations and searches of Gemini (quirk G9)."""

from __future__ import annotations

from typing import Any

from penstock.dialects.gemini import DIALECT
from penstock.protocol.content import FileCitation
from penstock.stream.deltas import (
    AnnotationDelta,
)
from tests.dialects.gemini.streams import call, chunk
from tests.dialects.reading_proof import (
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
