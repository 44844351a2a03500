"""Errors and diagnostics on the wire. Python's exceptions are in `penstock.errors`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from penstock.protocol.wire import Code, Wire


class ErrorPayload(Wire):
    type: str = "server_error"
    code: Code | None = None
    message: str = ""
    param: str | None = None
    headers: dict[str, str] | UnsetType = UNSET


class ErrorBody(Wire, kw_only=True):
    """The body of an HTTP error response."""

    error: ErrorPayload


class ResponseError(Wire):
    """Why a response failed."""

    code: Code = "server_error"
    message: str = ""


class IncompleteDetails(Wire):
    """Why a response ended early: `max_output_tokens`, `content_filter`, `cancelled`."""

    reason: str = ""


class Diagnostic(Wire, kw_only=True):
    """Something that was dropped, degraded or repaired. `count` is how often it happened."""

    code: str
    message: str
    param: str | UnsetType = UNSET
    count: int = 1
