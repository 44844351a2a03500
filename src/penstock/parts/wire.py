"""Convert parts to JSON, one object per line, for `penstock parts` and the editor host."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.errors import DecodeError, OpenResponsesError
from penstock.lenient import text_of
from penstock.parts.markers import STATEFUL_MARKER, USAGE
from penstock.parts.parts import (
    Audience,
    ChatMessage,
    DataPart,
    MessagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.parts.result import StreamResult
from penstock.protocol.wire import parse, to_builtins

JSON = dict[str, Any]

PRIVATE_LINES: dict[str, str] = {USAGE: "usage", STATEFUL_MARKER: "marker"}
"""The line types of data that is not content, by its MIME type (docs/host.md)."""


def part_to_json(part: MessagePart) -> JSON:
    fields = _WRITERS[part.__class__](part)
    audience = getattr(part, "audience", ())
    return {**fields, "audience": [mark.name.lower() for mark in audience]} if audience else fields


def part_to_line(part: Part) -> JSON:
    """Return a part as a line of the editor host, where `id` is the id of the request (docs/host.md)."""
    fields = part_to_json(part)
    if isinstance(part, ThinkingPart):
        fields["thinking_id"] = fields.pop("id")
    elif isinstance(part, DataPart) and part.mime in PRIVATE_LINES:
        fields["type"] = PRIVATE_LINES[part.mime]
        if part.mime == USAGE:
            fields["tokens"] = parse(part.data)
    return fields


def error_to_json(error: OpenResponsesError) -> JSON:
    """Return an error with its code, its message and all other known details."""
    known = (
        "status",
        "param",
        "request_id",
        "retry_after",
        "limit_tokens",
        "used_tokens",
        "estimated_tokens",
    )
    details = {name: value for name in known if (value := getattr(error, name)) is not None}
    return {"type": "error", "code": error.code, "message": error.message, **details}


def result_to_json(result: StreamResult) -> JSON:
    return {
        "type": "result",
        "response_id": result.response_id,
        "model": result.model,
        "status": result.status,
        "finish": result.finish,
        "usage": to_builtins(result.usage),
        "refused": result.refused,
        "annotations": to_builtins(result.annotations),
        "diagnostics": to_builtins(result.diagnostics),
    }


def encode_line(fields: JSON) -> bytes:
    """Return one line of JSON, with the line feed."""
    try:
        return msgspec.json.encode(fields) + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, which must be escaped
        return json.dumps(fields).encode() + b"\n"


def part_from_json(raw: Any) -> MessagePart:
    """Read a part from a JSON object. Raise `DecodeError` with the invalid field."""
    if not isinstance(raw, dict):
        raise DecodeError("expected an object for a part")
    read = _READERS.get(text_of(raw.get("type")))
    if read is None:
        raise DecodeError(f"expected one of {', '.join(_READERS)}", "type")
    return read(raw)


def message_from_json(raw: Any) -> ChatMessage:
    """Read a message: `{"role": 1, "content": [parts], "name"}`. The content may be a string."""
    if not isinstance(raw, dict):
        raise DecodeError("expected an object for a message")
    role, content = raw.get("role"), raw.get("content")
    if role.__class__ is not int:
        raise DecodeError("expected 1 (user), 2 (assistant) or 3 (system)", "role")
    if isinstance(content, str):
        return ChatMessage(role, [TextPart(content)], _optional_text(raw, "name"))
    return ChatMessage(role, _parts(raw, "content"), _optional_text(raw, "name"))


def message_to_json(message: ChatMessage) -> JSON:
    name = {} if message.name is None else {"name": message.name}
    return {"role": int(message.role), "content": [part_to_json(part) for part in message.content], **name}


def decode_message(line: bytes | str) -> ChatMessage:
    return message_from_json(parse(line))


_WRITERS: dict[type, Callable[[Any], JSON]] = {
    TextPart: lambda part: {"type": "text", "value": part.value},
    ThinkingPart: lambda part: {
        "type": "thinking",
        "value": part.value,
        "id": part.id,
        "metadata": part.metadata,
    },
    ToolCallPart: lambda part: {
        "type": "tool_call",
        "call_id": part.call_id,
        "name": part.name,
        "input": part.input,
    },
    DataPart: lambda part: {"type": "data", "mime": part.mime, "base64": b64encode(part.data).decode()},
    ToolResultPart: lambda part: {
        "type": "tool_result",
        "call_id": part.call_id,
        "content": [part_to_json(each) for each in part.content],
        "is_error": part.is_error,
    },
}


def _text(raw: JSON, name: str) -> str:
    if not isinstance(raw.get(name), str):
        raise DecodeError("expected a string", name)
    value: str = raw[name]
    return value


def _optional_text(raw: JSON, name: str) -> str | None:
    return None if raw.get(name) is None else _text(raw, name)


def _audience(raw: JSON) -> tuple[Audience, ...]:
    known = {mark.name.lower(): mark for mark in Audience}
    marks = [] if raw.get("audience") is None else raw["audience"]
    if not isinstance(marks, list) or any(text_of(mark).lower() not in known for mark in marks):
        raise DecodeError(f"expected a list of {', '.join(known)}", "audience")
    return tuple(known[mark.lower()] for mark in marks)


def _parts(raw: JSON, name: str) -> list[MessagePart]:
    value = raw.get(name)
    if not isinstance(value, list):
        raise DecodeError("expected an array of parts", name)
    parts: list[MessagePart] = []
    for index, each in enumerate(value):
        try:
            parts.append(part_from_json(each))
        except DecodeError as error:
            raise error.within(f"[{index}]").within(name) from None
    return parts


def _thinking(raw: JSON) -> ThinkingPart:
    value: Any = raw.get("value")
    metadata = raw.get("metadata")
    pieces = [value] if isinstance(value, str) else value
    if not isinstance(pieces, list) or not all(isinstance(each, str) for each in pieces):
        raise DecodeError("expected a string or an array of strings", "value")
    if metadata is not None and not isinstance(metadata, dict):
        raise DecodeError("expected an object", "metadata")
    id_field = "thinking_id" if raw.get("id") is None else "id"  # in a line, or in a message
    return ThinkingPart(value, _optional_text(raw, id_field), metadata)


def _tool_call(raw: JSON) -> ToolCallPart:
    input = raw.get("input", {})
    if not isinstance(input, dict):
        raise DecodeError("expected an object", "input")
    return ToolCallPart(_text(raw, "call_id"), _text(raw, "name"), input)


def _data(raw: JSON) -> DataPart:
    try:
        data = b64decode(_text(raw, "base64"), validate=True)
    except (Error, ValueError):
        raise DecodeError("expected base64", "base64") from None
    return DataPart(data, _text(raw, "mime"), _audience(raw))


def _tool_result(raw: JSON) -> ToolResultPart:
    content = _parts(raw, "content") if raw.get("content") is not None else []
    allowed = [part for part in content if isinstance(part, TextPart | DataPart)]
    if len(allowed) < len(content):
        raise DecodeError("expected text and data parts only", "content")
    return ToolResultPart(_text(raw, "call_id"), allowed, raw.get("is_error") is True)


_READERS: dict[str, Callable[[JSON], MessagePart]] = {
    "text": lambda raw: TextPart(_text(raw, "value"), _audience(raw)),
    "thinking": _thinking,
    "tool_call": _tool_call,
    "data": _data,
    "tool_result": _tool_result,
}
