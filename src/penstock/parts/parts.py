"""The parts that VS Code's Language Model API is made of, as values.

A response is made of text, thinking, tool calls and data; a message may also hold the result of a tool, which
a provider never emits (editor 15). `penstock.parts.wire` writes them as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec
from msgspec import Struct


class Role(IntEnum):
    """Who a message is from. VS Code sends 3 although its stable types do not have it (editor 4)."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3


class Audience(IntEnum):
    """Who a part is meant for. A part without a mark is for everybody."""

    ASSISTANT = 0
    USER = 1
    EXTENSION = 2


class TextPart(Struct, frozen=True):
    """Text to be shown, in GitHub's markdown. Parts in a row are one text: join them as they are."""

    value: str
    audience: tuple[Audience, ...] = ()


class ThinkingPart(Struct, frozen=True):
    """What a model thinks: a piece of it, or a list of pieces.

    `id` names the block that a piece belongs to. `metadata` comes with the last part of a block, whose value
    is empty: give it back unchanged with the next request, and the model remembers what it thought.
    """

    value: str | Sequence[str]
    id: str | None = None
    metadata: Mapping[str, Any] | None = None


class ToolCallPart(Struct, frozen=True):
    """A call to a tool, whole: a call id comes once in a response."""

    call_id: str
    name: str
    input: Mapping[str, Any]


class DataPart(Struct, frozen=True):
    """Bytes of some type: an image, a file, JSON."""

    data: bytes
    mime: str
    audience: tuple[Audience, ...] = ()

    @classmethod
    def image(cls, data: bytes, mime: str) -> DataPart:
        return cls(data, mime)

    @classmethod
    def json(cls, value: Any, mime: str = "text/x-json") -> DataPart:
        return cls(msgspec.json.encode(value), mime)

    @classmethod
    def text(cls, value: str, mime: str = "text/plain") -> DataPart:
        return cls(value.encode(), mime)


class ToolResultPart(Struct, frozen=True):
    """What a tool gave back. Only messages have it."""

    call_id: str
    content: Sequence[TextPart | DataPart] = ()
    is_error: bool = False


Part = TextPart | ThinkingPart | ToolCallPart | DataPart
"""What a response is made of."""

MessagePart = Part | ToolResultPart
"""What a message is made of."""


class ChatMessage(Struct, frozen=True):
    """One message of a conversation, as an editor keeps it."""

    role: int
    content: Sequence[MessagePart]
    name: str | None = None


class ChatTool(Struct, frozen=True):
    """A tool that is offered to the model. `input_schema` is a JSON Schema, or None for no arguments."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
