"""Exceptions that end a request before, or instead of, a response.

PenstockError
├── RequestRefused      the request is answered with an HTTP error
└── ClientDisconnected  the client disconnected and needs no response
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import PenstockError
from penstock.protocol.errors import ErrorBody, ErrorPayload
from penstock.protocol.wire import encode


class RequestRefused(PenstockError):  # noqa: N818 - named after what happened, as the tree above shows
    """An HTTP error response in the specification's shape.

    The specification has only a few types (spec S1); clients read the exact reason from `code`. `message` is
    for people and contains what to do. It contains no secrets.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        type: str = "invalid_request",
        param: str | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.type = type
        self.param = param
        self.headers = tuple(headers)
        """Extra response headers, such as `retry-after`."""

    def body(self) -> bytes:
        payload = ErrorPayload(message=self.message, type=self.type, param=self.param, code=self.code)
        return encode(ErrorBody(error=payload))


class ClientDisconnected(PenstockError):  # noqa: N818 - named after what happened, as the tree above shows
    """The client closed the connection before its request was complete or its turn began."""

    def __init__(self) -> None:
        super().__init__("the client disconnected")
