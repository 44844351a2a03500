"""Renders content parts for Chat Completions.

Content that the upstream does not support becomes a note in the text and a diagnostic, so that neither the
model nor the caller assumes that the model saw it (ask H3).
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
"""Chat Completions has no `original`, which is as detailed as `high` or more."""


class Content:
    """Renders the content of one request's messages for its target."""

    def __init__(self, target: Target, diagnostics: Diagnostics) -> None:
        self._target = target
        self._diagnostics = diagnostics

    def parts(self, parts: list[ContentPart]) -> list[_Part]:
        return [rendered for part in parts if (rendered := self._part(part)) is not None]

    def _part(self, part: ContentPart) -> _Part | None:
        render = _MEDIA.get(type(part))
        if render is not None:
            return render(self, part)
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
        text = _decoded_text(part.file_data or "")
        if text:
            self._diagnostics.report("file_as_text", f"the file {name!r} was sent as text")
            return _text(f"[file {name}]\n{text}")
        where = f" at {part.file_url}" if part.file_url else ""
        return self._left_out(f"the file {name!r}{where}")

    def _video(self, part: InputVideo) -> _Part:
        if vendor_facts(self._target.vendor).videos:
            return {"type": "video_url", "video_url": {"url": part.video_url}}
        return self._left_out("a video")

    def _left_out(self, what: str) -> _Part:
        self._diagnostics.report(
            "content_left_out", f"{what} cannot be sent to this upstream; a note was sent instead"
        )
        return _text(f"[{what} was left out: this model cannot read it]")


_MEDIA: dict[type, Callable[[Content, Any], _Part]] = {
    InputImage: Content._image,
    InputFile: Content._file,
    InputVideo: Content._video,
}


def _text(text: str) -> _Part:
    return {"type": "text", "text": text}


def _decoded_text(data: str) -> str:
    """Return the text of a data URL of a text type or JSON; "" for any other."""
    head, _, encoded = data.partition(",")
    media, _, encoding = head.removeprefix("data:").partition(";")
    if not (media.startswith("text/") or media == "application/json") or not encoding.endswith("base64"):
        return ""
    try:
        return b64decode(encoded, validate=True).decode()
    except ValueError:
        return ""


def flat(parts: list[_Part]) -> str | list[_Part]:
    """Join parts into one string, which every server accepts, unless there is more than text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
