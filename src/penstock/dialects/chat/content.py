"""Content parts as Chat Completions writes them.

What the upstream cannot take becomes a note in the text and a diagnostic, so that neither the model nor the
caller believes that it was seen (ask H3).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from penstock.dialects.plan import Target
from penstock.dialects.presets.rows import vendor_facts
from penstock.protocol.content import ContentPart, InputFile, InputImage, InputVideo, Refusal
from penstock.stream.diagnostics import Diagnostics

_Part = dict[str, Any]

_DETAILS = {"low": "low", "high": "high", "auto": "auto", "original": "high"}
"""Chat Completions does not know `original`, which is as fine as `high` or finer."""


class Content:
    """Writes the content of one request's messages for its target."""

    def __init__(self, target: Target, told: Diagnostics) -> None:
        self._target = target
        self._told = told

    def parts(self, parts: list[ContentPart]) -> list[_Part]:
        return [written for part in parts if (written := self._part(part)) is not None]

    def _part(self, part: ContentPart) -> _Part | None:
        write = _MEDIA.get(type(part))
        if write is not None:
            return write(self, part)
        text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
        if isinstance(text, str):
            return _text(text) if text else None
        return self._left_out(f"content of type {part.type!r}")

    def _image(self, part: InputImage) -> _Part:
        if not part.image_url or not self._target.quirks.images:
            return self._left_out("an image")
        image = {"url": part.image_url}
        if part.detail in _DETAILS:
            image["detail"] = _DETAILS[part.detail]
        return {"type": "image_url", "image_url": image}

    def _file(self, part: InputFile) -> _Part:
        name = part.filename or "file"
        if self._target.quirks.files and part.file_data:
            return {"type": "file", "file": {"filename": name, "file_data": part.file_data}}
        if self._target.quirks.files and part.file_id:
            return {"type": "file", "file": {"file_id": part.file_id}}
        readable = _readable(part.file_data or "")
        if readable:
            self._told.tell("file_as_text", f"the file {name!r} was sent as text")
            return _text(f"[file {name}]\n{readable}")
        where = f" at {part.file_url}" if part.file_url else ""
        return self._left_out(f"the file {name!r}{where}")

    def _video(self, part: InputVideo) -> _Part:
        if vendor_facts(self._target.vendor).videos:
            return {"type": "video_url", "video_url": {"url": part.video_url}}
        return self._left_out("a video")

    def _left_out(self, what: str) -> _Part:
        self._told.tell("content_left_out", f"{what} cannot be sent to this upstream; a note was sent")
        return _text(f"[{what} was left out: this model cannot be given it]")


_MEDIA: dict[type, Callable[[Content, Any], _Part]] = {
    InputImage: Content._image,
    InputFile: Content._file,
    InputVideo: Content._video,
}


def _text(text: str) -> _Part:
    return {"type": "text", "text": text}


def _readable(data: str) -> str:
    """The text of a data URL of text: plain, marked up or JSON."""
    head, _, encoded = data.partition(",")
    media, _, encoding = head.removeprefix("data:").partition(";")
    if not (media.startswith("text/") or media == "application/json") or not encoding.endswith("base64"):
        return ""
    try:
        return b64decode(encoded, validate=True).decode()
    except ValueError:
        return ""


def flat(parts: list[_Part]) -> str | list[_Part]:
    """Text alone as one string, which every server takes; a list only where there is more than text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
