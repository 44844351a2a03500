"""The frames of a WebSocket outside a response: what the client sends, and errors."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from penstock.errors import DecodeError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.refusals import invalid_request
from penstock.gateway.settings import Limits
from penstock.gateway.turn.requests import parse_bounded
from penstock.protocol.chat_requests import refuse_chat_request
from penstock.protocol.errors import Diagnostic
from penstock.protocol.request import WebSocketCreate
from penstock.protocol.wire import read

STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")
"""What openai-python accepts as the `stream_id` of a lane. It needs no escaping in JSON."""

CREATE, STEER = "response.create", "response.steer"

IGNORED = {
    "stream": "a WebSocket always streams",
    "stream_options": "they are not supported over a WebSocket",
    "background": "a turn over a WebSocket runs in the foreground",
}
"""Fields that the specification forbids in a frame (spec N11), but Codex and openai-agents send with every
turn: they are ignored with a diagnostic (decision 31)."""


class FrameAddress(Struct, frozen=True):
    """What a frame is, and the lane that it belongs to. Nothing else of the frame is decoded."""

    type: Any = None
    stream_id: Any = None


class Create(Struct, frozen=True):
    """A `response.create` frame, and the diagnostics for fields that are ignored."""

    request: WebSocketCreate
    diagnostics: tuple[Diagnostic, ...] = ()


def address_of(frame: str) -> FrameAddress:
    """Return the address of a frame; that of an unreadable frame is empty."""
    try:
        return msgspec.json.decode(frame, type=FrameAddress)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return FrameAddress()


def read_create(frame: str, limits: Limits) -> Create:
    try:
        raw = parse_bounded(frame, limits)
        if not isinstance(raw, dict) or raw.get("type") != CREATE:
            raise DecodeError(
                f"a frame must be a JSON object of the type {CREATE}; a response is cancelled with "
                "POST /v1/responses/{id}/cancel",
                "type",
            )
        raw.pop("stream_id", None)
        ignored = [name for name in IGNORED if name in raw]
        for name in ignored:
            del raw[name]
        diagnostics = tuple(
            Diagnostic(code="field_dropped", message=f"`{name}` was ignored: {IGNORED[name]}", param=name)
            for name in ignored
        )
        refuse_chat_request(raw)
        return Create(read(raw, WebSocketCreate), diagnostics)
    except DecodeError as error:
        raise invalid_request(error) from None


def envelope(refused: RequestRefused, stream_id: str = "") -> str:
    """Return the error envelope of a failure outside a response (spec N26)."""
    error = {"code": refused.code, "message": refused.message, "type": refused.type, "param": refused.param}
    body: dict[str, Any] = {"type": "error", "status": refused.status, "error": error}
    if wait := dict(refused.headers).get("retry-after"):
        body["headers"] = {"retry-after": wait}
    if stream_id:
        body["stream_id"] = stream_id
    return msgspec.json.encode(body).decode()


def steered_response(frame: str) -> tuple[str, Any]:
    """Return the id of the response that a `response.steer` frame is for, and its input."""
    raw = msgspec.json.decode(frame)
    id = raw.get("previous_response_id")
    return id if isinstance(id, str) else "", raw.get("input", "")


def steer_failed(response_id: str, input: Any, stream_id: str = "") -> str:
    """Return the answer to a `response.steer` frame, in the form that openai-python expects. It returns the
    input, which the client sends with its next turn. It is no event of the response, so its sequence number
    has no meaning."""
    message = "steering is not supported: send the input with the next response.create"
    body: dict[str, Any] = {
        "type": "response.steer.failed",
        "sequence_number": 0,
        "error": {"type": "invalid_request_error", "code": "steering_not_supported", "message": message},
        "steer": {"previous_response_id": response_id, "input": input},
    }
    if stream_id:
        body["stream_id"] = stream_id
    return msgspec.json.encode(body).decode()
