"""Data in a response: images and files."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error

from penstock.lenient import object_of, text_of
from penstock.parts.parts import DataPart
from penstock.protocol.content import JsonObject

_MAGIC = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"%PDF": "application/pdf",
}
_MIME_FIELDS = ("mime_type", "mimeType", "media_type", "mediaType", "mime", "content_type")
_BYTES_FIELDS = ("file_data", "data", "base64", "b64_json", "result", "image_url", "file_url", "url")
_FORMATS = {"png": "image/png", "jpeg": "image/jpeg", "jpg": "image/jpeg", "webp": "image/webp"}
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
LINK = "text/uri-list"
"""The type of a part that contains only a URL: the reader decides whether to fetch it."""


def generated_image(raw: JsonObject) -> DataPart | None:
    """Return the image of an `image_generation_call`."""
    return _from_text(text_of(raw.get("result")), _FORMATS.get(text_of(raw.get("output_format")), ""))


def data_of(raw: JsonObject) -> DataPart | None:
    """Return the data of a file event or a content part, in any of the shapes that servers use."""
    for holder in (object_of(raw.get("file")), object_of(raw.get("image")), raw):
        mime = next((each for name in _MIME_FIELDS if (each := text_of(holder.get(name)))), "")
        for name in _BYTES_FIELDS:
            value = holder.get(name)
            text = text_of(object_of(value).get("url")) or text_of(value)
            part = _from_text(text, mime) if text else None
            if part is not None:
                return part
        text = text_of(holder.get("text"))
        if text and mime:
            return DataPart.text(text, mime)
    return None


def _from_text(text: str, mime: str) -> DataPart | None:
    """Read a data URL, a URL or base64. Return None if it has no bytes: empty data is not an answer."""
    if text.startswith("data:"):
        head, _, body = text[5:].partition(",")
        kind, _, encoding = head.rpartition(";")
        if encoding != "base64":
            plain = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), body.encode())
            return DataPart(plain, head or "text/plain") if plain else None
        data = _decoded(body)
        return DataPart(data, kind or mime or _mime_of(data)) if data else None
    if text.startswith(("http://", "https://")):
        return DataPart.text(text, LINK)
    data = _decoded(text)
    return DataPart(data, mime or _mime_of(data)) if data else None


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Error, ValueError):
        return b""


def _mime_of(data: bytes) -> str:
    known = (mime for magic, mime in _MAGIC.items() if data.startswith(magic))
    return next(known, "application/octet-stream")
