"""Sources that a vendor lists next to its text (quirk C31)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.lenient import count_of, object_of, objects_of, text_of
from penstock.protocol.content import UrlCitation
from penstock.stream.deltas import AnnotationDelta, Delta, DiagnosticDelta


def has_citations(chunk: dict[str, Any], delta: dict[str, Any]) -> bool:
    """Return whether `Citations` has anything to read in a chunk."""
    return bool(delta.get("annotations") or chunk.get("search_results") or chunk.get("citations"))


class Citations:
    """Emits each distinct citation once: vendors repeat the whole list in every chunk."""

    __slots__ = ("_emitted",)

    def __init__(self) -> None:
        self._emitted: set[tuple[str, int, int]] = set()

    def read(self, chunk: dict[str, Any], delta: dict[str, Any]) -> list[Delta]:
        """Return the citations of one chunk: those in its delta, and the sources next to it."""
        deltas: list[Delta] = []
        for annotation in objects_of(delta.get("annotations")):
            # Chat Completions nests the fields under the name of the type; some vendors do not.
            fields = object_of(annotation.get(text_of(annotation.get("type")))) or annotation
            if text_of(fields.get("url")):
                deltas += self.cite(fields)
            else:
                kind = text_of(annotation.get("type")) or "unknown"
                deltas.append(
                    DiagnosticDelta(
                        "annotation_left_out", f"an annotation of type {kind!r} was left out: it has no URL"
                    )
                )
        # Search results first: they have titles, which `citations` lacks.
        for source in (*objects_of(chunk.get("search_results")), *_bare_urls(chunk.get("citations"))):
            deltas += self.cite(source)
        return deltas

    def cite(self, fields: dict[str, Any]) -> Iterator[Delta]:
        url = text_of(fields.get("url"))
        start = max(0, count_of(fields.get("start_index")) or 0)
        end = max(start, count_of(fields.get("end_index")) or 0)
        if url and (url, start, end) not in self._emitted:
            self._emitted.add((url, start, end))
            title = text_of(fields.get("title"))
            yield AnnotationDelta(UrlCitation(url=url, start_index=start, end_index=end, title=title))


def _bare_urls(value: Any) -> list[dict[str, Any]]:
    entries = value if isinstance(value, list) else []
    return [{"url": each} if isinstance(each, str) else object_of(each) for each in entries]
