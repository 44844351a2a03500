"""Error responses of a server, and the exceptions that they become."""

from __future__ import annotations

import json
from typing import Any

from penstock.errors import OpenResponsesError
from penstock.net.error_responses import refusal
from penstock.net.masking import Secrets

NO_SECRETS = Secrets()


def error_body(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


def refused(
    status: int, body: Any, headers: dict[str, str] | None = None, **given: Any
) -> OpenResponsesError:
    """Return the exception for an error response."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refusal(status, headers or {}, data, given.pop("secrets", NO_SECRETS), **given)
