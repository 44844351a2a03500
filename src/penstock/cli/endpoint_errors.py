"""Explain an endpoint's errors in one sentence, with advice; and redirect the client's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.terminal_text import one_line
from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    NetworkError,
    NotFoundError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    RateLimitError,
)
from penstock.provider.wording import overflow_size, wait_of

if TYPE_CHECKING:
    from penstock.cli.endpoint import EndpointOptions

_LONGEST = 400
_OF_THE_GATEWAY = ("upstream_unauthorized", "upstream_forbidden", "upstream_not_found")
"""Failures between a gateway and its upstream: the key and the address of this endpoint are right."""


def explain_error(
    error: OpenResponsesError,
    endpoint: EndpointOptions,
    model: str = "",
    *,
    shorten: str = "shorten the input",
) -> str:
    """Return one sentence about the error. `shorten`: advice for a conversation that is too long."""
    sentence = _sentence(error, endpoint, model, shorten)
    shown = one_line(sentence, _LONGEST)
    if not error.request_id or error.request_id in shown:  # a gateway's message may have it
        return shown
    return f"{shown} (request {one_line(error.request_id, 80)})"


def _sentence(error: OpenResponsesError, endpoint: EndpointOptions, model: str, shorten: str) -> str:
    message = error.message.rstrip(". ")
    if isinstance(error, ContextOverflowError):
        return f"the conversation is too long ({overflow_size(error) or message}): {shorten}"
    if isinstance(error, RateLimitError):
        if error.code == "insufficient_quota":
            return f"the quota is used up, and waiting does not help: {message}"
        if error.code == "budget_exceeded":
            return message
        return f"too many requests; wait {wait_of(error.retry_after)} and try again: {message}"
    if error.code in _OF_THE_GATEWAY:
        return message
    if isinstance(error, AuthenticationError):
        return f"{_wrong_key(endpoint)}. Its answer: {message}"
    if isinstance(error, PermissionDeniedError):
        key = f"the key in {endpoint.key_variable}" if endpoint.key_variable else "a request without a key"
        return f"{key} does not have permission: {message}"
    if isinstance(error, NotFoundError) and (error.code == NotFoundError.default_code or not model):
        return f"not found: {message}"
    if isinstance(error, NotFoundError):
        question = "" if message.endswith("?") else f". Is the model name right ({model})?"
        return f"not found: {message}{question} `penstock models` lists the models"
    if isinstance(error, OverloadedError):
        return f"the endpoint is overloaded; try again later: {message}"
    if isinstance(error, NetworkError) and error.phase == "connect":
        return f"{message}{no_gateway(endpoint)}"
    return f"the endpoint failed: {message}" if error.status else message


def _wrong_key(endpoint: EndpointOptions) -> str:
    if endpoint.key_variable:
        return f"the endpoint rejected the key in {endpoint.key_variable}: check the value of the variable"
    return "the endpoint requires a key: name the variable that contains it with --api-key-env NAME"


def no_gateway(endpoint: EndpointOptions) -> str:
    """Return advice for when nothing listens at the default address."""
    if not endpoint.is_default:
        return ""
    return " (this is the default address; start `penstock serve`, or use --base-url or --preset)"


class RetryHandler(logging.Handler):
    """Forward the client's warnings: the client reports retries and their delays only in its log."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:  # errors are also raised
            self._show(record.getMessage())


@contextmanager
def logged_to(handler: logging.Handler | None = None) -> Iterator[None]:
    """Send the library's log only to `handler`, or discard it. Otherwise Python prints warnings to stderr."""
    handler = handler or logging.NullHandler()
    log = logging.getLogger("penstock")
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
