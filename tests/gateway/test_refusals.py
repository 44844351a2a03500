"""What a failure becomes: a code, an HTTP status, and a message without secrets."""

from __future__ import annotations

import json

import pytest

from penstock.client.retries import is_transient
from penstock.errors import (
    KINDS,
    AuthenticationError,
    ContextOverflowError,
    DecodeError,
    InvalidRequestError,
    JsonSyntaxError,
    NetworkError,
    NotFoundError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
    StoreError,
)
from penstock.failures import ERROR_TYPES, explain
from penstock.gateway.errors import RequestRefused
from penstock.gateway.refusals import (
    FINAL,
    STATUSES,
    closer_of,
    code_of,
    invalid_request,
    is_final,
    refusal,
    refusal_for,
    status_of,
    type_of,
)
from penstock.net.error_responses import refusal as refused_by_server
from penstock.net.masking import Secrets


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (NetworkError("x", phase="connect"), "upstream_unreachable", 502),
        (NetworkError("x", phase="first_byte"), "upstream_timeout", 504),
        (NetworkError("x", phase="idle"), "upstream_timeout", 504),
        (NetworkError("x", phase="read"), "upstream_truncated", 502),
        (NetworkError("x", phase="connect", code="certificate_error"), "certificate_error", 502),
        (NetworkError("x", phase="connect", code="tls_error"), "tls_error", 502),
        (NetworkError("x", phase="connect", code="proxy_error"), "proxy_error", 502),
        (ProtocolError("x", code="anything"), "upstream_invalid", 502),
        (RateLimitError("x"), "rate_limit_exceeded", 429),
        (RateLimitError("x", code="vendors_own_word"), "rate_limit_exceeded", 429),
        (RateLimitError("x", code="insufficient_quota"), "insufficient_quota", 429),
        (AuthenticationError("x"), "authentication_error", 401),
        (AuthenticationError("x", code="upstream_unauthorized"), "upstream_unauthorized", 401),
        (PermissionDeniedError("x", code="upstream_forbidden"), "upstream_forbidden", 403),
        # Clients shorten the conversation if they get a 400 (spec N54).
        (ContextOverflowError("x", status=413), "context_length_exceeded", 400),
        (NotFoundError("x", status=404), "upstream_not_found", 502),
        (NotFoundError("x", code="model_not_found"), "model_not_found", 404),
        (ServerError("x", status=418), "server_error", 500),
        (ServerError("x", code="upstream_empty"), "upstream_empty", 502),
    ],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, Exception) else None,
)
def test_a_failure_has_a_code_and_a_status(error: OpenResponsesError, code: str, status: int) -> None:
    assert code_of(error) == code
    assert status_of(code) == status


def test_every_code_with_a_status_of_its_own_has_a_type() -> None:
    assert [
        code for code in STATUSES if type_of(code) not in set(ERROR_TYPES.values()) | {"server_error"}
    ] == []
    assert type_of("made_up") == "server_error"


KINDS_BY_STATUS: dict[int, type[OpenResponsesError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitError,
    500: ServerError,
    503: OverloadedError,
    504: ServerError,
}
KINDS_OF_CODES: dict[str, type[OpenResponsesError]] = {
    **{code: KINDS_BY_STATUS[status] for code, status in STATUSES.items()},
    "context_length_exceeded": ContextOverflowError,
    "upstream_not_found": NotFoundError,
}


@pytest.mark.parametrize("code", KINDS_OF_CODES)
def test_a_client_of_ours_gets_the_kind_of_every_code(code: str) -> None:
    """The same holds for another gateway in front of this one."""
    refused = refusal(code, "no")
    error = refused_by_server(refused.status, {}, refused.body(), Secrets())
    assert (type(error), error.code) == (KINDS_OF_CODES[code], code)
    failure = explain(json.loads(refused.body()))
    assert KINDS[failure.code] is KINDS_OF_CODES[code]
    assert refused.type == failure.type


@pytest.mark.parametrize("code", sorted(FINAL))
def test_a_client_does_not_repeat_what_a_retry_cannot_change(code: str) -> None:
    refused = refusal(code, "no", is_final=True)
    assert dict(refused.headers)["x-should-retry"] == "false"  # for OpenAI's libraries
    assert not is_transient(refused_by_server(refused.status, {}, refused.body(), Secrets()))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotFoundError("x", status=404), True),
        (NotFoundError("x", status=404, code="model_not_found"), False),  # a 4xx is not retried anyway
        (NetworkError("x", phase="connect", code="certificate_error"), True),
        (NetworkError("x", phase="connect", code="tls_error"), True),
        (NetworkError("x", phase="connect", code="proxy_error"), False),
        (NetworkError("x", phase="connect"), False),
        (RateLimitError("x", code="insufficient_quota"), True),
        (RateLimitError("x"), False),
        (ProtocolError("x", code="redirected", status=302), True),
        (ProtocolError("x", code="upstream_invalid"), True),  # a web page, or another dialect
        (ProtocolError("x", code="stream_truncated"), False),
        (ServerError("x", code="upstream_invalid"), False),  # one unreadable frame
        (ServerError("x", status=500), False),
    ],
)
def test_a_wrong_address_or_certificate_is_final(error: OpenResponsesError, expected: bool) -> None:
    assert is_final(error) is expected
    assert "x-should-retry" not in dict(refusal(code_of(error), "x").headers)


@pytest.mark.parametrize(
    ("phase", "closer"), [("idle", "timeout"), ("first_byte", "timeout"), ("read", "upstream")]
)
def test_silence_is_a_timeout_and_not_the_upstreams_fault(phase: str, closer: str) -> None:
    assert closer_of(NetworkError("x", phase=phase)) == closer


@pytest.mark.parametrize(
    ("code", "wait", "header"),
    [
        ("rate_limit_exceeded", 7.2, "8"),
        ("rate_limit_exceeded", 0.0, "1"),
        # Codex gives up at a 429 without this header (client 3).
        ("rate_limit_exceeded", None, "5"),
        ("server_is_overloaded", 2.0, "2"),
        ("server_error", None, None),
    ],
)
def test_a_refusal_tells_the_client_how_long_to_wait(
    code: str, wait: float | None, header: str | None
) -> None:
    assert dict(refusal(code, "x", wait=wait).headers).get("retry-after") == header


@pytest.mark.parametrize(
    ("error", "code", "param"),
    [
        (JsonSyntaxError("not valid"), "invalid_json", None),
        (DecodeError("expected a JSON object"), "invalid_request", None),
        (DecodeError("expected a list", "input"), "invalid_request", "input"),
    ],
)
def test_a_request_that_cannot_be_read_names_its_field(
    error: DecodeError, code: str, param: str | None
) -> None:
    refused = invalid_request(error)
    assert (refused.status, refused.code, refused.param) == (400, code, param)


def raised(error: Exception) -> Exception:
    """The same error with a traceback and a context, as it is caught."""
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise error  # noqa: B904 - the context is what is tested
    except Exception as caught:
        return caught


def test_a_refusal_keeps_no_frames_that_hold_the_body() -> None:
    """A cycle through the traceback would keep a large body until garbage is collected."""
    error = raised(RequestRefused(400, "invalid_request", "wrong"))
    assert error.__traceback__ is not None
    refused = refusal_for(error, "req_1")
    assert refused is error
    assert refused.__traceback__ is None
    assert refused.__context__ is None


def test_a_broken_store_is_a_503_that_does_not_name_the_file() -> None:
    refused = refusal_for(StoreError(StoreError.FULL, "cannot write /home/me/planted.sqlite"), "req_1")
    assert (refused.status, refused.code) == (503, "store_unavailable")
    assert "(full)" in refused.message
    assert "planted" not in refused.message
    assert dict(refused.headers)["retry-after"] == "2"


def test_a_fault_is_a_500_whose_words_are_in_no_answer_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    refused = refusal_for(raised(ValueError("planted prompt")), "req_1")
    assert (refused.status, refused.code) == (500, "internal_error")
    assert "planted" not in refused.message + caplog.text
    assert "ValueError at" in caplog.text
    assert "req_1" in caplog.text
