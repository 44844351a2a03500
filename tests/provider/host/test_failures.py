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
from penstock.provider.host.error_messages import ERROR_TEXTS, ErrorContext, failure_line, fault_line

PLACE = ErrorContext(endpoint="http://127.0.0.1:8080/v1", group="Work", model="big-model")

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
    (InvalidRequestError("tools[3] is wrong"), "", "The request was refused: tools[3] is wrong; change the"),
    (
        InvalidRequestError("no (request req_1)."),
        "",
        "refused: no; change the request, or choose another model.",
    ),
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


@pytest.mark.parametrize("code", ERROR_TEXTS)
def test_every_row_is_a_whole_sentence(code: str) -> None:
    kind, _, phase = code.partition(".")
    made = (NetworkError if phase else ServerError)("words\nof a  server.", code=kind, phase=phase or None)
    message = failure_line(made, ErrorContext())["message"]
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
    assert {each.default_code for each in every} <= ERROR_TEXTS.keys()
    assert KINDS.keys() <= ERROR_TEXTS.keys()


@pytest.mark.parametrize("words", ['{"error": {"a": 1}}', "[1, 2]", "<!doctype html><p>", "", "  \n "])
def test_what_is_for_programs_is_left_out(words: str) -> None:
    message = failure_line(ServerError(words), PLACE)["message"]
    assert message.endswith("if that does not help.")


WORDS: dict[str, str] = {
    'litellm.BadRequestError: OpenAIException - {"error": {"code": 400}}. Group=x': (
        "litellm.BadRequestError: OpenAIException"
    ),
    'Bad input: [{"loc": ["body"]}]': "Bad input",
    "It broke <html><body>502</body></html>": "It broke",
    "Internal Server Error\n  at foo (bar.js:1:2)\n  at baz": "Internal Server Error",
    "It broke. at async Object.run (bar.js:1:2)": "It broke",
    'It broke: Traceback (most recent call last): File "x.py", line 3, in f': "It broke",
    "Rate limit (limit 3 / min (org x)) of gpt. Please try again. Visit https://x.y": (
        "Rate limit, limit 3 / min, org x, of gpt"
    ),
    "The server had an error (code 5 (inner)).": "The server had an error, code 5, inner",
    "f() failed (again), twice": "f failed, again, twice",
    "max_tokens must be < 5 and tools[3] a tool": "max_tokens must be < 5 and tools[3] a tool",
    "Is it running? Look there.": "Is it running",
}


@pytest.mark.parametrize(("words", "kept"), WORDS.items(), ids=range(len(WORDS)))
def test_of_an_endpoints_words_the_first_sentence_for_people_is_kept(words: str, kept: str) -> None:
    message = failure_line(ServerError(words), PLACE)["message"]
    assert (
        message == f"{PLACE.endpoint} failed: try again, and look at its log if that does not help ({kept})."
    )


@pytest.mark.parametrize(
    "words", ['Error: {"a": 1}', "at foo (bar.js:1:2)", "Traceback (most recent call last)"]
)
def test_one_word_before_what_is_for_programs_says_nothing(words: str) -> None:
    assert failure_line(ServerError(words), PLACE)["message"].endswith("if that does not help.")
    refused = failure_line(InvalidRequestError(words), PLACE)["message"]
    assert refused == (
        "The request was refused: it does not say why; change the request, or choose another model."
    )


@pytest.mark.parametrize("code", ["protocol_error", "tls_error", "certificate_error"])
def test_a_question_of_ours_is_the_only_one(code: str) -> None:
    words = "no. Is it https:// where it should be http://? Is ca_file right?"
    message = failure_line(NetworkError(words, code=code, phase="connect"), PLACE)["message"]
    assert message.count("?") <= 1
    assert "(" not in message
    assert "ca_file" not in message


def test_the_models_that_are_not_found_have_no_name() -> None:
    message = failure_line(NotFoundError("gone"), ErrorContext("http://here/v1"))["message"]
    assert message == "Nothing was found at http://here/v1: check its address (gone)."


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
