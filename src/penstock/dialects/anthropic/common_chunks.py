"""The events that nearly all of a stream consists of: a piece of text, of thinking or of a call's arguments.

These types list every field that such an event has. msgspec refuses an event with any other field, value or
type, and the reader then reads it as usual.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from penstock.dialects.frames import common_reader


class _Piece(Struct, tag_field="type", forbid_unknown_fields=True, gc=False):
    """A delta of a block."""


class TextPiece(_Piece, tag="text_delta"):
    text: str


class ThinkingPiece(_Piece, tag="thinking_delta"):
    text: str = field(name="thinking")


class InputPiece(_Piece, tag="input_json_delta"):
    text: str = field(name="partial_json")


class CommonDelta(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["content_block_delta"]
    index: int
    delta: TextPiece | ThinkingPiece | InputPiece


common_delta = common_reader(CommonDelta)
