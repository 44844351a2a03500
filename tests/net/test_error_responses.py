"""Error responses as exceptions: class, code and message, without the key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NotFoundError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from penstock.net.masking import Secrets
from tests.net.refused_requests import error_body, refused

KEY = "sk-test-0123456789"


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (400, error_body("no", code="bad_thing"), InvalidRequestError, "bad_thing"),
        (
            400,
            error_body("no", type="invalid_request_error", code=None),
            InvalidRequestError,
            "invalid_request",
        ),
        (400, error_body("no", code=17), InvalidRequestError, "invalid_request"),
        (400, error_body("no", code="17"), InvalidRequestError, "invalid_request"),
        (
            400,
            error_body("gone", code="previous_response_not_found"),
            InvalidRequestError,
            "previous_response_not_found",
        ),
        (401, error_body("no"), AuthenticationError, "authentication_error"),
        (401, b"", AuthenticationError, "authentication_error"),
        (403, error_body("no"), PermissionDeniedError, "permission_denied"),
        (404, error_body("no", code="model_not_found"), NotFoundError, "model_not_found"),
        (404, error_body("The model `m` does not exist"), NotFoundError, "model_not_found"),
        (
            404,
            error_body("no", code="previous_response_not_found"),
            NotFoundError,
            "previous_response_not_found",
        ),
        (404, error_body("rate limit", code="rate_limit_exceeded"), NotFoundError, "rate_limit_exceeded"),
        (404, b"<h1>Not Found</h1>", NotFoundError, "not_found"),
        (404, {"detail": "Not Found"}, NotFoundError, "not_found"),
        (405, {"detail": "Method Not Allowed"}, NotFoundError, "not_found"),
        (413, b"", ContextOverflowError, "context_length_exceeded"),
        (429, error_body("slow down"), RateLimitError, "rate_limit_exceeded"),
        (429, error_body("You exceeded your current quota"), RateLimitError, "insufficient_quota"),
        (429, error_body("no", code="billing_hard_limit_reached"), RateLimitError, "insufficient_quota"),
        (500, error_body("oh"), ServerError, "server_error"),
        (502, b"<h1>Bad Gateway</h1>", ServerError, "server_error"),
        (503, b"", OverloadedError, "server_is_overloaded"),
        (529, error_body("oh", type="overloaded_error"), OverloadedError, "server_is_overloaded"),
        (200, error_body("oh", type="overloaded_error"), OverloadedError, "server_is_overloaded"),
        (200, {"type": "error", "code": "my_word", "message": "oh"}, ServerError, "my_word"),
    ],
)
def test_the_class_is_ours_and_the_code_is_the_servers(
    status: int, body: Any, kind: type[OpenResponsesError], code: str
) -> None:
    error = refused(status, body)
    assert type(error) is kind
    assert error.code == code
    assert error.status == (None if status == 200 else status)


def test_details_of_the_server_are_preserved() -> None:
    error = refused(400, error_body("wrong thing", param="input[0].role"), {"X-Request-Id": "req_1"})
    assert (error.message, error.param, error.request_id) == ("wrong thing", "input[0].role", "req_1")
    assert str(error) == "wrong thing (request req_1)"
    assert refused(400, b"", {"request-id": "req_2"}).request_id == "req_2"


def test_an_overflow_has_its_token_counts() -> None:
    message = (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    )
    error = refused(400, error_body(message, code="context_length_exceeded"))
    assert isinstance(error, ContextOverflowError)
    assert (error.limit_tokens, error.used_tokens) == (8192, 9000)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "today"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert refused(429, error_body("slow down"), headers).retry_after == seconds


def test_advice_is_added_to_a_404_without_details() -> None:
    advice = "perhaps\nthe address"
    assert refused(404, b"no such page", advice=advice).message == "no such page (perhaps the address)"
    assert refused(404, error_body("no", code="gone"), advice=advice).message == "no"
    generic = error_body("Not Found", code="not_found")
    assert refused(404, generic, advice=advice).message == "Not Found (perhaps the address)"
    assert refused(400, b"no such page", advice=advice).message == "no such page"


@pytest.mark.parametrize(
    "body",
    [
        error_body(f"Bearer {KEY} is not a key", code=f"bad-{KEY}", param=KEY),
        error_body("x" * 3990 + KEY),
        {"detail": {KEY: [KEY, {"deep": KEY}]}},
        f"<p>{KEY}</p>".encode(),
        json.dumps(error_body(KEY)).replace("-", "\\u002d").encode(),
        b'"' + KEY.encode(),
    ],
)
def test_a_key_that_the_server_repeats_is_masked(body: Any) -> None:
    error = refused(401, body, {"x-request-id": KEY}, secrets=Secrets([KEY]))
    for text in (str(error), repr(error), error.code, error.param or "", error.request_id or ""):
        assert KEY not in text
        assert KEY[:10] not in text
    assert "[key]" in str(error)


@pytest.mark.parametrize("key", ["error", "message", "e", "code"])
def test_a_placeholder_key_does_not_change_the_error(key: str) -> None:
    body = error_body(
        "Your prompt exceeds the maximum context length of 10 tokens", code="context_length_exceeded"
    )
    error = refused(400, body, secrets=Secrets([key]))
    assert isinstance(error, ContextOverflowError)
    assert error.message.startswith("Your prompt" if key != "e" else "Your prompt [key]xc")
