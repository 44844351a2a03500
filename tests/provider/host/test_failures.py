"""Errors are one readable sentence that says what to do."""

from __future__ import annotations

import pytest

from penstock import errors
from penstock.errors import (
    KINDS,
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
from penstock.provider.host.failures import ROWS, Place, failure_line, fault_line

PLACE = Place(endpoint="http://127.0.0.1:8080/v1", group="Work", model="big-model")

CASES: list[tuple[OpenResponsesError, str, str]] = [
    (
        AuthenticationError("bad key", status=401),
        "NoPermissions",
        "the key of the group “Work”: enter it anew",
    ),
    (AuthenticationError("no", code="invalid_api_key"), "NoPermissions", "does not accept the key"),
    (AuthenticationError("no", code="invalid_key"), "NoPermissions", "cannot be a key"),
    (PermissionDeniedError("not yours"), "NoPermissions", "choose another model or key (not yours)"),
    (RateLimitError("slow", retry_after=17.2), "Blocked", "wait 17 s and try again (slow)"),
    (RateLimitError("slow", retry_after=600), "Blocked", "wait 10 min"),
    (RateLimitError("slow", retry_after=10_000), "Blocked", "wait 3 h"),
    (RateLimitError("slow"), "Blocked", "wait a little"),
    (RateLimitError("spent", code="insufficient_quota"), "Blocked", "waiting does not help"),
    (
        ContextOverflowError("x", limit_tokens=8000, used_tokens=9001),
        "",
        "9,001 tokens, and the model takes 8,000",
    ),
    (ContextOverflowError("x", limit_tokens=8000), "", "(the model takes 8,000 tokens): start a new one"),
    (ContextOverflowError("x"), "", "too long: start a new one"),
    (InvalidRequestError("no", code="content_filter"), "Blocked", "in other words"),
    (InvalidRequestError("tools[3] is wrong"), "", "The request was refused: tools[3] is wrong."),
    (InvalidRequestError("no (request req_1)."), "", "The request was refused: no."),
    (NotFoundError("gone", code="model_not_found"), "NotFound", "There is no model big-model at http://127"),
    (NotFoundError("gone"), "NotFound", "check its address and the name big-model"),
    (OverloadedError("busy", retry_after=3), "Blocked", "too much to do: wait 3 s"),
    (ServerError("boom"), "", "http://127.0.0.1:8080/v1 failed: try again"),
    (ServerError("boom", code="a_word_of_their_own"), "", "http://127.0.0.1:8080/v1 failed: try again"),
    (NetworkError("refused", phase="connect"), "", "is it running"),
    (NetworkError("slow", phase="first_byte"), "", "did not answer in time"),
    (NetworkError("slow", phase="idle"), "", "fell silent"),
    (NetworkError("reset", phase="cut"), "", "broke: try again (reset)"),
    (NetworkError("self-signed", code="certificate_error", phase="connect"), "", "is not trusted"),
    (ProtocolError("<html>"), "", "does it speak the Responses API?"),
    (ProtocolError("gave no answer", code="empty_response"), "", "big-model gave no answer: try again"),
    (ProtocolError("cut", code="stream_truncated"), "", "broke off"),
    (ProtocolError("x", code="incomplete_length"), "", "allow more"),
    (ProtocolError("x", code="incomplete_something"), "", "does it speak"),
]


@pytest.mark.parametrize(("error", "kind", "words"), CASES, ids=lambda each: str(each)[:30])
def test_the_table_of_errors(error: OpenResponsesError, kind: str, words: str) -> None:
    line = failure_line(error, PLACE)
    assert (line["kind"], line["name"], line["code"]) == (kind, type(error).__name__, error.code)
    assert words in line["message"]
    assert line["message"][0].isupper() or line["message"].startswith((PLACE.endpoint, PLACE.model))


@pytest.mark.parametrize("code", ROWS)
def test_every_row_is_a_whole_sentence(code: str) -> None:
    kind, _, phase = code.partition(".")
    made = (NetworkError if phase else ServerError)("words\nof a  server.", code=kind, phase=phase or None)
    message = failure_line(made, Place())["message"]
    assert message[0].isupper()
    assert message.endswith((".", "?"))
    assert "\n" not in message
    assert "{" not in message
    assert ".." not in message


def test_every_kind_of_error_has_a_row() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    every = [
        each for each in kinds if issubclass(each, OpenResponsesError) and each is not OpenResponsesError
    ]
    assert len(every) == 10
    assert {each.default_code for each in every} <= ROWS.keys()
    assert KINDS.keys() <= ROWS.keys()


@pytest.mark.parametrize("words", ['{"error": {"a": 1}}', "[1, 2]", "<!doctype html><p>", "", "  \n "])
def test_what_is_for_programs_is_left_out(words: str) -> None:
    message = failure_line(ServerError(words), PLACE)["message"]
    assert message.endswith("if that does not help.")


def test_long_and_wild_words_become_one_short_line() -> None:
    message = failure_line(ServerError("a\x1b[31m\nb\u202e" + "x" * 5000), PLACE)["message"]
    assert message.isprintable()
    assert len(message) < 450


def test_what_is_known_goes_along() -> None:
    error = RateLimitError("slow", status=429, request_id="req_1", retry_after=2.0, param="model")
    line = failure_line(error, PLACE)
    assert (line["status"], line["request_id"], line["retry_after"], line["param"]) == (
        429,
        "req_1",
        2.0,
        "model",
    )


def test_a_fault_of_ours_tells_only_its_kind() -> None:
    line = fault_line(ValueError("sesame"))
    assert (line["code"], line["name"]) == ("internal_error", "InternalError")
    assert "ValueError" in line["message"]
    assert "sesame" not in str(line)
