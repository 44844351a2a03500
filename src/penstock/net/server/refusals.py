"""Requests that the server itself refuses, before or instead of the application.

The server decides why; the application's `Refuser` decides what the response looks like, and logs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.net.server.channels import Headers


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was refused. `message` is for people and contains what to do."""

    status: int
    code: str
    message: str
    headers: Headers = ()

    @property
    def is_server_error(self) -> bool:
        return self.status >= 500


class Refuser(Protocol):
    """Turns refusals into responses."""

    def refuse(self, refusal: Refusal, method: str, headers: Mapping[str, str]) -> tuple[Headers, bytes]:
        """Log the refusal; return the headers and the body of the response. `method` and `headers` are those
        of the request, as far as they were received."""

    def report(self, error: Exception) -> None:
        """Log an exception that the application did not handle."""


INTERNAL_ERROR = Refusal(500, "internal_error", "internal error in the server")
STOPPING = Refusal(
    503,
    "server_is_overloaded",
    "the gateway is shutting down: try again in a moment",
    headers=(("retry-after", "2"),),
)


def invalid_http(reason: str) -> Refusal:
    return Refusal(400, "invalid_http", f"Invalid HTTP request received: {reason}. Send an HTTP/1.1 request.")


def too_large(limit: int) -> Refusal:
    return Refusal(
        431,
        "request_head_too_large",
        f"the headers or trailers of the request are larger than {limit:,} bytes: shorten them",
    )


def invalid_upgrade(problem: str) -> Refusal:
    return Refusal(400, "invalid_upgrade", problem)


class RefusedBytes(Exception):  # noqa: N818 - named after what happened
    """The received bytes cannot be part of a request, or are too many."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
