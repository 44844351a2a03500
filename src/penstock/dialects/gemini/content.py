"""Content parts as Gemini's parts. What the upstream cannot read leaves a note in its place (ask H3)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from penstock.dialects.plan import Quirks
from penstock.protocol.content import ContentPart, InputFile, InputImage, InputVideo, Refusal
from penstock.stream.diagnostics import Diagnostics

Part = dict[str, Any]

IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})

SUFFIXES: dict[str, str] = {
    ".pdf": "application/pdf",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".heic": "image/heic",
    ".mp3": "audio/mp3",
    ".wav": "audio/wav",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".xml": "text/xml",
    ".json": "application/json",
}
"""The type of a file by its name. Not the standard library's table: that one reads the machine's files."""

_MEDIA_TYPES = ("application/pdf", "image/", "audio/", "video/")


def parts_of(parts: list[ContentPart], quirks: Quirks, told: Diagnostics) -> list[Part]:
    return [written for part in parts if (written := _part(part, quirks, told)) is not None]


def text_part(text: str) -> Part | None:
    return {"text": text} if text else None


def _part(part: ContentPart, quirks: Quirks, told: Diagnostics) -> Part | None:
    write = _MEDIA.get(type(part))
    if write is not None:
        return write(part, quirks, told)
    text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
    return text_part(text) if isinstance(text, str) else _note(f"content of type {part.type!r}", told)


def _note(what: str, told: Diagnostics) -> Part:
    told.tell("content_left_out", f"{what} cannot be sent to this upstream; a note stands in its place")
    return {"text": f"[{what} was left out here: it cannot be shown to this model]"}


def _image(part: InputImage, quirks: Quirks, told: Diagnostics) -> Part:
    url = part.image_url or ""
    if part.detail and part.detail != "auto":
        told.tell("field_dropped", "`input_image.detail` was dropped: this upstream decides by itself")
    if not quirks.images:
        return _note("an image", told)
    if _is_web(url):
        return _by_address(url, "")
    kind, data = _inline(url)
    if kind not in IMAGES or not data:
        # A file id is one of the client's upstream or of the gateway, and never one of Google's.
        return _note("an image by id" if part.file_id else f"an image of type {kind or 'unknown'}", told)
    return {"inlineData": {"mimeType": kind, "data": data}}


def _file(part: InputFile, quirks: Quirks, told: Diagnostics) -> Part:
    named = f"the file {part.filename!r}" if part.filename else "a file"
    if part.file_url:
        return _by_address(part.file_url, "application/pdf") if quirks.files else _note(named, told)
    kind, data = _inline(part.file_data or "")
    kind = kind or _kind_of(part.filename or "")
    if data and kind.startswith(_MEDIA_TYPES) and quirks.files:
        return {"inlineData": {"mimeType": kind, "data": data}}
    text = _text_of(kind, data)
    if not text:
        return _note(named, told)
    told.tell("file_as_text", f"{named} was sent as text")
    return {"text": f"[{named}]\n{text}"}


def _video(part: InputVideo, quirks: Quirks, told: Diagnostics) -> Part:
    if quirks.images and _is_web(part.video_url):
        return _by_address(part.video_url, "")
    kind, data = _inline(part.video_url)
    if not quirks.images or not data or not kind.startswith("video/"):
        return _note("a video", told)
    return {"inlineData": {"mimeType": kind, "data": data}}


def _by_address(url: str, usual: str) -> Part:
    """The type is left open where the address does not show it: Google then looks for itself."""
    kind = _kind_of(url.partition("?")[0]) or usual
    return {"fileData": {"fileUri": url, **({"mimeType": kind} if kind else {})}}


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _text_of(kind: str, data: str) -> str:
    if not data or not (kind.startswith("text/") or kind == "application/json"):
        return ""
    try:
        return b64decode(data).decode()
    except ValueError:
        return ""


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


_MEDIA: dict[type, Callable[[Any, Quirks, Diagnostics], Part]] = {
    InputImage: _image,
    InputFile: _file,
    InputVideo: _video,
}
