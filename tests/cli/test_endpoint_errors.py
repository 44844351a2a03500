"""An endpoint's error in one sentence with advice; and the redirected log."""

from __future__ import annotations

import logging

import pytest

from penstock.cli.endpoint_errors import RetryHandler, explain_error, logged_to, no_gateway
from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    NetworkError,
    NotFoundError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from tests.cli.endpoints import endpoint

KEYED = ("--base-url", "http://127.0.0.1:1/v1", "--api-key-env", "MY_KEY")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-1")


CASES: list[tuple[OpenResponsesError, str]] = [
    (
        AuthenticationError("bad key."),
        "the endpoint rejected the key in MY_KEY: check the value of the variable. Its answer: bad key",
    ),
    (PermissionDeniedError("not for you"), "the key in MY_KEY does not have permission: not for you"),
    (
        NotFoundError("no such model", code="model_not_found"),
        "not found: no such model. Is the model name right (m)? `penstock models` lists the models",
    ),
    (
        NotFoundError("there is no model 'dem'; did you mean demo?", code="model_not_found"),
        "not found: there is no model 'dem'; did you mean demo? `penstock models` lists the models",
    ),
    (
        ServerError("no answer (request req_1)", request_id="req_1", status=502),
        "the endpoint failed: no answer (request req_1)",
    ),
    (NotFoundError("404 (POST http://h; check the URL)"), "not found: 404 (POST http://h; check the URL)"),
    (
        AuthenticationError('the upstream refused the key of target "a"', code="upstream_unauthorized"),
        'the upstream refused the key of target "a"',
    ),
    (OverloadedError("busy"), "the endpoint is overloaded; try again later: busy"),
    (RateLimitError("slow down"), "too many requests; wait a moment and try again: slow down"),
    (
        RateLimitError("slow down", retry_after=0.2),
        "too many requests; wait 1 s and try again: slow down",
    ),
    (
        RateLimitError("slow down", retry_after=900),
        "too many requests; wait 15 min and try again: slow down",
    ),
    (
        RateLimitError("slow down", retry_after=7200),
        "too many requests; wait 2 h and try again: slow down",
    ),
    (
        RateLimitError("no money", code="insufficient_quota"),
        "the quota is used up, and waiting does not help: no money",
    ),
    (
        ContextOverflowError("x", used_tokens=130_512, limit_tokens=128_000),
        "the conversation is too long (130,512 tokens; the model's limit is 128,000): shorten it",
    ),
    (
        ContextOverflowError("x", limit_tokens=128_000),
        "the conversation is too long (the model's limit is 128,000 tokens): shorten it",
    ),
    (ContextOverflowError("too big"), "the conversation is too long (too big): shorten it"),
    (ServerError("broken", status=500), "the endpoint failed: broken"),
    (NetworkError("the connection broke", phase="read"), "the connection broke"),
    (
        ServerError("a\nb\x1b", status=500, request_id="req_1"),
        "the endpoint failed: a b\\x1b (request req_1)",
    ),
]


@pytest.mark.parametrize(("error", "sentence"), CASES, ids=lambda each: getattr(each, "message", ""))
def test_an_error_is_one_sentence_with_advice(error: OpenResponsesError, sentence: str) -> None:
    assert explain_error(error, endpoint(*KEYED), "m", shorten="shorten it") == sentence


def test_an_overflow_shows_our_estimate_the_learned_limit_and_advice() -> None:
    error = ContextOverflowError("x", limit_tokens=8000)
    error.estimated_tokens, error.is_limit_learned = 9001, True
    assert explain_error(error, endpoint(*KEYED), "m") == (
        "the conversation is too long (about 9,001 tokens by our own estimate; "
        "the model's limit is 8,000, which is now known): shorten the input"
    )


def test_without_a_key_the_option_for_one_is_named() -> None:
    target = endpoint("--base-url", "http://127.0.0.1:1/v1")
    assert "requires a key: name the variable that contains it with --api-key-env NAME" in explain_error(
        AuthenticationError("no key"), target
    )
    assert explain_error(PermissionDeniedError("no"), target).startswith("a request without a key does not")


def test_a_long_message_is_shortened_and_the_request_id_stays() -> None:
    text = explain_error(ServerError("x" * 1000, status=500, request_id="req_1"), endpoint())
    assert len(text) < 450
    assert text.endswith("… (request req_1)")


def test_only_the_default_address_gets_the_advice_to_start_a_gateway() -> None:
    error = NetworkError("connection refused", phase="connect")
    assert "start `penstock serve`, or use --base-url or --preset" in explain_error(error, endpoint())
    assert explain_error(error, endpoint(*KEYED)) == "connection refused"
    assert no_gateway(endpoint(*KEYED)) == ""


def test_retries_are_shown_and_nothing_else_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []
    log = logging.getLogger("penstock.client")
    with logged_to(RetryHandler(shown.append)):
        log.warning("attempt 1 failed")
        log.error("an error is raised as well")
    with logged_to():
        log.warning("discarded")
    assert shown == ["attempt 1 failed"]
    assert logging.getLogger("penstock").propagate
    assert capsys.readouterr().err == ""
