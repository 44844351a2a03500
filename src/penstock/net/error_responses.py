"""Converts HTTP error responses to exceptions of `penstock.errors`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from penstock.errors import KINDS, DecodeError, NetworkError, NotFoundError, OpenResponsesError, ProtocolError
from penstock.failures import classify
from penstock.net.masking import Secrets
from penstock.protocol.wire import parse

_LONGEST_CODE = 128


def request_id_of(headers: Mapping[str, str], secrets: Secrets) -> str | None:
    names = {name.lower(): value for name, value in headers.items()}
    return secrets.mask(names.get("x-request-id") or names.get("request-id") or "") or None


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, secrets: Secrets, advice: str = ""
) -> OpenResponsesError:
    """Return the exception for a body with an error, whatever the status. `advice` is added if the address
    was not found (ask L3)."""
    # Classify the original body, but show the masked one: a key that is a word of the error, such as
    # `context`, must not change the classification.
    failure = classify(status, headers, body)
    masked = secrets.mask_body(body)
    visible = classify(status, headers, masked)
    message, code = visible.message, _code_in(masked)
    if advice and failure.code == "not_found":
        message = f"{message} ({' '.join(advice.split())})"
    if failure.code == "insufficient_quota":
        code = failure.code  # overrides the server's code: clients must not wait and retry
    kind = NotFoundError if status == 404 else KINDS[failure.code]
    return kind(
        message,
        code=code or failure.code,
        status=status if status >= 400 else None,
        param=visible.param,
        request_id=request_id_of(headers, secrets),
        retry_after=_wait_until(headers) if failure.retry_after is None else failure.retry_after,
        limit_tokens=failure.limit_tokens,
        used_tokens=failure.used_tokens,
    )


def _code_in(body: bytes) -> str:
    """Return the server's own code for the failure. A number does not count."""
    value = read_json_body(body)
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(value, dict) and value.get("type") == "error" and not isinstance(error, dict):
        error = value
    code = error.get("code") if isinstance(error, dict) else None
    return code[:_LONGEST_CODE] if isinstance(code, str) and not code.isdigit() else ""


def _wait_until(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a `retry-after` date, from the server's `date`, else from our clock."""
    names = {name.lower(): value for name, value in headers.items()}
    try:
        then = parsedate_to_datetime(names["retry-after"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    try:
        now = parsedate_to_datetime(names["date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        now = time.time()
    return max(then - now, 0.0)


def protocol_error(
    message: str, request_id: str | None, *, code: str = "", status: int | None = None
) -> ProtocolError:
    return ProtocolError(message, code=code, status=status, request_id=request_id)


def client_closed() -> NetworkError:
    return NetworkError("the client was closed during the request", code="client_closed", phase="cut")


def read_json_body(body: bytes) -> Any:
    """Return the JSON of a body, None if it is not JSON."""
    try:
        return parse(body)
    except DecodeError:
        return None
