"""Every exception that Penstock raises on purpose.

PenstockError
├── DecodeError                a value on the wire does not have the type that the protocol requires
│   ├── JsonSyntaxError        it is not even JSON
│   └── UnreadableContent      only the vendor that encrypted it can read it
├── FrameTooLarge              a server-sent event exceeds the decoder's limit
├── BridgeError                a call that the stream state machine does not allow
├── ConfigError                a configuration file is invalid; `errors` lists everything wrong in it
├── StoreError                 the store cannot be opened or written; `code` says why
├── RequestRefused             the gateway answers with an HTTP error (`penstock.gateway.errors`)
├── ClientDisconnected         the client of the gateway disconnected (`penstock.gateway.errors`)
├── CannotReplay               a turn was not recorded completely (`penstock.replay.recording`)
├── Abandoned                  nobody waits for an answer any more (`penstock.inspector.answers`)
├── OneDocument                a capture is one JSON document, not a stream (`penstock.captures.reader`)
├── OtherFormat                a captured stream is in another API format (`penstock.captures.stream_check`)
└── OpenResponsesError         an endpoint returned an error, or no response
    ├── AuthenticationError    the API key is missing or wrong
    ├── PermissionDeniedError  the API key is valid but does not permit this
    ├── RateLimitError         too many requests or tokens; wait `retry_after` seconds
    ├── ContextOverflowError   the conversation is too long; `limit_tokens`, `used_tokens`
    ├── InvalidRequestError    the request is invalid; `param` names the field
    │   └── NotFoundError      the model, the response or the URL does not exist
    ├── ServerError            the endpoint failed
    │   └── OverloadedError    the endpoint is overloaded; retry later
    ├── NetworkError           no connection, or it broke or timed out; `phase` says when
    └── ProtocolError          the response is not a lawful stream, or there is none
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class PenstockError(Exception):
    """The base class: catch it to catch everything that Penstock raises on purpose."""


class DecodeError(PenstockError):
    """A value cannot be read as the protocol type that it should have.

    `param` is the path of the value as the specification writes it (`input[2].call_id`), for the `param` of
    an error body; it is empty if the whole value is invalid.
    """

    code: ClassVar[str] = "invalid_request"

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.message = message
        self.param = param

    def within(self, step: str) -> DecodeError:
        """Return the same error with `step`, a field name or `[index]`, prepended to its path."""
        separator = "." if self.param and not self.param.startswith("[") else ""
        return DecodeError(self.message, f"{step}{separator}{self.param}")


class JsonSyntaxError(DecodeError):
    """A text is not valid JSON."""

    code = "invalid_json"


class UnreadableContent(DecodeError):  # noqa: N818 - named after what is wrong, like `FrameTooLarge`
    """A request contains encrypted text that the chosen upstream would have to read."""

    code = "encrypted_content_unreadable"


class FrameTooLarge(PenstockError):  # noqa: N818 - named after what happened, like its siblings above
    """A server-sent event exceeds the limit. The decoder that raised this accepts no more input."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a server-sent event is larger than the limit of {limit} bytes")
        self.limit = limit


class BridgeError(PenstockError):
    """The state machine refused a call; its state is unchanged.

    `code` is one of the four constants below.
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
    """A configuration file is invalid: `message` says what is wrong at `line`, and what to write instead.

    The whole file is read, so that all errors are reported at once: `errors` has one error per problem, in
    the order of the file. The text of this exception contains them all; its `line` is that of the first.
    `line` is 0 if there is none.
    """

    def __init__(self, file: str, line: int, message: str, errors: Sequence[ConfigError] = ()) -> None:
        place = f"{file}:{line}" if line else file
        super().__init__("\n".join(map(str, errors)) or f"{place}: {message}")
        self.file = file
        self.line = line
        self.message = message
        self.errors: list[ConfigError] = list(errors) or [self]


class StoreError(PenstockError):
    """The store cannot be opened, or an operation on it failed. `code` is one of the constants below.

    The message names the file or the database and what to do, and never contains stored data or a password.
    """

    NOT_A_STORE = "not_a_store"
    """The file is not a store, or is damaged."""
    NEWER_VERSION = "newer_version"
    """A later release of Penstock wrote the file."""
    OLDER_VERSION = "older_version"
    """An earlier release wrote the file, and only a gateway may migrate it."""
    MISSING = "missing"
    """The file does not exist, and the caller may not create it."""
    EMPTY = "empty"
    """The database has no tables of a store yet, and the caller may not create them."""
    LOCKED = "locked"
    """Another process uses the file."""
    UNWRITABLE = "unwritable"
    FULL = "full"
    """The disk or the quota is full."""
    IO = "io"
    """The disk failed."""
    LATE = "late"
    """The disk took too long. Whether the write succeeded is unknown; if it did, it is undone."""
    DUPLICATE = "duplicate"
    """A new id already exists."""
    CLOSED = "closed"
    """The store was used after it was closed."""
    ADDRESS = "address"
    """The URL of the store cannot be read."""
    NOT_INSTALLED = "not_installed"
    """The extra that this kind of store needs is not installed."""
    UNREACHABLE = "unreachable"
    """The database does not answer."""
    DENIED = "denied"
    """The database refuses the user, or does not allow it what a store needs."""
    BUSY = "busy"
    """The database, or the pool of connections to it, has no room at present."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class OpenResponsesError(PenstockError):
    """An endpoint returned an error, or no response. The subclass is the kind of failure.

    `message` is the server's message, `code` its error code (ours if it has none), `status` the HTTP status
    of the error, `request_id` the id to quote to the endpoint's support.
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
        super().__init__()
        self.request_id = request_id
        self.reword(message)
        self.code = code or self.default_code
        self.status = status
        self.param = param
        self.retry_after = retry_after
        """Seconds to wait, if the server sent a number."""
        self.limit_tokens = limit_tokens
        self.used_tokens = used_tokens
        self.estimated_tokens: int | None = None
        """The provider's estimate of a conversation that is too long, if the server does not report it."""
        self.is_limit_learned = False
        """Whether the provider has lowered the model's limit because of this error."""
        self.refused_key: str | None = None
        """Where the key comes from that an upstream refused, empty if it is not one of the target's
        (`penstock.upstream.refused_keys`)."""
        self.phase = phase
        """`connect` (no connection), `first_byte` or `idle` (a timeout), or `cut` (the connection broke)."""

    def reword(self, message: str) -> None:
        """Replace the message, by one that says more."""
        self.message = message
        is_added = self.request_id and self.request_id not in message  # a gateway's message may have it
        self.args = (f"{message} (request {self.request_id})" if is_added else message,)


class AuthenticationError(OpenResponsesError):
    default_code = "authentication_error"


class PermissionDeniedError(OpenResponsesError):
    default_code = "permission_denied"


class RateLimitError(OpenResponsesError):
    """Also an exhausted quota or budget (`insufficient_quota`, `budget_exceeded`): do not wait and retry."""

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
    "upstream_unauthorized": AuthenticationError,
    "upstream_forbidden": PermissionDeniedError,
    "rate_limit_exceeded": RateLimitError,
    "insufficient_quota": RateLimitError,
    "budget_exceeded": RateLimitError,
    "context_length_exceeded": ContextOverflowError,
    "invalid_request": InvalidRequestError,
    "invalid_prompt": InvalidRequestError,
    "encrypted_content_unreadable": InvalidRequestError,
    "content_filter": InvalidRequestError,
    "model_not_found": NotFoundError,
    "not_found": NotFoundError,
    "upstream_not_found": NotFoundError,
    "server_is_overloaded": OverloadedError,
    "server_error": ServerError,
    "upstream_timeout": ServerError,
}
"""The exception for each code that `penstock.failures` returns."""
