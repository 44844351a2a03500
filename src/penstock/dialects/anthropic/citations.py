"""Anthropic's citations as annotations of the text."""

from __future__ import annotations

from typing import Any

from penstock.lenient import text_of
from penstock.protocol.content import Annotation, UnknownAnnotation, UrlCitation

_OURS = ("type", "url", "title", "start_index", "end_index")


def annotation_of(citation: dict[str, Any], start: int, end: int) -> Annotation:
    """A citation of the text from `start` to `end`.

    Clients know citations of pages on the web; a place in a document stays as the vendor describes it.
    """
    url = text_of(citation.get("url"))
    if url:
        rest = {name: value for name, value in citation.items() if name not in _OURS}
        title = text_of(citation.get("title"))
        return UrlCitation(url=url, title=title, start_index=start, end_index=end, extra=rest)
    rest = {name: value for name, value in citation.items() if name != "type"}
    return UnknownAnnotation(type=text_of(citation.get("type")) or "citation", extra=rest)
