"""Requests that the server itself refuses, before or instead of the application.

The server decides why; the application's `Refuser` (`state.py`) decides what the response looks like.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.net.server.channels import Headers


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """Why a request was refused. `message` is for people and contains what to do."""

    status: int
    code: str
    message: str
    headers: Headers = ()

    @property
    def is_server_error(self) -> bool:
        return self.status >= 500


INTERNAL_ERROR = ServerRefusal(500, "internal_error", "internal error in the server")
STOPPING = ServerRefusal(
    503,
    "server_is_overloaded",
    "the gateway is shutting down: try again in a moment",
    headers=(("retry-after", "2"),),
)

TOO_MANY = ServerRefusal(
    503,
    "server_is_overloaded",
    "the gateway has as many open connections as it may have (limits.connections): try again in a moment",
    headers=(("retry-after", "2"),),
)


def invalid_http(reason: str) -> ServerRefusal:
    return ServerRefusal(
        400, "invalid_http", f"Invalid HTTP request received: {reason}. Send an HTTP/1.1 request."
    )


def too_large(limit: int) -> ServerRefusal:
    return ServerRefusal(
        431,
        "request_head_too_large",
        f"the headers or trailers of the request are larger than {limit:,} bytes: shorten them",
    )


def invalid_upgrade(problem: str) -> ServerRefusal:
    return ServerRefusal(400, "invalid_upgrade", problem)


class RefusedBytes(Exception):  # noqa: N818 - named after what happened
    """The received bytes cannot be part of a request, or are too many."""

    def __init__(self, refusal: ServerRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
