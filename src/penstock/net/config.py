"""The settings of connections to one server."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from penstock.errors import AuthenticationError, InvalidRequestError
from penstock.net.urls import read_proxy

KeySource = Callable[[], str | Awaitable[str | None] | None]
"""Returns the key for one request, or None. It is called for every request, because keys expire."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, repr=False)
class ConnectionConfig:
    """The settings of a `Transport`, apart from the address. Invalid values raise `InvalidRequestError`.

    Times are in seconds; None means no limit. `ClientConfig` describes the fields.
    """

    key: KeySource | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    connect_timeout: float | None = 10.0
    first_byte_timeout: float | None = 120.0
    idle_timeout: float | None = 120.0
    keep_alive: bool = True
    """Whether connections are reused. The server may close an idle connection just as a request is sent on
    it. Then a GET, HEAD or DELETE is sent again, but a POST fails, because it may have been processed."""
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    proxy: str | None = None

    def __post_init__(self) -> None:
        if self.proxy:
            read_proxy(self.proxy)
        for name in ("connect_timeout", "first_byte_timeout", "idle_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
                raise invalid_config(name, "must be a number of seconds greater than 0, or None for no limit")
        if self.client_key and not self.client_cert:
            raise invalid_config("client_key", "requires client_cert")
        check_headers(self.headers)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise if a header cannot be sent. The message does not contain its value, which may be a secret."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _NOT_IN_A_HEADER.search(value):
            raise invalid_config("headers", f"{name!r} cannot be sent: a header must be one line")


def check_key(key: str) -> None:
    """Raise if a key cannot be sent. The message does not contain the key."""
    if not key.isascii() or not key.isprintable():
        message = "the key is invalid: it contains a line break, or characters that are not ASCII"
        raise AuthenticationError(message, code="invalid_key")


def invalid_config(name: str, message: str) -> InvalidRequestError:
    return InvalidRequestError(f"{name} {message}", code="invalid_config", param=name)
