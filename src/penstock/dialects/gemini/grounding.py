"""Gemini's grounding (quirk G9): citations in the text, and the searches and pages they are based on.

Gemini repeats this metadata while it grows, and sends the position of a citation late, in bytes. So each
source is cited once, when its position is known or the answer ends. Searches are sent at the end, because an
item in between would split the message.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from penstock.lenient import camel_field, count_of, object_of, objects_of, text_of
from penstock.protocol.content import FileCitation, JsonObject, UrlCitation
from penstock.protocol.items import Item, UnknownItem, WebSearchCall
from penstock.stream.deltas import AnnotationDelta, Delta, ItemDelta

SOURCES = (("web", "uri"), ("retrievedContext", "uri"), ("maps", "uri"), ("image", "sourceUri"))
"""The kinds of source, and the field with the URL of each."""

FILE_FIELDS = ("documentName", "fileSearchStore")
CITATION_LISTS = ("citationSources", "citations")
QUERIES = (
    ("webSearchQueries", "web_search_call"),
    ("imageSearchQueries", "web_search_call"),
    ("retrievalQueries", "file_search_call"),
)
RETRIEVED = ("URL_RETRIEVAL_STATUS_SUCCESS", 1)

Source = tuple[str, str, str]
"""A URL or "", a file id or "", a title."""


class WrittenText:
    """The text of the answer so far. Converts byte offsets to character offsets."""

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
        """End the message: text after it belongs to a new message with its own offsets."""
        self._in_message = False

    def character(self, offset: int) -> int:
        """Return the character offset in the message for a byte offset in the answer."""
        index = bisect_right(self._bytes, offset) - 1
        if offset >= self._size:
            position = self._length
        elif index < 0:
            position = 0
        else:
            before = self._chunks[index].encode()[: offset - self._bytes[index]]
            position = self._characters[index] + len(before.decode(errors="ignore"))
        return max(0, position - self._message_start)


class Grounding:
    """Collect the citations and searches of one answer."""

    def __init__(self) -> None:
        self.text = WrittenText()
        self.called_types: set[str] = set()
        """Item types that the answer has as separate calls: their queries are not repeated."""
        self._cited: set[Source] = set()
        self._pending: dict[Source, None] = {}
        self._searches: dict[tuple[str, str], Item] = {}
        self._sent: set[tuple[str, str]] = set()

    def read(self, candidate: dict[str, Any]) -> list[Delta]:
        """Return the citations whose position is known."""
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
                self._searches["page", url] = open_page_item(url, "completed" if found else "failed")
        return deltas

    def citations(self) -> list[Delta]:
        """Return the citations whose position never arrived."""
        return [delta for source in list(self._pending) for delta in self._cite(source, {})]

    def finish(self) -> list[Delta]:
        """Return the remaining citations, then the searches and the opened pages."""
        deltas = self.citations()
        for key, item in self._searches.items():
            if key not in self._sent and item.type not in self.called_types:
                self._sent.add(key)
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
                self._pending[source] = None
        for name, type in QUERIES:
            for query in _list_of(camel_field(grounding, name)):
                if text_of(query):
                    self._searches[type, query] = search_item(type, [query])
        return deltas

    def _cite(self, source: Source, segment: dict[str, Any]) -> list[Delta]:
        if source in self._cited:
            return []
        self._cited.add(source)
        self._pending.pop(source, None)
        start, end = self._position_of(segment)
        url, file_id, title = source
        if url:
            citation = UrlCitation(url=url, title=title, start_index=start, end_index=end)
            return [AnnotationDelta(citation)]
        return [AnnotationDelta(FileCitation(file_id=file_id, filename=title, index=end))]

    def _position_of(self, segment: dict[str, Any]) -> tuple[int, int]:
        """Return the position of the citation; (0, 0) without an end, or in a part after the first."""
        end = count_of(camel_field(segment, "endIndex"))
        if end is None or count_of(camel_field(segment, "partIndex")):
            return 0, 0
        start = count_of(camel_field(segment, "startIndex")) or 0
        return self.text.character(min(start, end)), self.text.character(end)


def search_item(type: str, queries: list[str], status: str = "completed") -> Item:
    """Return the item for a search of the web or of files, in OpenAI's format."""
    if type == "web_search_call":
        action: JsonObject = {"type": "search", "query": queries[0] if queries else "", "queries": queries}
        return WebSearchCall(status=status, action=action)
    return UnknownItem(type=type, status=status, extra={"queries": queries, "results": None})


def open_page_item(url: str, status: str = "completed") -> Item:
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
