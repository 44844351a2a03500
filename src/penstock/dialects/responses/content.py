"""Content parts for another Responses endpoint.

The types are the same on both sides; who may say which is not: an assistant's text is `output_text`, anybody
else's `input_text`. What the endpoint does not take becomes a note in the text and a diagnostic (ask H3).
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.plan import Target
from penstock.dialects.presets.rows import vendor_facts
from penstock.protocol.content import (
    ContentPart,
    InputFile,
    InputImage,
    InputVideo,
    OutputText,
    Refusal,
)
from penstock.protocol.wire import to_builtins
from penstock.stream.diagnostics import Diagnostics

_Part = dict[str, Any]


class Parts:
    def __init__(self, target: Target, told: Diagnostics) -> None:
        self._quirks = target.quirks
        self._is_original = vendor_facts(target.vendor).original_responses
        self._told = told

    def said_by(self, role: str, parts: list[ContentPart]) -> list[_Part]:
        """Parts without text, such as an empty `input_text`, are not worth sending."""
        write = self._assistants if role == "assistant" else self._inputs
        return [written for part in parts if (written := write(part)) is not None]

    def system_text(self, parts: list[ContentPart]) -> str:
        """Instructions are text: an image or a file among them is noted."""
        texts = [_text_of(part) for part in parts]
        noted = [
            self._left_out(part) if text is None else text for part, text in zip(parts, texts, strict=True)
        ]
        return "\n".join(text for text in noted if text)

    def output(self, content: str | list[ContentPart]) -> str | list[_Part]:
        """What a tool gave back: as a string where it is text, because many endpoints take no other
        (ask B10)."""
        if isinstance(content, str):
            return content
        parts = self.said_by("tool", content)
        if all(part["type"] == "input_text" for part in parts):
            return "\n".join(part["text"] for part in parts)
        return parts

    def _assistants(self, part: ContentPart) -> _Part | None:
        if isinstance(part, Refusal):
            return {"type": "refusal", "refusal": part.refusal}
        text = _text_of(part)
        if text is None:
            return _output(self._left_out(part))
        # Log probabilities are for the reader of an answer: sent back, they only cost.
        annotations = to_builtins(part.annotations) if isinstance(part, OutputText) else []
        return _output(text, annotations) if text else None

    def _inputs(self, part: ContentPart) -> _Part | None:
        if isinstance(part, InputImage | InputFile | InputVideo):
            return to_builtins(part) if self._takes(part) else _input(self._left_out(part))
        text = _text_of(part)
        if text is None:
            return _input(self._left_out(part))
        return _input(text) if text else None

    def _takes(self, part: InputImage | InputFile | InputVideo) -> bool:
        if isinstance(part, InputImage):
            return self._quirks.images and bool(part.image_url or (self._is_original and part.file_id))
        if isinstance(part, InputFile):
            return self._is_original or (self._quirks.files and not part.file_id)
        return not self._is_original  # videos are in the specification, and not at OpenAI

    def _left_out(self, part: ContentPart) -> str:
        what = f"content of type {part.type!r}"
        self._told.tell("content_left_out", f"{what} cannot be sent to this upstream; a note was sent")
        return f"[{what} was left out: this model cannot be given it]"


def _text_of(part: ContentPart) -> str | None:
    text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
    return text if isinstance(text, str) else None


def _input(text: str) -> _Part:
    return {"type": "input_text", "text": text}


def _output(text: str, annotations: list[Any] | None = None) -> _Part:
    return {"type": "output_text", "text": text, "annotations": annotations or []}
