"""Map failures to what the client gets: an HTTP status before the stream begins, an error event after."""

from __future__ import annotations

import math

from penstock.client.retries import is_transient
from penstock.errors import (
    DecodeError,
    NetworkError,
    OpenResponsesError,
    ProtocolError,
    StoreError,
)
from penstock.failures import ERROR_TYPES
from penstock.gateway.errors import RequestRefused
from penstock.gateway.telemetry.logs import log_fault

STATUSES: dict[str, int] = {
    "invalid_request": 400,
    "invalid_prompt": 400,
    "encrypted_content_unreadable": 400,
    "content_filter": 400,
    # Whatever status the upstream used: clients shorten the conversation at a 400 (spec N54, ask E4).
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "permission_denied": 403,
    "upstream_unauthorized": 401,
    "upstream_forbidden": 403,
    "model_not_found": 404,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "budget_exceeded": 429,
    "server_error": 500,
    "tool_not_allowed": 500,
    "internal_error": 500,
    "server_is_overloaded": 503,
    "shutting_down": 503,
    "upstream_timeout": 504,
}
"""The HTTP status of each code. Every other failure between gateway and upstream is a 502."""

FINAL = frozenset(
    {"upstream_not_found", "certificate_error", "tls_error", "insufficient_quota", "budget_exceeded"}
)
"""Failures that a retry cannot change, although their statuses are those of transient failures."""

_SILENT_PHASES = ("first_byte", "idle")
_DEFAULT_WAIT = 5
"""`retry-after` in seconds if the upstream sent none: Codex gives up at a 429 without one (client 3)."""


def code_of(error: OpenResponsesError) -> str:
    """Return our code for a failure. The vendor's own code stays in its message."""
    if isinstance(error, NetworkError):
        if error.code in ("certificate_error", "tls_error", "proxy_error"):
            return error.code
        if error.phase == "connect":
            return "upstream_unreachable"
        return "upstream_timeout" if error.phase in _SILENT_PHASES else "upstream_truncated"
    if isinstance(error, ProtocolError):
        return "upstream_invalid"
    if error.code in STATUSES or error.code.startswith(("upstream_", "bridge.")):
        return error.code
    # The gateway's own `not_found` is about a path of the gateway.
    return error.default_code if error.default_code != "not_found" else "upstream_not_found"


def is_final(error: OpenResponsesError) -> bool:
    """Return whether a retry cannot change a failure, so that a client should not retry it."""
    if isinstance(error, ProtocolError):  # perhaps a web page: the base URL is wrong
        return not is_transient(error)
    return code_of(error) in FINAL


def type_of(code: str) -> str:
    return ERROR_TYPES.get(code, "server_error")


def status_of(code: str) -> int:
    return STATUSES.get(code, 502)


def closer_of(error: OpenResponsesError) -> str:
    """Return what ended the turn: a timeout or the upstream."""
    return "timeout" if isinstance(error, NetworkError) and error.phase in _SILENT_PHASES else "upstream"


def refusal(
    code: str, message: str, *, param: str | None = None, wait: float | None = None, is_final: bool = False
) -> RequestRefused:
    """Return a failure as an HTTP response. `is_final`: tell the client not to retry."""
    headers = []
    if is_final:  # OpenAI's libraries retry every 429 and 5xx without it
        headers.append(("x-should-retry", "false"))
    if code == "rate_limit_exceeded" or wait is not None:
        headers.append(("retry-after", str(max(1, math.ceil(_DEFAULT_WAIT if wait is None else wait)))))
    return RequestRefused(status_of(code), code, message, type=type_of(code), param=param, headers=headers)


def with_request_id(message: str, request_id: str) -> str:
    """Append the request id, so that the user can find the log record that explains the error (ask M1)."""
    return f"{message} (request {request_id})"


def invalid_request(error: DecodeError) -> RequestRefused:
    """Return the refusal of a request that cannot be decoded, or cannot be sent to this upstream."""
    return RequestRefused(400, error.code, str(error), param=error.param or None)


def refusal_for(error: Exception, request_id: str) -> RequestRefused:
    """Return the response to a request that failed before its turn began.

    The traceback is removed: its frames hold the request body, and one is the caller's, which holds the
    returned refusal. This reference cycle would keep the body in memory until the next garbage collection.
    """
    if isinstance(error, RequestRefused):
        error.__context__ = None
        return error.with_traceback(None)
    if isinstance(error, StoreError):  # its message contains the file's path, which belongs in the log only
        return store_unavailable(error.code)
    log_fault(error, request_id)
    message = "internal error in the gateway: look for the id of this request in its log"
    return RequestRefused(500, "internal_error", message, type="server_error")


def store_unavailable(code: str = "") -> RequestRefused:
    """Return the refusal of a request that needs the store while it cannot be reached (decision 34)."""
    why = f" ({code})" if code else ""
    message = f"the store is not available{why}: try again in a moment"
    headers = [("retry-after", "2")]
    return RequestRefused(503, "store_unavailable", message, type="server_error", headers=headers)
