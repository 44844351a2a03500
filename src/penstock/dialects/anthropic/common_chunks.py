"""The events that nearly all of a stream consists of: a piece of text, of thinking or of a call's arguments.

These types list every field that such an event has. msgspec refuses an event with any other field, value or
type, and the reader then reads it as usual.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from penstock.dialects.frames import CommonShape, common_reader


class _BlockPiece(CommonShape, tag_field="type"):
    """A delta of a block."""


class BlockTextPiece(_BlockPiece, tag="text_delta"):
    text: str


class BlockThinkingPiece(_BlockPiece, tag="thinking_delta"):
    text: str = field(name="thinking")


class BlockInputPiece(_BlockPiece, tag="input_json_delta"):
    text: str = field(name="partial_json")


class CommonBlockDelta(CommonShape):
    type: Literal["content_block_delta"]
    index: int
    delta: BlockTextPiece | BlockThinkingPiece | BlockInputPiece


read_common = common_reader(CommonBlockDelta)
