"""What goes wrong at an endpoint, in one sentence that says what to do; and the log of the client."""

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

if TYPE_CHECKING:
    from penstock.cli.endpoint import EndpointOptions

_LONGEST = 400


def explain_error(
    error: OpenResponsesError, endpoint: EndpointOptions, model: str = "", *, shorten: str = ""
) -> str:
    """`shorten`: what a person can do about a conversation that is too long."""
    sentence = _sentence(error, endpoint, model, shorten)
    request = f" (request {one_line(error.request_id, 80)})" if error.request_id else ""
    return one_line(sentence, _LONGEST) + request


def _sentence(error: OpenResponsesError, endpoint: EndpointOptions, model: str, shorten: str) -> str:
    message = error.message.rstrip(". ")
    if isinstance(error, ContextOverflowError):
        return _overflow(error, model, message) + (f": {shorten}" if shorten else "")
    if isinstance(error, RateLimitError):
        if error.code == "insufficient_quota":
            return f"the quota is spent, and waiting does not help: {message}"
        wait = f"wait {_duration(error.retry_after)}" if error.retry_after else "wait a little"
        return f"too many requests, {wait} and ask again: {message}"
    if isinstance(error, AuthenticationError):
        return f"{_wrong_key(endpoint)}. It says: {message}"
    if isinstance(error, PermissionDeniedError):
        whose = f"the key in {endpoint.key_variable}" if endpoint.key_variable else "without a key, you"
        return f"{whose} may not do this: {message}"
    if isinstance(error, NotFoundError):
        return f"not found: {message}. Is the model's name right ({model})? `penstock models` lists them"
    if isinstance(error, OverloadedError):
        return f"the endpoint has too much to do, ask again a little later: {message}"
    if isinstance(error, NetworkError) and error.phase == "connect":
        return f"{message}{no_gateway(endpoint)}"
    return f"the endpoint failed: {message}" if error.status else message


def _wrong_key(endpoint: EndpointOptions) -> str:
    if endpoint.key_variable:
        return f"the endpoint refuses the key in {endpoint.key_variable}: check what the variable holds"
    return "the endpoint wants a key: name the variable that holds it with --api-key-env NAME"


def no_gateway(endpoint: EndpointOptions) -> str:
    """What to do where the address was not even chosen."""
    if not endpoint.is_default:
        return ""
    return " (that is where the gateway would be; name another endpoint with --base-url or --preset)"


def _overflow(error: ContextOverflowError, model: str, message: str) -> str:
    if error.limit_tokens and error.used_tokens:
        return (
            f"the conversation is too long: it has {error.used_tokens:,} tokens, and {model or 'the model'} "
            f"takes {error.limit_tokens:,}"
        )
    if error.limit_tokens:
        return f"the conversation is too long: {model or 'the model'} takes {error.limit_tokens:,} tokens"
    return f"the conversation is too long ({message})"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{round(seconds / 3600)} h"


class RetryHandler(logging.Handler):
    """Passes on the client's warnings: it reports a retry, and how long it waits for it, in its log alone."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:  # a failure is raised as well
            self._tell(record.getMessage())


@contextmanager
def logged_to(handler: logging.Handler | None = None) -> Iterator[None]:
    """Send the library's log to `handler` alone, or to nobody: Python would print warnings in between."""
    handler = handler or logging.NullHandler()
    log = logging.getLogger("penstock")
    kept, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = kept
