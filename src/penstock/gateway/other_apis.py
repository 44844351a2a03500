"""Requests of other APIs: a client that was pointed at this gateway gets an error that it shows to its user.

A 404 is not shown: clients explain it themselves, for example with a wrong model name. So the status is 400,
and the body has the form of that API (ask L3).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.gateway.errors import RequestRefused
from penstock.protocol.chat_requests import FIELDS, examples_of

CODE = "unsupported_api"

_Body = Callable[[str], dict[str, Any]]
"""Returns the error body for a message."""


def _chat_error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": CODE}}


def _messages_error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def _generate_content_error(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


class _Api(Struct, frozen=True):
    path: re.Pattern[str]
    name: str
    body: _Body
    hint: str = ""


def _api(path: str, name: str, body: _Body, hint: str = "") -> _Api:
    return _Api(re.compile(path), name, body, hint)


_CHAT_HINT = f", and write `input` instead of `messages`: {examples_of(FIELDS['messages'])}"

_APIS = (
    _api(r"chat/completions(/.*)?", "Chat Completions", _chat_error, _CHAT_HINT),
    _api(r"completions", "Completions", _chat_error),
    _api(r"embeddings", "Embeddings", _chat_error),
    _api(r"messages(/.*)?", "Messages", _messages_error),
    # A model's name may contain a colon, so that alone is no sign of this API.
    _api(
        r"(v1(alpha|beta\d*)/.*|models/.+:(\w*[gG]enerateContent|countTokens|\w*[eE]mbedContents?))",
        "generateContent",
        _generate_content_error,
    ),
)


class OtherApiRequested(RequestRefused):
    """A request of an API that the gateway does not support, refused in the form of that API."""

    def __init__(self, path: str, api: _Api) -> None:
        message = (
            f"this gateway supports the Responses API, but not the {api.name} API (/{path}): use a client or "
            f"a setting for POST /v1/responses, with the same base URL{api.hint}"
        )
        super().__init__(400, CODE, message)
        self._api = api

    def body(self) -> bytes:
        return msgspec.json.encode(self._api.body(self.message))


def refuse_other_api(path: str) -> None:
    """Raise `OtherApiRequested` if the path belongs to another API. The path is without a leading `v1/`."""
    for api in _APIS:
        if api.path.fullmatch(path):
            raise OtherApiRequested(path, api)
