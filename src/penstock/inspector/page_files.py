"""The files of the page: read once from the package, and sent with headers that let them load nothing else.

What the page shows comes from models and their users, so it is hostile. The page never interprets it, and the
Content-Security-Policy makes sure of that: no inline script or style, and no other origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

from penstock.gateway.api.status import show_root
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey

START = "index.html"

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-cache"),
)

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}


class PageFile(Struct, frozen=True):
    content: bytes
    type: str
    tag: str
    """The ETag: it changes with the content."""


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the files by their paths in the page's folder. Nothing else is ever sent."""
    return dict(_files(files(__package__) / "page", ""))


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    for entry in folder.iterdir():
        suffix = f".{entry.name.rpartition('.')[2]}"
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif suffix in _TYPES:
            content = entry.read_bytes()
            tag = f'"{sha256(content).hexdigest()[:32]}"'
            yield prefix + entry.name, PageFile(content, _TYPES[suffix], tag)


async def show_start(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    """Send the page to browsers, and JSON to everybody else: programs check this address."""
    wants_page = prefers_html(exchange.headers.get("accept", ""))
    if wants_page and gateway.services.settings.inspector:
        _send(exchange, page_files()[START])
    else:
        exchange.cors = [(name, value) for name, value in exchange.cors if name != "vary"]
        exchange.cors.append(("vary", "accept, origin"))  # caches must not give it to browsers
        await show_root(gateway, exchange, key)


async def show_file(_: Gateway, exchange: Exchange, __: ClientKey | None, *, file: str) -> None:
    # The page itself is only at `/`: its URLs are relative to that.
    found = page_files().get(file) if file != START else None
    if found is None:
        message = "the inspector has no such file; its page is at /"
        raise RequestRefused(404, "not_found", message, type="not_found")
    _send(exchange, found)


def _send(exchange: Exchange, file: PageFile) -> None:
    headers = [*HEADERS, ("etag", file.tag), ("vary", "accept")]
    known = [tag.strip().removeprefix("W/") for tag in exchange.headers.get("if-none-match", "").split(",")]
    if file.tag in known:
        exchange.begin(304, headers)
        exchange.channel.end()
    else:
        exchange.answer(200, file.content, content_type=file.type, headers=headers)


def prefers_html(accept: str) -> bool:
    """Return whether a client names HTML in its `Accept`, and does not prefer JSON to it."""
    weights = dict(_weights(accept))
    html = max(weights.get("text/html", 0.0), weights.get("application/xhtml+xml", 0.0))
    return html > 0 and html >= weights.get("application/json", 0.0)


def _weights(accept: str) -> Iterator[tuple[str, float]]:
    for entry in accept.lower().split(","):
        type, *parameters = (part.strip() for part in entry.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                weight = _number(value)
        yield type, weight


def _number(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
