"""What Gemini looked up (quirk G9): citations in the text, and the searches and pages behind them.

Gemini repeats this metadata while it grows, and tells the place of a citation late, in bytes. So a citation
goes out when its place is known or the answer ends, once for each thing cited; the searches go out at the
end, because an item in between would cut the message in two.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from penstock.lenient import camel_field, count_of, object_of, objects_of, text_of
from penstock.protocol.content import FileCitation, JsonObject, UrlCitation
from penstock.protocol.items import Item, UnknownItem, WebSearchCall
from penstock.stream.deltas import AnnotationDelta, Delta, ItemDelta

SOURCES = (("web", "uri"), ("retrievedContext", "uri"), ("maps", "uri"), ("image", "sourceUri"))
"""The kinds of source, and where each has its address."""

FILE_FIELDS = ("documentName", "fileSearchStore")
CITATION_LISTS = ("citationSources", "citations")
QUERIES = (
    ("webSearchQueries", "web_search_call"),
    ("imageSearchQueries", "web_search_call"),
    ("retrievalQueries", "file_search_call"),
)
RETRIEVED = ("URL_RETRIEVAL_STATUS_SUCCESS", 1)

Source = tuple[str, str, str]
"""An address or "", the id of a file or "", a title."""


class WrittenText:
    """The text of the answer so far: turns places in it from bytes into characters."""

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._bytes: list[int] = []
        self._characters: list[int] = []
        self._length = self._size = 0
        self._message_start = 0
        self._in_message = False

    def add(self, text: str) -> None:
        if not self._in_message:
            self._in_message, self._message_start = True, self._length
        self._chunks.append(text)
        self._bytes.append(self._size)
        self._characters.append(self._length)
        self._length += len(text)
        self._size += len(text) if text.isascii() else len(text.encode())

    def interrupt(self) -> None:
        """The message is over: text that follows is another, with places of its own."""
        self._in_message = False

    def character(self, offset: int) -> int:
        """Which character of the message is at this byte of the answer?"""
        index = bisect_right(self._bytes, offset) - 1
        if offset >= self._size:
            place = self._length
        elif index < 0:
            place = 0
        else:
            before = self._chunks[index].encode()[: offset - self._bytes[index]]
            place = self._characters[index] + len(before.decode(errors="ignore"))
        return max(0, place - self._message_start)


class Grounding:
    """What one answer is based on."""

    def __init__(self) -> None:
        self.text = WrittenText()
        self.called: set[str] = set()
        """The types of items that came as calls of their own: their queries are not told again."""
        self._cited: set[Source] = set()
        self._waiting: dict[Source, None] = {}
        self._searches: dict[tuple[str, str], Item] = {}
        self._told: set[tuple[str, str]] = set()

    def read(self, candidate: dict[str, Any]) -> list[Delta]:
        """The citations that can be told now."""
        deltas: list[Delta] = []
        citations = object_of(camel_field(candidate, "citationMetadata"))
        for name in CITATION_LISTS:
            for each in objects_of(camel_field(citations, name)):
                source = (text_of(each.get("uri")), "", text_of(each.get("title")))
                deltas += self._cite(source, each) if source[0] else []
        deltas += self._read_grounding(object_of(camel_field(candidate, "groundingMetadata")))
        pages = object_of(camel_field(candidate, "urlContextMetadata"))
        for page in objects_of(camel_field(pages, "urlMetadata")):
            url = text_of(camel_field(page, "retrievedUrl"))
            found = camel_field(page, "urlRetrievalStatus") in RETRIEVED
            if url:
                self._searches["page", url] = opened_page(url, "completed" if found else "failed")
        return deltas

    def citations(self) -> list[Delta]:
        """The citations whose place never came."""
        return [delta for source in list(self._waiting) for delta in self._cite(source, {})]

    def finish(self) -> list[Delta]:
        """The rest of the citations, then what was searched and read."""
        deltas = self.citations()
        for key, item in self._searches.items():
            if key not in self._told and item.type not in self.called:
                self._told.add(key)
                deltas.append(ItemDelta(":".join(key), item, done=True))
        return deltas

    def _read_grounding(self, grounding: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        sources = [_source_of(chunk) for chunk in objects_of(camel_field(grounding, "groundingChunks"))]
        for support in objects_of(camel_field(grounding, "groundingSupports")):
            for index in _list_of(camel_field(support, "groundingChunkIndices")):
                source = sources[index] if isinstance(index, int) and 0 <= index < len(sources) else None
                if source is not None:
                    deltas += self._cite(source, object_of(support.get("segment")))
        for source in sources:
            if source is not None and source not in self._cited:
                self._waiting[source] = None
        for name, type in QUERIES:
            for query in _list_of(camel_field(grounding, name)):
                if text_of(query):
                    self._searches[type, query] = searched(type, [query])
        return deltas

    def _cite(self, source: Source, segment: dict[str, Any]) -> list[Delta]:
        if source in self._cited:
            return []
        self._cited.add(source)
        self._waiting.pop(source, None)
        start, end = self._place_of(segment)
        url, file_id, title = source
        if url:
            citation = UrlCitation(url=url, title=title, start_index=start, end_index=end)
            return [AnnotationDelta(citation)]
        return [AnnotationDelta(FileCitation(file_id=file_id, filename=title, index=end))]

    def _place_of(self, segment: dict[str, Any]) -> tuple[int, int]:
        """Where the cited passage is; (0, 0) without an end, or in a part that we cannot tell apart."""
        end = count_of(camel_field(segment, "endIndex"))
        if end is None or count_of(camel_field(segment, "partIndex")):
            return 0, 0
        start = count_of(camel_field(segment, "startIndex")) or 0
        return self.text.character(min(start, end)), self.text.character(end)


def searched(type: str, queries: list[str], status: str = "completed") -> Item:
    """A search of the web or of files, in the shape of OpenAI's items."""
    if type == "web_search_call":
        action: JsonObject = {"type": "search", "query": queries[0] if queries else "", "queries": queries}
        return WebSearchCall(status=status, action=action)
    return UnknownItem(type=type, status=status, extra={"queries": queries, "results": None})


def opened_page(url: str, status: str = "completed") -> Item:
    return WebSearchCall(status=status, action={"type": "open_page", "url": url})


def _source_of(chunk: dict[str, Any]) -> Source | None:
    for kind, address in SOURCES:
        source = object_of(camel_field(chunk, kind))
        url, title = text_of(camel_field(source, address)), text_of(source.get("title"))
        if url:
            return url, "", title
        file_ids = (camel_field(source, each) for each in FILE_FIELDS)
        file_id = next((text_of(each) for each in file_ids if each), "")
        if file_id or (source and title):
            return "", file_id, title
    return None


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
