"""The chunks that nearly all of a stream consists of: a piece of text, of reasoning or of a call's arguments.

These types list every field that such a chunk may have: the piece itself, what identifies the chunk, and
fields that `ChatReader` never reads. Where it does read a field, only values are listed that mean nothing to
it. msgspec refuses a chunk with any other field, value or type, and the reader then reads it as usual. So a
field that the reader learns to read needs no change here, unless it is listed.

Fields are in the order in which servers send them, which is how msgspec finds them fastest.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from penstock.dialects.frames import common_reader

Nothing = Literal[""] | None
"""A value that stands for an absent one."""


class _Shape(Struct, forbid_unknown_fields=True, gc=False):
    """An object without any other fields."""


class ArgumentsPiece(_Shape):
    arguments: str
    name: Nothing = None


class InputPiece(_Shape):
    input: str
    name: Nothing = None


class CallPiece(_Shape):
    """A piece of a call that has started: without an id and a name."""

    index: int
    id: Nothing = None
    type: Literal["function", ""] | None = None
    function: ArgumentsPiece | None = None
    custom: InputPiece | None = None


class CommonDelta(_Shape):
    role: str | None = None  # never read
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: Nothing = None
    tool_calls: list[CallPiece] | None = None
    function_call: None = None
    annotations: None = None
    audio: None = None
    channel: str | None = None  # never read


class CommonChoice(_Shape, kw_only=True):
    index: Literal[0] | None = None
    delta: CommonDelta
    logprobs: None = None
    finish_reason: Nothing = None
    # never read
    native_finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    content_filter_results: dict[str, Any] | None = None
    content_filter_offsets: dict[str, Any] | None = None


class CommonChunk(_Shape, kw_only=True):
    id: str | None = None
    object: str | None = None  # never read next to `choices`
    created: int | None = None  # never read
    model: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None  # never read
    choices: tuple[CommonChoice]
    usage: None = None
    obfuscation: str | None = None  # never read
    provider: str | None = None  # never read


common_chunk = common_reader(CommonChunk)
