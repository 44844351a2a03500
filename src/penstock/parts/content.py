"""Text and data of the editor's messages as content parts of the protocol.

What may stand where is the specification's to say: a user's message holds text, images and files, the output
of a tool also videos, and what the assistant or the system said is text alone (spec S8). Data that has no
place where it stands becomes a note that names it, with a diagnostic, and never nothing.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct

from penstock.lenient import join_surrogates
from penstock.parts.markers import PRIVATE_MIMES
from penstock.parts.parts import Audience, DataPart, TextPart
from penstock.protocol.content import ContentPart, InputFile, InputImage, InputText, InputVideo, OutputText
from penstock.protocol.items import Message
from penstock.stream.diagnostics import Diagnostics

TOOL_FAILED = "[the tool reported an error]"
"""Stands before the output of a tool that failed: the specification has no field for it."""

NOTHING = "{}"
"""The output of a tool that gave nothing back (decision 25)."""


class ContentKind(Enum):
    """What data is to a model."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"
    FILE = "file"


class ContentPlace(Struct, frozen=True):
    """What the specification lets stand somewhere: text as `text`, and these kinds of data."""

    text: Callable[[str], ContentPart]
    holds: frozenset[ContentKind] = frozenset()


def _input_text(text: str) -> ContentPart:
    return InputText(text=join_surrogates(text))


def _output_text(text: str) -> ContentPart:
    return OutputText(text=join_surrogates(text))


USER = ContentPlace(_input_text, frozenset({ContentKind.IMAGE, ContentKind.FILE}))
TOOL_OUTPUT = ContentPlace(_input_text, frozenset({ContentKind.IMAGE, ContentKind.FILE, ContentKind.VIDEO}))
SYSTEM = ContentPlace(_input_text)
ASSISTANT = ContentPlace(_output_text)


class Draft:
    """A message that is being written. Texts in a row are one text (editor 16)."""

    def __init__(self, role: str, place: ContentPlace) -> None:
        self.place = place
        self._role = role
        self._parts: list[ContentPart] = []
        self._texts: list[str] = []

    def write(self, text: str) -> None:
        self._texts.append(text)

    def attach(self, part: ContentPart) -> None:
        self._end_text()
        self._parts.append(part)

    def take(self) -> Message | None:
        """What was written so far, if anything was; the draft is empty again."""
        self._end_text()
        parts, self._parts = self._parts, []
        return Message(role=self._role, content=parts) if parts else None

    def _end_text(self) -> None:
        if text := "".join(self._texts):
            self._parts.append(self.place.text(text))
        self._texts = []


def is_for_model(part: TextPart | DataPart) -> bool:
    """A part without a mark is for everybody (decision 25)."""
    return not part.audience or Audience.ASSISTANT in part.audience


def content_of(part: DataPart, place: ContentPlace, told: Diagnostics) -> ContentPart | None:
    """Data as it may stand in a place; None for what is not for a model to see, and for nothing at all."""
    mime = _mime(part)
    if "/" not in mime:
        # All of the editor's own types are like this. One that is not known yet is no content either
        # (ask N4).
        if mime not in PRIVATE_MIMES:
            told.tell("private_data", f"data of the private type {mime!r} was left out")
        return None
    kind, text = _read(mime, part.data)
    if kind is ContentKind.TEXT:
        return place.text(text) if text else None
    if not part.data:
        told.tell("empty_data", f"data of type {mime!r} was left out: it is empty")
        return None
    if kind not in place.holds:
        # The specification has videos only in the output of a tool; elsewhere one is a file.
        kind = ContentKind.FILE
    if kind not in place.holds:
        told.tell("data_as_note", f"data of type {mime!r} cannot stand there; a note names it")
        return place.text(f"[{mime}, {_size(len(part.data))}]")
    return _MEDIA[kind](mime, f"data:{mime};base64,{b64encode(part.data).decode()}")


def result_of(
    content: Sequence[object], is_error: bool, place: ContentPlace, told: Diagnostics
) -> str | list[ContentPart]:
    """What a tool gave back. Texts alone are one string, one part a line; a single one is left as it is.

    The model must learn of an error, and the output has no field for that: a fixed first line says so.
    """
    parts = [written for part in content if (written := _result_part(part, place, told)) is not None]
    if is_error:
        parts.insert(0, InputText(text=TOOL_FAILED))
    if not parts:
        return NOTHING
    texts = [part.text for part in parts if isinstance(part, InputText)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _result_part(part: object, place: ContentPlace, told: Diagnostics) -> ContentPart | None:
    if not isinstance(part, TextPart | DataPart):
        told.tell("part_left_out", f"a {type(part).__name__} inside the result of a tool was left out")
        return None
    if not is_for_model(part):
        return None
    if isinstance(part, DataPart):
        return content_of(part, place, told)
    return place.text(part.value) if part.value else None


_TOKEN = r"[a-z0-9!#$&^_.+-]+"
_MIME = re.compile(rf"{_TOKEN}/{_TOKEN}")


def _mime(part: DataPart) -> str:
    """The type in lower case without parameters, safe to stand in a data URL."""
    mime = part.mime.partition(";")[0].strip().lower()
    return mime if "/" not in mime or _MIME.fullmatch(mime) else "application/octet-stream"


_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")
_TEXT_TYPES = frozenset(
    f"application/{subtype}"
    for subtype in (
        *("json", "jsonl", "ndjson", "x-ndjson", "x-json", "json5", "xml", "yaml", "x-yaml", "toml"),
        *("javascript", "x-javascript", "ecmascript", "typescript", "x-typescript", "sql", "graphql"),
        *("x-sh", "x-shellscript", "x-python", "x-httpd-php", "x-tex", "x-latex", "x-www-form-urlencoded"),
    )
)
"""Types outside `text/` that are text all the same."""


def _read(mime: str, data: bytes) -> tuple[ContentKind, str]:
    """What data of a type is, and its text if it is one. SVG is text: no model's image input takes it."""
    family = mime.partition("/")[0]
    if family == "text" or mime in _TEXT_TYPES or mime.endswith(_TEXT_SUFFIXES):
        try:
            return ContentKind.TEXT, data.decode()
        except UnicodeDecodeError:
            return ContentKind.FILE, ""
    return {"image": ContentKind.IMAGE, "video": ContentKind.VIDEO}.get(family, ContentKind.FILE), ""


_MEDIA: dict[ContentKind, Callable[[str, str], ContentPart]] = {
    ContentKind.IMAGE: lambda _, url: InputImage(image_url=url, detail="auto"),
    ContentKind.VIDEO: lambda _, url: InputVideo(video_url=url),
    ContentKind.FILE: lambda mime, url: InputFile(filename=_filename(mime), file_data=url),
}

_EXTENSIONS = {
    "text/plain": "txt",
    "text/markdown": "md",
    "audio/mpeg": "mp3",
    "video/quicktime": "mov",
    "application/gzip": "gz",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}
"""Where the type is not its own extension, as it is for pdf, zip, csv, wav or mp4."""


def _filename(mime: str) -> str:
    """A name, because some endpoints want one; the editor gives none with the data."""
    subtype = mime.partition("/")[2].removeprefix("x-")
    usual = subtype if re.fullmatch(r"[a-z0-9]{1,5}", subtype) else "bin"
    return f"attachment.{_EXTENSIONS.get(mime, usual)}"


def _size(length: int) -> str:
    return f"{length} bytes" if length < 1000 else f"{length / 1000:.0f} kB"
