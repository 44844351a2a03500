"""Convert content parts to Gemini's parts. A note replaces what the upstream cannot read (ask H3)."""

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
"""Media types by file suffix. The standard library's table is not used: it reads files of the machine."""

_MEDIA_TYPES = ("application/pdf", "image/", "audio/", "video/")


def parts_of(parts: list[ContentPart], quirks: Quirks, diagnostics: Diagnostics) -> list[Part]:
    return [converted for part in parts if (converted := _part(part, quirks, diagnostics)) is not None]


def text_part(text: str) -> Part | None:
    return {"text": text} if text else None


def _part(part: ContentPart, quirks: Quirks, diagnostics: Diagnostics) -> Part | None:
    convert = _MEDIA.get(type(part))
    if convert is not None:
        return convert(part, quirks, diagnostics)
    text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
    return text_part(text) if isinstance(text, str) else _note(f"content of type {part.type!r}", diagnostics)


def _note(what: str, diagnostics: Diagnostics) -> Part:
    diagnostics.report("content_left_out", f"{what} cannot be sent to this upstream; a note replaces it")
    return {"text": f"[{what} was left out here: it cannot be shown to this model]"}


def _image(part: InputImage, quirks: Quirks, diagnostics: Diagnostics) -> Part:
    url = part.image_url or ""
    if part.detail and part.detail != "auto":
        diagnostics.report(
            "field_dropped", "`input_image.detail` was dropped: this upstream does not support it"
        )
    if not quirks.images:
        return _note("an image", diagnostics)
    if _is_web_url(url):
        return _by_url(url, "")
    kind, data = _split_data_url(url)
    if kind not in IMAGES or not data:
        # The file id belongs to another upstream or to the gateway, never to Google.
        return _note(
            "an image by id" if part.file_id else f"an image of type {kind or 'unknown'}", diagnostics
        )
    return {"inlineData": {"mimeType": kind, "data": data}}


def _file(part: InputFile, quirks: Quirks, diagnostics: Diagnostics) -> Part:
    label = f"the file {part.filename!r}" if part.filename else "a file"
    if part.file_url:
        return _by_url(part.file_url, "application/pdf") if quirks.files else _note(label, diagnostics)
    kind, data = _split_data_url(part.file_data or "")
    kind = kind or _type_by_suffix(part.filename or "")
    if data and kind.startswith(_MEDIA_TYPES) and quirks.files:
        return {"inlineData": {"mimeType": kind, "data": data}}
    text = _text_of(kind, data)
    if not text:
        return _note(label, diagnostics)
    diagnostics.report("file_as_text", f"{label} was sent as text")
    return {"text": f"[{label}]\n{text}"}


def _video(part: InputVideo, quirks: Quirks, diagnostics: Diagnostics) -> Part:
    if quirks.images and _is_web_url(part.video_url):
        return _by_url(part.video_url, "")
    kind, data = _split_data_url(part.video_url)
    if not quirks.images or not data or not kind.startswith("video/"):
        return _note("a video", diagnostics)
    return {"inlineData": {"mimeType": kind, "data": data}}


def _by_url(url: str, default: str) -> Part:
    """Return a part with a URL. Without a known suffix the type is left out, and Google detects it."""
    kind = _type_by_suffix(url.partition("?")[0]) or default
    return {"fileData": {"fileUri": url, **({"mimeType": kind} if kind else {})}}


def _is_web_url(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _text_of(kind: str, data: str) -> str:
    if not data or not (kind.startswith("text/") or kind == "application/json"):
        return ""
    try:
        return b64decode(data).decode()
    except ValueError:
        return ""


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


_MEDIA: dict[type, Callable[[Any, Quirks, Diagnostics], Part]] = {
    InputImage: _image,
    InputFile: _file,
    InputVideo: _video,
}
