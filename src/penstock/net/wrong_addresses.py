"""Explains answers which show that the base URL is not that of an API: web pages, text, nothing, redirects.

The messages name the content type, the address that was asked, and what to check. They contain no query and
no long random part of a path, because these may be keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urljoin, urlsplit, urlunsplit

from penstock.errors import ProtocolError
from penstock.failures import is_web_page, title_of
from penstock.net.masking import Secrets
from penstock.net.urls import Address
from penstock.sse import without_blanks

HEAD = 4096
"""Bytes of an answer that are enough to explain it."""
_SHOWN = 60
_DOUBLED = re.compile(r"(/v\d\w*)\1(?=/|$)", re.IGNORECASE)
_IN_SEGMENT = r"[^\s/?#,;:]"
_MIXTURE = r"(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{12}|[\da-f]{8}-(?:[\da-f]{4}-){3}"
_TOKEN = re.compile(rf"(?<=[^/]/)(?={_IN_SEGMENT}*?(?:{_MIXTURE})){_IN_SEGMENT}{{20,}}", re.IGNORECASE)
"""A long segment of a path with a UUID or a long mixture of letters and digits. In the names of models, the
mixtures are short."""
_PROLOG = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->)+", re.DOTALL)
"""What may precede the root element of a document."""
_STARTS = {"{": "JSON that is not an answer", "[": "JSON that is not an answer", "<": "XML"}
_PAGE_TYPES = ("text/html", "application/xhtml+xml")


def without_tokens(text: str) -> str:
    """Return a text without the parts of URLs that look like a token: some servers expect it in the path."""
    return _TOKEN.sub("…", text)


class RequestLine:
    """What a request asked for. The text is only made for an error."""

    __slots__ = ("_address", "_method", "_url")

    def __init__(self, method: str, url: str, address: Address) -> None:
        self._method, self._url, self._address = method, url, address

    def __str__(self) -> str:
        return f"{self._method} {without_tokens(self.url)}"

    @property
    def url(self) -> str:
        """The URL without its query."""
        return urlunsplit(urlsplit(self._url)._replace(query="", fragment=""))

    @property
    def base_url(self) -> str:
        address = self._address
        return urlunsplit((address.scheme, address.authority, address.path, "", ""))

    @property
    def advice(self) -> str:
        """The address that was asked, and what may be wrong with it."""
        return f"{self}; {self.remedy}"

    @property
    def remedy(self) -> str:
        """What may be wrong with the base URL."""
        if found := _DOUBLED.search(self.base_url):
            single = without_tokens(self.base_url.replace(found[0], found[1], 1))
            return f"the base URL has {found[1]} twice; perhaps it should be {single}"
        return without_tokens(self._address.advice) or "check the base URL"

    def base_url_for(self, location: str) -> str:
        """Return the base URL with which this request would have been sent to `location`; "" if none does."""
        rest = self.url.removeprefix(self.base_url)
        return location.removesuffix(rest) if rest and location.endswith(rest) else ""


class ReceivedAnswer(Protocol):
    """The part of `HttpAnswer` that explains it."""

    status: int
    content_type: str
    asked: RequestLine
    secrets: Secrets


def not_an_answer(who: str, answer: ReceivedAnswer, head: bytes, wanted: str = "an API's answer") -> str:
    """Return the message for a successful answer that does not come from an API. `head` is its beginning."""
    secrets = answer.secrets
    text = secrets.mask_body(without_blanks(head[:HEAD])).decode(errors="replace").strip()
    kind = secrets.mask(answer.content_type)[:80] or "no content type"
    cause = ""
    if not text:
        what = f"HTTP {answer.status} and an empty body ({kind})"
    elif text.startswith("<") and _is_page(text, answer.content_type):
        what = f"a web page ({kind}{_titled(title_of(text))})"
        cause = ", which may be a web interface, a proxy or a login page"
    else:
        what = f"{_STARTS.get(text[0], 'text')} ({kind}: {_short(text)})"
    asked, remedy = secrets.mask(str(answer.asked)), secrets.mask(answer.asked.remedy)
    return f"{who} returned {what} instead of {wanted} for {asked}{cause}: {remedy}"


def _is_page(text: str, content_type: str) -> bool:
    prolog = _PROLOG.match(text)
    return content_type in _PAGE_TYPES or is_web_page(text[prolog.end() :] if prolog else text)


def _titled(title: str) -> str:
    return f", titled {_short(title)}" if title else ""


def _short(text: str) -> str:
    line = "".join(each for each in " ".join(text.split()) if each.isprintable())
    return f"“{line}”" if len(line) <= _SHOWN else f"“{line[:_SHOWN]}…”"


def redirected(
    status: int,
    headers: Mapping[str, str],
    secrets: Secrets,
    asked: RequestLine,
    request_id: str | None = None,
) -> ProtocolError:
    """Return the error for a redirect, which is not followed: the key could be sent to another server."""
    names = {name.lower(): value for name, value in headers.items()}
    target = _target(names.get("location", ""), asked)
    base_url = asked.base_url_for(target)
    if not target:
        advice = f"HTTP {status} without an address: check the base URL"
    elif base_url and base_url != asked.base_url:
        advice = f"use {base_url} as the base URL"
        if base_url == asked.base_url.replace("http:", "https:", 1):
            advice = f"the server requires https: {advice}"
    else:
        advice = "it may be a web interface or a login page: check the base URL"
    where = f" to {target}" if target else ""
    message = f"the endpoint redirects {asked}{where}, which is not followed; {advice}"
    message = secrets.mask(without_tokens(message))
    return ProtocolError(message, code="redirected", status=status, request_id=request_id)


def _target(location: str, asked: RequestLine) -> str:
    """Return the address of a redirect without user name, password, query and fragment."""
    if not location.strip():
        return ""
    try:
        parts = urlsplit(urljoin(asked.url, location.strip()))
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return ""
