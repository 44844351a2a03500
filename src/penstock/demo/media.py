"""Describe an image or a file without fetching it."""

from __future__ import annotations

from base64 import b64decode
from urllib.parse import unquote_to_bytes, urlsplit

from penstock.protocol.content import ContentPart, InputFile, InputImage, InputVideo
from penstock.tokens.media import image_size

_HEAD = 256 * 1024
"""Bytes of an image that are searched for its size, which can follow a preview or a colour profile."""

_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8", "JPEG"),
    (b"GIF8", "GIF"),
    (b"RIFF", "WebP"),
    (b"%PDF", "PDF"),
)


def describe(part: ContentPart) -> str:
    """Describe the part; return "" if it is not an image, file or video."""
    if isinstance(part, InputImage):
        return _described("image", part.image_url or "", stored=part.file_id or "")
    if isinstance(part, InputVideo):
        return _described("video", part.video_url)
    if isinstance(part, InputFile):
        name = f"file called “{part.filename}”" if part.filename else "file"
        # `file_data` is a data URL, or the base64 alone.
        data = part.file_data or ""
        url = data if data.startswith("data:") or not data else f"data:;base64,{data}"
        return _described(name, url or part.file_url or "", stored=part.file_id or "")
    return ""


def _described(kind: str, url: str, *, stored: str = "") -> str:
    if url.startswith("data:"):
        return _data(kind, url)
    if url:
        return f"{_a(kind)} at {_host(url)} (not fetched)"
    return f"{_a(kind)} stored as “{stored}”" if stored else f"{_a(kind)} without content"


def _data(kind: str, url: str) -> str:
    media, _, encoded = url.removeprefix("data:").partition(",")
    if media.endswith(";base64"):
        encoded = encoded.rstrip("=")
        head, size = _base64(encoded[: _HEAD // 3 * 4]), len(encoded) * 3 // 4
    else:
        data = unquote_to_bytes(encoded)
        head, size = data[:_HEAD], len(data)
    name = next((name for sign, name in _KINDS if head.startswith(sign)), "")
    named = f"{name} {kind}" if name else kind
    pixels = image_size(head) if kind == "image" else None
    extent = f"of {pixels[0]} × {pixels[1]} pixels and " if pixels else "of "
    return f"{_a(named)} {extent}{_count(size)}"


def _base64(encoded: str) -> bytes:
    try:
        return b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return b""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "an address without a host"
    except ValueError:
        return "an invalid address"


def _count(size: int) -> str:
    return "1 byte" if size == 1 else f"{size:,} bytes"


def _a(kind: str) -> str:
    return f"an {kind}" if kind.startswith("image") else f"a {kind}"
