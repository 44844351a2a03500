"""The chunks that nearly all of a stream consists of: a piece of text, of reasoning or of a call's arguments.

These types list every field that such a chunk may have: the piece itself, what identifies the chunk, and
fields that `ChatReader` never reads. Where it does read a field, only values are listed that mean nothing to
it. msgspec refuses a chunk with any other field, value or type, and the reader then reads it as usual. So a
field that the reader learns to read needs no change here, unless it is listed.

Fields are in the order in which servers send them, which is how msgspec finds them fastest.
"""

from __future__ import annotations

from typing import Any, Literal

from penstock.dialects.frames import CommonShape, common_reader

Nothing = Literal[""] | None
"""A value that stands for an absent one."""


class ChatArgumentsPiece(CommonShape):
    arguments: str
    name: Nothing = None


class ChatInputPiece(CommonShape):
    input: str
    name: Nothing = None


class ChatCallPiece(CommonShape):
    """A piece of a call that has started: without an id and a name."""

    index: int
    id: Nothing = None
    type: Literal["function", ""] | None = None
    function: ChatArgumentsPiece | None = None
    custom: ChatInputPiece | None = None


class CommonChatDelta(CommonShape):
    role: str | None = None  # never read
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: Nothing = None
    tool_calls: list[ChatCallPiece] | None = None
    function_call: None = None
    annotations: None = None
    audio: None = None
    channel: str | None = None  # never read


class CommonChatChoice(CommonShape, kw_only=True):
    index: Literal[0] | None = None
    delta: CommonChatDelta
    logprobs: None = None
    finish_reason: Nothing = None
    # never read
    native_finish_reason: str | None = None
    stop_reason: int | str | None = None
    matched_stop: int | str | None = None
    token_ids: list[int] | None = None
    content_filter_results: dict[str, Any] | None = None
    content_filter_offsets: dict[str, Any] | None = None


class CommonChatChunk(CommonShape, kw_only=True):
    id: str | None = None
    object: str | None = None  # never read next to `choices`
    created: int | None = None  # never read
    model: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None  # never read
    choices: tuple[CommonChatChoice]
    usage: None = None
    obfuscation: str | None = None  # never read
    provider: str | None = None  # never read
    p: str | None = None  # never read


read_common = common_reader(CommonChatChunk)
