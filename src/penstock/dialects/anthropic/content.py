"""Content parts as Anthropic's blocks. What the upstream cannot read leaves a note in its place (ask H3)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from penstock.dialects.plan import Quirks
from penstock.protocol.content import ContentPart, InputFile, InputImage, InputVideo, Refusal
from penstock.stream.diagnostics import Diagnostics

Block = dict[str, Any]

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF = "application/pdf"

SUFFIXES: dict[str, str] = {
    ".pdf": PDF,
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".xml": "application/xml",
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""The type of a file by its name. Not the standard library's table: that one reads the machine's files."""

_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})


def blocks_of(parts: list[ContentPart], quirks: Quirks, told: Diagnostics) -> list[Block]:
    return [block for part in parts if (block := _block(part, quirks, told)) is not None]


def text_block(text: str) -> Block | None:
    """Blank text is no block: the upstream refuses one."""
    return {"type": "text", "text": text} if text.strip() else None


def _block(part: ContentPart, quirks: Quirks, told: Diagnostics) -> Block | None:
    write = _MEDIA.get(type(part))
    if write is not None:
        return write(part, quirks, told)
    text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
    if isinstance(text, str):
        return text_block(text)
    return _note("a video" if isinstance(part, InputVideo) else f"content of type {part.type!r}", told)


def _note(what: str, told: Diagnostics) -> Block:
    told.tell("content_left_out", f"{what} cannot be sent to this upstream; a note stands in its place")
    return {"type": "text", "text": f"[{what} was left out here: it cannot be shown to this model]"}


def _image(part: InputImage, quirks: Quirks, told: Diagnostics) -> Block:
    url = part.image_url or ""
    if part.detail and part.detail != "auto":
        told.tell("field_dropped", "`input_image.detail` was dropped: this upstream decides by itself")
    if not quirks.images:
        return _note("an image", told)
    if url.lower().startswith(("http://", "https://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, data = _inline(url)
    if kind not in IMAGES or not data:
        # A file id is one of the client's upstream or of the gateway, and never one of Anthropic's.
        return _note("an image by id" if part.file_id else f"an image of type {kind or 'unknown'}", told)
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _file(part: InputFile, quirks: Quirks, told: Diagnostics) -> Block:
    named = f"the file {part.filename!r}" if part.filename else "a file"
    if part.file_url:
        kind = _kind_of(part.file_url.partition("?")[0]) or PDF
        source: Block | None = {"type": "url", "url": part.file_url}
    else:
        kind, data = _inline(part.file_data or "")
        kind = kind or _kind_of(part.filename or "")
        source = _source(kind, data)
    if source is None or (not quirks.files and source["type"] != "text"):
        return _note(named, told)
    if not quirks.files:
        told.tell("file_as_text", f"{named} was sent as text")
        return {"type": "text", "text": f"[{named}]\n{source['data']}"}
    block: Block = {"type": "image" if kind in IMAGES else "document", "source": source}
    if part.filename and block["type"] == "document":
        block["title"] = part.filename
    return block


def _source(kind: str, data: str) -> Block | None:
    if not data:
        return None
    if kind == PDF or kind in IMAGES:
        return {"type": "base64", "media_type": kind, "data": data}
    if not kind.startswith("text/") and kind not in _TEXTS:
        return None
    try:
        text = b64decode(data).decode()
    except ValueError:
        return None
    return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None


def _inline(url: str) -> tuple[str, str]:
    """Type and base64 of a data URL; clients send bare base64 as well, which has no type."""
    if url[:5].lower() != "data:":
        return "", "" if "://" in url[:16] else url
    head, _, data = url[5:].partition(",")
    kind, *parameters = head.lower().split(";")
    return kind.strip(), data if "base64" in parameters else ""


def _kind_of(name: str) -> str:
    dot = name.rfind(".")
    return SUFFIXES.get(name[dot:].lower(), "") if dot >= 0 else ""


_MEDIA: dict[type, Callable[[Any, Quirks, Diagnostics], Block]] = {InputImage: _image, InputFile: _file}
"""Everything else that is no text, videos among it, is nothing that a Claude can read."""
