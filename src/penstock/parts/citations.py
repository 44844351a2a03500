"""Citations as Markdown links: in the text at their position, or as a numbered list after the answer.

Titles and URLs come from web pages. They are cleaned, so that they cannot end a link early or add Markdown of
their own, and only web addresses become links.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from penstock.lenient import text_of

Citations = Literal["off", "inline", "end"]
"""Where citations are shown: not at all, as links in the text, or as a list after it (decision 26)."""

_MAX_TITLE_LENGTH = 200
_MARKUP = re.compile(r"[\\`*_\[\]|<>~$]|&(?=#?\w+;)")
"""What has a meaning in the text of a link in Markdown. A bar would end the cell of a table."""
_UNSAFE = re.compile(r"[\s\x00-\x20\x7f<>()\\\"`|]|[\ud800-\udfff]")
"""Characters that end a URL or the cell of a table in Markdown, or have no place in a URL. Parentheses would
be allowed in `<…>`, but VS Code's agent looks for links itself, and ends them at the first parenthesis."""
_ENTITY = re.compile(r"&(?=#?\w+;)")
"""Markdown decodes entities in URLs: `?a&copy;=1` would be another address."""
_WEB = re.compile(r"https?://(?:[^/?#\s]*@)?(\[[0-9a-f:.]+\]|[^/?#:@\[\]\s]+)", re.IGNORECASE)
"""The beginning of a web address, with the name of its host."""


class CitationList:
    """The sources of one response: each URL once, in the order of the first citation."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def add(self, annotation: Any) -> None:
        url = _url(annotation)
        if url:
            # Repeated citations often omit the title, or only the last one has it.
            self._titles[url] = self._titles.get(url) or _title(annotation)

    @property
    def markdown(self) -> str:
        """The list to append to the answer; "" without sources."""
        links = [_link(title, url) for url, title in self._titles.items()]
        rows = "\n".join(f"{number}. {link}" for number, link in enumerate(links, start=1))
        # Without the rule, the numbers of an answer that ends in a numbered list would continue here.
        return f"\n\n---\n\n{rows}\n" if rows else ""


def link_to(annotation: Any) -> str:
    """Return a citation as a link after a space, or "" if it has no web address."""
    url = _url(annotation)
    return f" {_link(_title(annotation), url)}" if url else ""


def _link(title: str, url: str) -> str:
    shown = _MARKUP.sub(r"\\\g<0>", title or _host(url))
    return f"[{shown}]({url})"


def _title(annotation: Any) -> str:
    """Return the title in one line: a line break ends a list item, and a blank line every link."""
    raw = text_of(getattr(annotation, "title", ""))
    title = " ".join("".join(each if each.isprintable() else " " for each in raw).split())
    return title if len(title) <= _MAX_TITLE_LENGTH else f"{title[:_MAX_TITLE_LENGTH].rstrip()}…"


def _url(annotation: Any) -> str:
    """Return the URL, encoded where Markdown requires it; "" if it is not a web address."""
    url = text_of(getattr(annotation, "url", "")).strip()
    if not _host(url):
        return ""
    encoded = _UNSAFE.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode(errors="replace")), url
    )
    return _ENTITY.sub("&amp;", encoded)


def _host(url: str) -> str:
    """Return the name of the host; "" if the URL is not a web address."""
    found = _WEB.match(url)
    return found[1] if found else ""
