"""Convert content parts to Anthropic's blocks. A note replaces what the upstream cannot read (ask H3)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from penstock.dialects.anthropic.caching import MARK, placeholder
from penstock.dialects.breakpoints import has_breakpoint
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
"""Media types by file suffix. The standard library's table is not used: it reads files of the machine."""

_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})


def blocks_of(parts: list[ContentPart], quirks: Quirks, diagnostics: Diagnostics) -> list[Block]:
    blocks: list[Block] = []
    for part in parts:
        block = _block(part, quirks, diagnostics)
        if block is not None:
            blocks.append({**block, MARK: placeholder()} if has_breakpoint(part) else block)
    return blocks


def text_block(text: str) -> Block | None:
    """Return a text block, or None for blank text: the upstream rejects it."""
    return {"type": "text", "text": text} if text.strip() else None


def _block(part: ContentPart, quirks: Quirks, diagnostics: Diagnostics) -> Block | None:
    convert = _MEDIA.get(type(part))
    if convert is not None:
        return convert(part, quirks, diagnostics)
    text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
    if isinstance(text, str):
        return text_block(text)
    return _note("a video" if isinstance(part, InputVideo) else f"content of type {part.type!r}", diagnostics)


def _note(what: str, diagnostics: Diagnostics) -> Block:
    diagnostics.report("content_left_out", f"{what} cannot be sent to this upstream; a note replaces it")
    return {"type": "text", "text": f"[{what} was left out here: it cannot be shown to this model]"}


def _image(part: InputImage, quirks: Quirks, diagnostics: Diagnostics) -> Block:
    url = part.image_url or ""
    if part.detail and part.detail != "auto":
        diagnostics.report(
            "field_dropped", "`input_image.detail` was dropped: this upstream does not support it"
        )
    if not quirks.images:
        return _note("an image", diagnostics)
    if url.lower().startswith(("http://", "https://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, data = _split_data_url(url)
    if kind not in IMAGES or not data:
        # The file id belongs to another upstream or to the gateway, never to Anthropic.
        return _note(
            "an image by id" if part.file_id else f"an image of type {kind or 'unknown'}", diagnostics
        )
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _file(part: InputFile, quirks: Quirks, diagnostics: Diagnostics) -> Block:
    label = f"the file {part.filename!r}" if part.filename else "a file"
    if part.file_url:
        kind = _type_by_suffix(part.file_url.partition("?")[0]) or PDF
        source: Block | None = {"type": "url", "url": part.file_url}
    else:
        kind, data = _split_data_url(part.file_data or "")
        kind = kind or _type_by_suffix(part.filename or "")
        source = _source(kind, data)
    if source is None or (not quirks.files and source["type"] != "text"):
        return _note(label, diagnostics)
    if not quirks.files:
        diagnostics.report("file_as_text", f"{label} was sent as text")
        return {"type": "text", "text": f"[{label}]\n{source['data']}"}
    block: Block = {"type": "image" if kind in IMAGES else "document", "source": source}
    if part.filename and block["type"] == "document":
        block["title"] = part.filename
    return block


def _source(kind: str, data: str) -> Block | None:
    if not data:
        return None
    if kind == PDF or kind in IMAGES:
        return {"type": "base64", "media_type": kind, "data": data}
    if not kind.startswith("text/") and kind not in _TEXT_TYPES:
        return None
    try:
        text = b64decode(data).decode()
    except ValueError:
        return None
    return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None


def _split_data_url(url: str) -> tuple[str, str]:
    """Return the type and the base64 of a data URL. Some clients send bare base64, which has no type."""
    if url[:5].lower() != "data:":
        return "", "" if "://" in url[:16] else url
    head, _, data = url[5:].partition(",")
    kind, *parameters = head.lower().split(";")
    return kind.strip(), data if "base64" in parameters else ""


def _type_by_suffix(name: str) -> str:
    dot = name.rfind(".")
    return SUFFIXES.get(name[dot:].lower(), "") if dot >= 0 else ""


_MEDIA: dict[type, Callable[[Any, Quirks, Diagnostics], Block]] = {InputImage: _image, InputFile: _file}
"""Claude cannot read anything else that is not text, such as videos."""
