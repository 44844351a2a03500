"""What ends a request before, or instead of, an answer.

PenstockError
├── RequestRefused    it is answered with an HTTP error
└── ClientGone        nobody waits for an answer any more
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import PenstockError
from penstock.protocol.errors import ErrorBody, ErrorPayload
from penstock.protocol.wire import encode


class RequestRefused(PenstockError):  # noqa: N818 - says what happened, as the tree above shows
    """An HTTP answer that is an error, in the specification's shape.

    The specification knows a few types and no more (spec S1); what is exactly wrong is in `code`, and
    clients look there. `message` is for a person, and says what to do. It holds no secret.
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
        """What the answer must have beside its body, such as `retry-after`."""

    def body(self) -> bytes:
        payload = ErrorPayload(message=self.message, type=self.type, param=self.param, code=self.code)
        return encode(ErrorBody(error=payload))


class ClientGone(PenstockError):  # noqa: N818 - says what happened, as the tree above shows
    """The client closed the connection before its request was there."""

    def __init__(self) -> None:
        super().__init__("the client has gone")
