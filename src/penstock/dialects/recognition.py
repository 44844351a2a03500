"""Guess the API format of an answer that could not be read.

A reader ignores what it does not know, so an answer in another API format has no content for it. The guess
turns this into an error that says what to set (decision 30). It looks at the first frames only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from penstock.dialects.frames import DONE
from penstock.errors import ProtocolError
from penstock.lenient import object_of, read_json, text_of
from penstock.protocol.events import is_keep_alive
from penstock.sse import LINE_STARTS, Decoder, Frame, without_blanks

MOST_FRAMES = 8
MOST_BYTES = 16 * 1024
"""How much of an answer is kept for a guess."""
_LONGEST_FRAME = 64 * 1024
"""Characters. A longer frame is not decoded again for a guess."""
_LONGEST_BODY = 1024 * 1024
_LONGEST_KEEP_ALIVE = 200
_SHOWN = 160
"""Characters of an unreadable answer that its error shows."""


class ApiFormat(Struct, frozen=True):
    """An API format: a title for messages, and the dialect that reads it, if any."""

    title: str
    dialect: str = ""


FORMATS: dict[str, ApiFormat] = {
    "chat": ApiFormat("Chat Completions", "chat"),
    "responses": ApiFormat("Responses", "responses"),
    "anthropic": ApiFormat("Anthropic Messages", "anthropic"),
    "gemini": ApiFormat("Gemini generateContent", "gemini"),
    "ai_sdk": ApiFormat("AI SDK stream parts", "ai_sdk"),
    "ollama": ApiFormat("Ollama's own API", "ollama"),
    "cohere": ApiFormat("Cohere's chat API", "cohere"),
    "bedrock": ApiFormat("Bedrock Converse", "bedrock"),
    # Its content has the same events.
    "ai_sdk_ui": ApiFormat("an AI SDK UI message stream", "ai_sdk"),
    "gemini_interactions": ApiFormat("Gemini Interactions"),
    "aws_event_stream": ApiFormat("AWS's binary event stream"),
}
"""The formats that are recognised. Those of our dialects have the same names."""

_TYPES: dict[str, str] = {
    type: name
    for name, types in {
        "anthropic": "message_start content_block_start content_block_delta content_block_stop message_delta "
        "message_stop",
        "cohere": "message-start content-start content-delta content-end tool-plan-delta tool-call-start "
        "tool-call-end citation-start citation-end message-end",
        "ai_sdk": "stream-start response-metadata tool-call tool-result",
        "ai_sdk_ui": "start-step finish-step tool-input-available tool-output-available tool-input-error",
    }.items()
    for type in types.split()
}
"""The types of events that only one format has. All events of Responses begin with `response.`."""

_AI_SDK_CONTENT = frozenset(
    {
        *("text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "reasoning-end"),
        *("tool-input-start", "tool-input-delta", "tool-input-end"),
    }
)
"""The types of events that both formats of the AI SDK have. They decide if nothing else does."""

_LAST_TYPES = frozenset(
    {"message_stop", "message-end", "finish", "response.completed", "response.incomplete", "response.failed"}
)
"""The types of events after which nothing follows."""

_OBJECTS: dict[str, str] = {
    "chat.completion": "chat",
    "chat.completion.chunk": "chat",
    "text_completion": "chat",
    "response": "responses",
    "interaction": "gemini_interactions",
}
"""The values of `object`."""

_FIELDS: tuple[tuple[str, dict[str, type]], ...] = (
    ("chat", {"choices": list}),
    ("responses", {"output": list, "status": str}),
    ("anthropic", {"role": str, "content": list, "stop_reason": object}),
    ("gemini", {"candidates": list}),
    ("gemini", {"promptFeedback": dict}),
    ("gemini", {"usageMetadata": dict}),
    ("ollama", {"model": str, "message": dict, "done": bool}),
    ("ollama", {"model": str, "response": str, "done": bool}),
    ("cohere", {"message": dict, "finish_reason": str}),
    ("bedrock", {"output": dict, "stopReason": str}),
    ("bedrock", {"messageStart": dict}),
    ("bedrock", {"contentBlockStart": dict}),
    ("bedrock", {"contentBlockDelta": dict}),
    ("bedrock", {"contentBlockStop": dict}),
    ("bedrock", {"messageStop": dict}),
    ("ai_sdk", {"content": list, "finishReason": object, "usage": dict}),
    ("gemini_interactions", {"event_type": str, "interaction": dict}),
    ("gemini_interactions", {"event_type": str, "interaction_id": str}),
    ("gemini_interactions", {"event_type": str, "index": int}),
)
"""Fields, with their types, that only one format has."""

_EVENT_NAMES: dict[str, str] = {
    name: format for format, fields in _FIELDS if len(fields) == 1 for name in fields if format == "bedrock"
}
"""The names of server-sent events whose JSON does not contain the name."""

_AWS = re.compile(rb"\x00\x00..\x00\x00......[\x01-\xff]:(event|message|content|exception)-type", re.DOTALL)
_JSON_START = (b"{", b"[")
_RESPONSES_TYPE = re.compile(r"(\w+:)?response\.")
_SSE_LINES = tuple(start.decode() for start in LINE_STARTS)

Advice = Callable[[str], str]
"""Returns what to do about an answer in the format of this name."""


def advice(name: str) -> str:
    """Return what a program can set."""
    known = FORMATS[name].dialect
    return f'set the dialect to "{known}"' if known else "this format is not supported"


def mismatch(name: str, expected: str, advise: Advice = advice) -> str:
    """Return the message for an answer in the format `name` that was read in the dialect `expected`."""
    looks, read = FORMATS[name].title, FORMATS[expected].title
    return f"the answer looks like {looks}, but it was read as {read}: {advise(name)}"


def format_of(frames: Iterable[Frame], expected: str = "") -> str:
    """Return the name of the format of the first frames; "" if it is unknown. If one of them can only be the
    expected format, that is the answer."""
    return _format_of_objects(((_object_in(frame), frame.event or "") for frame in frames), expected)


def format_of_bytes(data: bytes, expected: str = "") -> str:
    """Return the name of the format of a body, or of its beginning; "" if it is unknown."""
    if _AWS.match(data):
        return "aws_event_stream"
    if not without_blanks(data).startswith(_JSON_START):
        return format_of(Decoder().feed(data[:_LONGEST_FRAME])[:MOST_FRAMES], expected)
    text = data.decode(errors="replace").lstrip("\ufeff")
    value = read_json(text) if len(data) <= _LONGEST_BODY else None
    if value is None:  # one object per line
        return format_of(
            (Frame(None, line) for line in text[:_LONGEST_FRAME].splitlines()[:MOST_FRAMES]), expected
        )
    members = value[:MOST_FRAMES] if isinstance(value, list) else [value]
    return _format_of_objects(((each, "") for each in members if isinstance(each, dict)), expected)


def beginning(data: str) -> str:
    """Return the start of an unreadable text on one line, without control characters."""
    words = " ".join(data[: 4 * _SHOWN].split())
    shown = "".join(each for each in words if each.isprintable())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


class Opening:
    """The beginning of an answer, kept until something in it was read. `expected` is the dialect it is read
    in; if that is not one of ours, nothing is known about its format, and another one is never assumed."""

    __slots__ = ("_advise", "_bytes", "_expected", "_frames", "_size", "is_full")

    def __init__(self, expected: str, advise: Advice = advice) -> None:
        self._expected, self._advise = expected, advise
        self._frames: list[Frame] = []
        self._bytes = b""
        """The answer, if it is one document, or its beginning as long as there is no frame."""
        self._size = 0
        self.is_full = False
        """Whether there is enough for a guess. Nothing is added then."""

    def add(self, frames: Iterable[Frame]) -> bool:
        """Keep frames, apart from keep-alives and end markers. Return whether it is full now."""
        if self.is_full:
            return False
        for frame in frames:
            if _has_content(frame):
                self._frames.append(frame)
                self._size += len(frame.data)
            if len(self._frames) >= MOST_FRAMES or self._size >= MOST_BYTES or _is_last(frame):
                self.is_full = True
                break
        return self.is_full

    def add_bytes(self, data: bytes) -> bool:
        """Keep bytes that were no frame so far. Return whether there are enough of them now."""
        if self._frames or len(self._bytes) >= MOST_BYTES:
            return False
        self._bytes += data[:MOST_BYTES]
        return len(self._bytes) >= MOST_BYTES

    def set_body(self, body: bytes) -> None:
        """Use an answer that is one document instead of a stream."""
        self._bytes = body

    def clear(self) -> None:
        self._frames, self._bytes, self.is_full = [], b"", True

    def reports_error(self) -> bool:
        """Return whether a frame has the shape of an error, in any format."""
        return any(_reports_error(_object_in(frame), frame.event or "") for frame in self._frames)

    def is_expected(self) -> bool:
        found = self._format()
        return bool(found) and FORMATS[found].dialect == self._expected

    def other_format(self) -> str:
        """Return the name of the answer's format, if it is not the expected one."""
        found = self._format() if self._expected in FORMATS else ""
        return found if found and FORMATS[found].dialect != self._expected else ""

    def refuse_other_format(self) -> None:
        """Raise if the answer has another format."""
        if name := self.other_format():
            message = mismatch(name, self._expected, self._advise)
            raise ProtocolError(message, code="upstream_invalid")

    def refuse_unreadable(self, mask: Callable[[str], str]) -> None:
        """Raise unless there is nothing to read. `mask` removes secrets before the text is shortened, which
        could leave half of one."""
        if text := self._text():
            title = FORMATS[self._expected].title if self._expected in FORMATS else self._expected
            shown = beginning(mask(text))
            message = f"nothing in the answer could be read as {title}; it begins with: {shown}"
            raise ProtocolError(message, code="upstream_invalid")

    def _format(self) -> str:
        return format_of(self._frames, self._expected) or format_of_bytes(self._bytes, self._expected)

    def _text(self) -> str:
        """Return the content of the first frame, or the first bytes outside of frames."""
        if self._frames:
            return self._frames[0].data[:MOST_BYTES]
        lines = self._bytes[:MOST_BYTES].decode(errors="replace").splitlines()
        return "\n".join(line for line in lines if line.strip() and not _is_sse(line))


def _format_of_objects(objects: Iterable[tuple[dict[str, Any], str]], expected: str) -> str:
    """Return the name of the format of these objects, each with the name of its event."""
    found: list[str] = []
    similar = ""
    for value, event in objects:
        if _reports_error(value, event):
            continue
        type = text_of(value.get("type")) or event
        if name := _name_of(value, type):
            found.append(name)
        elif type in _AI_SDK_CONTENT:
            similar = "ai_sdk"
    return expected if expected in found else next(iter(found), similar)


def _name_of(value: dict[str, Any], type: str) -> str:
    """Return the format of an object that only one format can contain; "" for any other."""
    if type in _TYPES:
        return _TYPES[type]
    if _RESPONSES_TYPE.match(type):
        return "responses"
    if type in _EVENT_NAMES:
        return _EVENT_NAMES[type]
    named = _OBJECTS.get(text_of(value.get("object")))
    return named or next((name for name, fields in _FIELDS if _has_fields(value, fields)), "")


def _has_fields(value: dict[str, Any], fields: dict[str, type]) -> bool:
    return all(name in value and isinstance(value[name], type) for name, type in fields.items())


def _object_in(frame: Frame) -> dict[str, Any]:
    """Return the object in a frame; an empty one for anything else."""
    return object_of(read_json(frame.data)) if len(frame.data) <= _LONGEST_FRAME else {}


def _reports_error(value: dict[str, Any], event: str) -> bool:
    return bool(value.get("error")) or "error" in (value.get("type"), event)


def _is_sse(line: str) -> bool:
    """Return whether a line belongs to server-sent events. The last one may have been cut off."""
    return line.startswith(_SSE_LINES) or any(start.startswith(line) for start in _SSE_LINES)


def _has_content(frame: Frame) -> bool:
    data = frame.data.strip().strip('"')
    if not data or data == DONE:
        return False
    # A keep-alive is short.
    return len(data) > _LONGEST_KEEP_ALIVE or not is_keep_alive(_type_of(frame))


def _is_last(frame: Frame) -> bool:
    """Return whether nothing follows this frame, in the format that it belongs to."""
    return frame.data.strip() == DONE or _type_of(frame) in _LAST_TYPES


def _type_of(frame: Frame) -> str:
    return text_of(_object_in(frame).get("type")) or frame.event or ""
