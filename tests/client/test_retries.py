"""Which failures are retried, and when."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client.retries import RetryPolicy, is_disconnect, is_transient, log_failure
from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from penstock.net.error_responses import refusal
from penstock.net.masking import Secrets

TRANSIENT: list[OpenResponsesError] = [
    RateLimitError("", status=429),
    RateLimitError("", status=429, code="tokens"),
    OverloadedError("", status=503),
    OverloadedError("", status=529),
    OverloadedError("", status=400),
    OverloadedError(""),
    ServerError("", status=500),
    ServerError("", status=502),
    ServerError(""),
    NetworkError("", phase="connect"),
    NetworkError("", phase="first_byte"),
    NetworkError("", phase="idle"),
    NetworkError("", phase="cut"),
    NetworkError("", phase="connect", code="proxy_error", status=502),
    ProtocolError("", code="stream_truncated"),
    InvalidRequestError("", status=408),
    *(ServerError("", status=status) for status in (408, 421, 425, 499, 524)),
]

FINAL: list[OpenResponsesError] = [
    RateLimitError("", status=429, code="insufficient_quota"),
    ServerError("", status=501),
    ServerError("", status=400, code="tool_use_failed"),
    NetworkError("", phase="connect", code="certificate_error"),
    NetworkError("", phase="connect", code="tls_error"),
    NotFoundError("", status=502, code="upstream_not_found"),
    ServerError("", status=502, code="certificate_error"),
    NetworkError("", phase="connect", code="proxy_error", status=407),
    ProtocolError(""),
    ProtocolError("", code="redirected", status=302),
    AuthenticationError("", status=401),
    PermissionDeniedError("", status=403),
    ContextOverflowError("", status=500),
    ContextOverflowError("", status=413),
    InvalidRequestError("", status=400),
    NotFoundError("", status=404),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=repr)
def test_transient_failures_are_retried(error: OpenResponsesError) -> None:
    assert is_transient(error)


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_other_failures_are_not_retried(error: OpenResponsesError) -> None:
    assert not is_transient(error)
    assert RetryPolicy(9, 60, lambda: 1.0).wait(error, 0) is None


def test_waits_double_up_to_a_limit_with_jitter() -> None:
    error = ServerError("", status=500)
    longest, shortest = RetryPolicy(7, 60, lambda: 1.0), RetryPolicy(7, 60, lambda: 0.0)
    assert [longest.wait(error, attempt) for attempt in range(8)] == [0.5, 1, 2, 4, 8, 8, 8, None]
    assert [shortest.wait(error, attempt) for attempt in range(3)] == [0.25, 0.5, 1]


def test_zero_retries_means_no_retry() -> None:
    assert RetryPolicy(0, 60, lambda: 1.0).wait(ServerError("", status=500), 0) is None


@pytest.mark.parametrize(
    ("asked", "wait"), [(0.2, 0.2), (17.0, 17.0), (60.0, 60.0), (60.1, None), (0.0, 0.5)]
)
def test_retry_after_is_obeyed_up_to_the_limit(asked: float, wait: float | None) -> None:
    error = RateLimitError("", status=429, retry_after=asked)
    assert RetryPolicy(2, 60, lambda: 1.0).wait(error, 0) == wait


def test_only_the_end_of_a_connection_is_a_disconnect() -> None:
    assert is_disconnect(NetworkError("", phase="cut"))
    assert is_disconnect(NetworkError("", phase="idle"))
    assert is_disconnect(ProtocolError("", code="stream_truncated"))
    assert not is_disconnect(ProtocolError(""))
    assert not is_disconnect(NetworkError("", code="proxy_error", status=502))
    assert not is_disconnect(NetworkError("", code="certificate_error"))
    assert not is_disconnect(ServerError("", code="stream_truncated"))


NO_SECRETS = Secrets()


def refused(
    status: int, body: Any, headers: dict[str, str] | None = None, **given: Any
) -> OpenResponsesError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refusal(status, headers or {}, data, given.pop("secrets", NO_SECRETS), **given)


def test_a_failure_is_logged_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log_failure(refused(500, b"first\nsecond", {"x-request-id": "req_1"}))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("penstock.client", "ERROR")
    assert record.getMessage() == "ServerError 500 server_error: first second (request req_1)"
