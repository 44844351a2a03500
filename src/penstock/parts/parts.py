"""The parts of VS Code's Language Model API, as immutable values.

A response consists of text, thinking, tool calls and data. A message may also contain tool results, which a
provider never emits (editor 15). `penstock.parts.wire` converts parts to JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr


class Role(IntEnum):
    """The author of a message. VS Code sends 3 although its stable types do not include it (editor 4)."""

    USER = 1
    ASSISTANT = 2
    SYSTEM = 3


RoleName = Literal["user", "assistant", "system"]

_ROLES: dict[str, Role] = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}


class Audience(IntEnum):
    """Who a part is for. A part without an audience is for everyone."""

    ASSISTANT = 0
    USER = 1
    EXTENSION = 2


class TextPart(Struct, frozen=True):
    """Text to show, in GitHub Flavored Markdown. Join consecutive parts without a separator."""

    value: str
    audience: tuple[Audience, ...] = ()


class ThinkingPart(Struct, frozen=True):
    """Thinking of the model: a piece of text, or a list of pieces.

    `id` is the id of the thinking block. The last part of a block has an empty value and `metadata`: return
    it unchanged with the next request, so that the model remembers its reasoning.
    """

    value: str | Sequence[str]
    id: str | None = None
    metadata: Mapping[str, Any] | None = None


class ToolCallPart(Struct, frozen=True):
    """A complete tool call. A call id occurs once in a response."""

    call_id: str
    name: str
    input: Mapping[str, Any]


class DataPart(Struct, frozen=True):
    """Typed bytes: an image, a file, JSON."""

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
    """The output of a tool. Only messages contain it."""

    call_id: str
    content: Sequence[TextPart | DataPart] = ()
    is_error: bool = False


Part = TextPart | ThinkingPart | ToolCallPart | DataPart
"""The parts of a response."""

MessagePart = Part | ToolResultPart
"""The parts of a message."""


class ChatMessage(Struct, frozen=True):
    """One message of an editor's conversation. Its role may be given by name; `role` is always a number.

    A number that is not a `Role` is kept: an editor may have more roles.
    """

    role: int
    content: Sequence[MessagePart]
    name: str | None = None

    if TYPE_CHECKING:  # msgspec makes the real one

        def __init__(
            self, role: Role | RoleName | int, content: Sequence[MessagePart], name: str | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        role: object = self.role
        if isinstance(role, str):
            if role not in _ROLES:
                raise ValueError(f"there is no role {role!r}: use {', '.join(map(repr, _ROLES))}")
            force_setattr(self, "role", _ROLES[role])


class ChatTool(Struct, frozen=True):
    """A tool that the model may call. `input_schema` is a JSON Schema, or None for no arguments."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
