"""Convert text and data in an editor's messages to content parts of the protocol.

The specification limits what each place may contain: a user message contains text, images and files, the
output of a tool also videos, and assistant and system messages only text (spec S8). Data that is not allowed
in its place is replaced by a note that describes it, with a diagnostic; it is never dropped silently.
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
"""Precedes the output of a tool that failed: the specification has no field for it."""

NOTHING = "{}"
"""The output of a tool that returned nothing (decision 25)."""


class ContentKind(Enum):
    """How a model reads data."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"
    FILE = "file"


class ContentPlace(Struct, frozen=True):
    """What the specification allows in one place: text, built by `text`, and data of the allowed kinds."""

    text: Callable[[str], ContentPart]
    allowed: frozenset[ContentKind] = frozenset()


def _input_text(text: str) -> ContentPart:
    return InputText(text=join_surrogates(text))


def _output_text(text: str) -> ContentPart:
    return OutputText(text=join_surrogates(text))


USER = ContentPlace(_input_text, frozenset({ContentKind.IMAGE, ContentKind.FILE}))
TOOL_OUTPUT = ContentPlace(_input_text, frozenset({ContentKind.IMAGE, ContentKind.FILE, ContentKind.VIDEO}))
SYSTEM = ContentPlace(_input_text)
ASSISTANT = ContentPlace(_output_text)


class Draft:
    """A message under construction. Consecutive texts are joined (editor 16)."""

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
        """Return what was converted so far, or None if nothing was, and reset the draft."""
        self._end_text()
        parts, self._parts = self._parts, []
        return Message(role=self._role, content=parts) if parts else None

    def _end_text(self) -> None:
        if text := "".join(self._texts):
            self._parts.append(self.place.text(text))
        self._texts = []


def is_for_model(part: TextPart | DataPart) -> bool:
    """Return whether the model may see a part. Without an audience, everyone may (decision 25)."""
    return not part.audience or Audience.ASSISTANT in part.audience


def content_of(part: DataPart, place: ContentPlace, diagnostics: Diagnostics) -> ContentPart | None:
    """Return data as content that `place` allows; None if it is private to the editor or empty."""
    mime = _mime(part)
    if "/" not in mime:
        # All of the editor's own types look like this. Unknown ones are not content either (ask N4).
        if mime not in PRIVATE_MIMES:
            diagnostics.report("private_data", f"data of the private type {mime!r} was omitted")
        return None
    kind, text = _classify(mime, part.data)
    if kind is ContentKind.TEXT:
        return place.text(text) if text else None
    if not part.data:
        diagnostics.report("empty_data", f"data of type {mime!r} was omitted: it is empty")
        return None
    if kind not in place.allowed:
        # The specification allows videos only in the output of a tool; elsewhere send a file.
        kind = ContentKind.FILE
    if kind not in place.allowed:
        diagnostics.report("data_as_note", f"data of type {mime!r} is not allowed there; a note replaces it")
        return place.text(f"[{mime}, {_size(len(part.data))}]")
    return _MEDIA[kind](mime, f"data:{mime};base64,{b64encode(part.data).decode()}")


def result_of(
    content: Sequence[object], is_error: bool, place: ContentPlace, diagnostics: Diagnostics
) -> str | list[ContentPart]:
    """Return the output of a tool. If it is only text, the parts are joined with newlines.

    The output has no field for an error, so a fixed first line reports it to the model.
    """
    parts = [
        converted for part in content if (converted := _result_part(part, place, diagnostics)) is not None
    ]
    if is_error:
        parts.insert(0, InputText(text=TOOL_FAILED))
    if not parts:
        return NOTHING
    texts = [part.text for part in parts if isinstance(part, InputText)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _result_part(part: object, place: ContentPlace, diagnostics: Diagnostics) -> ContentPart | None:
    if not isinstance(part, TextPart | DataPart):
        diagnostics.report(
            "part_left_out", f"a {type(part).__name__} inside the result of a tool was omitted"
        )
        return None
    if not is_for_model(part):
        return None
    if isinstance(part, DataPart):
        return content_of(part, place, diagnostics)
    return place.text(part.value) if part.value else None


_TOKEN = r"[a-z0-9!#$&^_.+-]+"
_MIME = re.compile(rf"{_TOKEN}/{_TOKEN}")


def _mime(part: DataPart) -> str:
    """Return the type in lower case without parameters, safe for a data URL."""
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
"""Types outside `text/` that are text."""


def _classify(mime: str, data: bytes) -> tuple[ContentKind, str]:
    """Return the kind of data, and its text if it is text. SVG is text: no model accepts it as an image."""
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
"""Extensions that differ from the subtype. For pdf, zip, csv, wav or mp4 they are the same."""


def _filename(mime: str) -> str:
    """Return a file name: some endpoints require one, and the editor sends none."""
    subtype = mime.partition("/")[2].removeprefix("x-")
    usual = subtype if re.fullmatch(r"[a-z0-9]{1,5}", subtype) else "bin"
    return f"attachment.{_EXTENSIONS.get(mime, usual)}"


def _size(length: int) -> str:
    return f"{length} bytes" if length < 1000 else f"{length / 1000:.0f} kB"
