"""Renders content parts for another Responses endpoint.

The part types are the same, but they depend on the role: an assistant's text is `output_text`, any other text
`input_text`. Content that the endpoint does not support becomes a note in the text and a diagnostic (ask H3).
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.breakpoints import BREAKPOINT, has_breakpoint
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
    """Renders the content of one request's items for its target."""

    def __init__(self, target: Target, diagnostics: Diagnostics) -> None:
        self._quirks = target.quirks
        self._is_original = vendor_facts(target.vendor).original_responses
        self._diagnostics = diagnostics

    def message_parts(self, role: str, parts: list[ContentPart]) -> list[_Part]:
        """Return the parts of a message, without empty texts."""
        render = self._assistant_part if role == "assistant" else self._input_part
        return [rendered for part in parts if (rendered := render(part)) is not None]

    def system_text(self, parts: list[ContentPart]) -> str:
        """Return instructions as text, with a note for each image or file among them."""
        texts = [_text_of(part) for part in parts]
        noted = [
            self._left_out(part) if text is None else text for part, text in zip(parts, texts, strict=True)
        ]
        return "\n".join(text for text in noted if text)

    def output(self, content: str | list[ContentPart]) -> str | list[_Part]:
        """Return the output of a tool: a string if it is only text, because many endpoints accept nothing
        else (ask B10)."""
        if isinstance(content, str):
            return content
        parts = self.message_parts("tool", content)
        if all(part["type"] == "input_text" and BREAKPOINT not in part for part in parts):
            return "\n".join(part["text"] for part in parts)
        return parts

    def _assistant_part(self, part: ContentPart) -> _Part | None:
        if isinstance(part, Refusal):
            return {"type": "refusal", "refusal": part.refusal}
        text = _text_of(part)
        if text is None:
            return _output(self._left_out(part))
        # Log probabilities are of no use to the model, so they are not sent back.
        annotations = to_builtins(part.annotations) if isinstance(part, OutputText) else []
        return _output(text, annotations) if text else None

    def _input_part(self, part: ContentPart) -> _Part | None:
        if isinstance(part, InputImage | InputFile | InputVideo) and self._supports(part):
            return self._with_breakpoint(to_builtins(part), part)
        text = _text_of(part)
        if text is None:
            return _input(self._left_out(part))
        return self._with_breakpoint(_input(text), part) if text else None

    def _with_breakpoint(self, rendered: _Part, part: ContentPart) -> _Part:
        """Keep a cache breakpoint for OpenAI, which defined it."""
        if not has_breakpoint(part):
            return rendered
        if self._is_original:
            return {**rendered, BREAKPOINT: (part.extra or {})[BREAKPOINT]}
        self._diagnostics.report(
            "field_dropped", f"`{BREAKPOINT}` cannot be sent to this upstream and was dropped"
        )
        return {name: value for name, value in rendered.items() if name != BREAKPOINT}

    def _supports(self, part: InputImage | InputFile | InputVideo) -> bool:
        if isinstance(part, InputImage):
            return self._quirks.images and bool(part.image_url or (self._is_original and part.file_id))
        if isinstance(part, InputFile):
            return self._is_original or (self._quirks.files and not part.file_id)
        return not self._is_original  # videos are in the specification, but OpenAI does not support them

    def _left_out(self, part: ContentPart) -> str:
        what = f"content of type {part.type!r}"
        self._diagnostics.report(
            "content_left_out", f"{what} cannot be sent to this upstream; a note was sent instead"
        )
        return f"[{what} was left out: this model cannot read it]"


def _text_of(part: ContentPart) -> str | None:
    text = part.refusal if isinstance(part, Refusal) else getattr(part, "text", None)
    return text if isinstance(text, str) else None


def _input(text: str) -> _Part:
    return {"type": "input_text", "text": text}


def _output(text: str, annotations: list[Any] | None = None) -> _Part:
    return {"type": "output_text", "text": text, "annotations": annotations or []}
