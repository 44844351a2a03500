"""Every exception that Penstock raises on purpose.

PenstockError
├── DecodeError                a value on the wire is not what the protocol says it is
├── FrameTooLarge              one server-sent event is larger than the decoder may hold
├── BridgeError                the stream state machine was asked for something unlawful
├── ConfigError                a configuration file cannot be used; `errors` has all that is wrong in it
├── StoreError                 the store cannot be opened, or cannot write; `code` says why
├── RequestRefused, ClientGone how the gateway ends a request (`penstock.gateway.errors`)
├── CannotReplay               a turn was not recorded, or not all of it (`penstock.replay.recording`)
└── OpenResponsesError         an endpoint gave no answer, or one that fails
    ├── AuthenticationError    the key is missing or wrong
    ├── PermissionDeniedError  the key is right and does not allow this
    ├── RateLimitError         too much was asked; `retry_after` says how long to wait
    ├── ContextOverflowError   the conversation is too long; `limit_tokens`, `used_tokens`
    ├── InvalidRequestError    the request is wrong; `param` names what
    │   └── NotFoundError      the model, the response or the address does not exist
    ├── ServerError            the endpoint failed
    │   └── OverloadedError    it has too much to do; later may help
    ├── NetworkError           no connection, a cut or a silent one; `phase` says when
    └── ProtocolError          what came is no lawful answer, or no answer at all
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class PenstockError(Exception):
    """The root: catch this to catch everything that Penstock raises on purpose."""


class DecodeError(PenstockError):
    """A value cannot be read as the protocol type it should be.

    `param` is the path of the value as the specification writes it (`input[2].call_id`), ready to be
    the `param` of an error body; it is empty when the whole value is at fault.
    """

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.message = message
        self.param = param

    def within(self, step: str) -> DecodeError:
        """The same error, told from one level further out: `step` is a field name or `[index]`."""
        joint = "." if self.param and not self.param.startswith("[") else ""
        return DecodeError(self.message, f"{step}{joint}{self.param}")


class FrameTooLarge(PenstockError):  # noqa: N818 - says what happened, as the tree above shows
    """One server-sent event grew past the limit. The decoder that raised it takes no more input."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a server-sent event is larger than the limit of {limit} bytes")
        self.limit = limit


class BridgeError(PenstockError):
    """The state machine refused a call, and is in the state it was in before the call.

    `code` is one of the four of `OUTPUT_BEFORE_START` and its neighbours below.
    """

    OUTPUT_BEFORE_START = "bridge.stream.output_before_start"
    DELTA_AFTER_TERMINAL = "bridge.stream.delta_after_terminal"
    INVALID_TRANSITION = "bridge.stream.invalid_transition"
    INCOMPLETE_TOOL_CALL = "bridge.stream.incomplete_tool_call"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ConfigError(PenstockError):
    """A configuration file cannot be used: `message` says what is wrong at `line`, and what to write instead.

    A file is read to its end, so that a person sees all at once: `errors` has one error for each thing that
    is wrong, in the order of the file. This one tells them all, and has the place of the first. `line` is 0
    where there is none.
    """

    def __init__(self, file: str, line: int, message: str, errors: Sequence[ConfigError] = ()) -> None:
        place = f"{file}:{line}" if line else file
        super().__init__("\n".join(map(str, errors)) or f"{place}: {message}")
        self.file = file
        self.line = line
        self.message = message
        self.errors: list[ConfigError] = list(errors) or [self]


class StoreError(PenstockError):
    """The store cannot be opened or cannot do what was asked. `code` is one of those below.

    The message names the file and what to do, and nothing of what is stored.
    """

    NOT_A_STORE = "not_a_store"
    """The file is something else, or is damaged."""
    NEWER_VERSION = "newer_version"
    """A later release of Penstock wrote the file."""
    OLDER_VERSION = "older_version"
    """An earlier release wrote it, and only a gateway may migrate it."""
    MISSING = "missing"
    """There is no such file, and who asked may not make one."""
    LOCKED = "locked"
    """Another process has it."""
    UNWRITABLE = "unwritable"
    FULL = "full"
    """The disk, or the quota, is full."""
    IO = "io"
    """The disk fails."""
    LATE = "late"
    """The disk took too long; whether it was written is unknown, and what was is taken back."""
    DUPLICATE = "duplicate"
    """An id that was to be new is there already."""
    CLOSED = "closed"
    """It was asked after it was closed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class OpenResponsesError(PenstockError):
    """An endpoint gave no answer, or one that fails. The class says what kind of failure it is.

    `message` has the server's words, `code` its word for the failure (ours where it has none), `status` the
    HTTP status of an answer that was no success, `request_id` what to tell the people who run the endpoint.
    """

    default_code: ClassVar[str] = "server_error"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int | None = None,
        param: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        limit_tokens: int | None = None,
        used_tokens: int | None = None,
        phase: str | None = None,
    ) -> None:
        super().__init__(f"{message} (request {request_id})" if request_id else message)
        self.message = message
        self.code = code or self.default_code
        self.status = status
        self.param = param
        self.request_id = request_id
        self.retry_after = retry_after
        """Seconds to wait, where the server said so."""
        self.limit_tokens = limit_tokens
        self.used_tokens = used_tokens
        self.phase = phase
        """Of a network failure: `connect`, `first_byte`, `idle` when a time ran out, `cut` for a break."""


class AuthenticationError(OpenResponsesError):
    default_code = "authentication_error"


class PermissionDeniedError(OpenResponsesError):
    default_code = "permission_denied"


class RateLimitError(OpenResponsesError):
    """Also a spent quota, with the code `insufficient_quota`: waiting does not help there."""

    default_code = "rate_limit_exceeded"


class ContextOverflowError(OpenResponsesError):
    default_code = "context_length_exceeded"


class InvalidRequestError(OpenResponsesError):
    default_code = "invalid_request"


class NotFoundError(InvalidRequestError):
    default_code = "not_found"


class ServerError(OpenResponsesError):
    default_code = "server_error"


class OverloadedError(ServerError):
    default_code = "server_is_overloaded"


class NetworkError(OpenResponsesError):
    default_code = "network_error"


class ProtocolError(OpenResponsesError):
    default_code = "protocol_error"


KINDS: dict[str, type[OpenResponsesError]] = {
    "authentication_error": AuthenticationError,
    "permission_denied": PermissionDeniedError,
    "rate_limit_exceeded": RateLimitError,
    "insufficient_quota": RateLimitError,
    "context_length_exceeded": ContextOverflowError,
    "invalid_request": InvalidRequestError,
    "invalid_prompt": InvalidRequestError,
    "content_filter": InvalidRequestError,
    "model_not_found": NotFoundError,
    "server_is_overloaded": OverloadedError,
    "server_error": ServerError,
    "upstream_timeout": ServerError,
}
"""The kind of failure for each code that `penstock.failures` gives."""
