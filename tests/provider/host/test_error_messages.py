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
from penstock.net.network_errors import tls_not_supported, tls_required
from penstock.provider.host.error_messages import (
    ERROR_TEXTS,
    ErrorContext,
    brief,
    failure_line,
    internal_error_line,
)

PLACE = ErrorContext(endpoint="http://127.0.0.1:8080/v1", group="Work", model="big-model")


def overflow(*, learned: bool = False, estimated: int | None = None, **known: int) -> ContextOverflowError:
    error = ContextOverflowError("x", **known)  # type: ignore[arg-type]  # only numbers of tokens
    error.is_limit_learned, error.estimated_tokens = learned, estimated
    return error


CASES: list[tuple[OpenResponsesError, str, str]] = [
    (
        AuthenticationError("bad key", status=401),
        "NoPermissions",
        "the key of the group “Work”: enter the key again",
    ),
    (AuthenticationError("no", code="invalid_api_key"), "NoPermissions", "does not accept the key"),
    (
        AuthenticationError("no", code="invalid_key"),
        "NoPermissions",
        "is not valid: enter it again, as a single line",
    ),
    (PermissionDeniedError("not yours"), "NoPermissions", "choose another model or key (not yours)"),
    (RateLimitError("slow", retry_after=17.2), "Blocked", "wait 17 s and try again (slow)"),
    (RateLimitError("slow", retry_after=600), "Blocked", "wait 10 min"),
    (RateLimitError("slow", retry_after=10_000), "Blocked", "wait 3 h"),
    (RateLimitError("slow"), "Blocked", "wait a moment"),
    (RateLimitError("spent", code="insufficient_quota"), "Blocked", "waiting does not help"),
    (
        ContextOverflowError("x", limit_tokens=8000, used_tokens=9001),
        "",
        "(9,001 tokens; the model's limit is 8,000)",
    ),
    (
        ContextOverflowError("x", limit_tokens=8000),
        "",
        "(the model's limit is 8,000 tokens): start a new one",
    ),
    (ContextOverflowError("x"), "", "too long: start a new one, or attach less."),
    (ContextOverflowError("x", used_tokens=9001), "", "too long (9,001 tokens): start a new one"),
    (
        overflow(learned=True, limit_tokens=8000, used_tokens=9001),
        "",
        "(9,001 tokens; the model's limit is 8,000, which is now known): try again, start a new one, or att",
    ),
    (
        overflow(learned=True, limit_tokens=8000),
        "",
        "(the model's limit is 8,000 tokens, which is now known): try again, start",
    ),
    (
        overflow(estimated=9001, limit_tokens=8000),
        "",
        "(about 9,001 tokens by our own estimate; the model's limit is 8,000): start a new one",
    ),
    (overflow(estimated=9001), "", "(about 9,001 tokens by our own estimate): start a new one"),
    (InvalidRequestError("no", code="content_filter"), "Blocked", "rephrase it"),
    (InvalidRequestError("tools[3] is wrong"), "", "The request was rejected: tools[3] is wrong; change the"),
    (
        InvalidRequestError("no (request req_1)."),
        "",
        "rejected: no; change the request, or choose another model.",
    ),
    (NotFoundError("gone", code="model_not_found"), "NotFound", "has no model big-model: choose another"),
    (NotFoundError("gone"), "NotFound", "check the URL and the model name big-model"),
    (OverloadedError("busy", retry_after=3), "Blocked", "is overloaded: wait 3 s"),
    (ServerError("boom"), "", "http://127.0.0.1:8080/v1 failed: try again"),
    (ServerError("boom", code="vendor_specific"), "", "http://127.0.0.1:8080/v1 failed: try again"),
    (NetworkError("refused", phase="connect"), "", "is it running"),
    (NetworkError("slow", phase="first_byte"), "", "did not answer in time"),
    (NetworkError("slow", phase="idle"), "", "stopped sending"),
    (NetworkError("reset", phase="cut"), "", "was lost: try again (reset)"),
    (
        tls_required("h:1"),
        "",
        "Use https:// instead of http://: the server at h:1 requires TLS.",
    ),
    (
        tls_not_supported("h:1"),
        "",
        "Use http:// instead of https://: the server at h:1 does not support TLS.",
    ),
    (NetworkError("x", code="tls_error", phase="connect"), "", "should its URL begin with http:// or"),
    (
        ProtocolError("the endpoint returned a web page (text/html)", code="no_event_stream"),
        "",
        "http://127.0.0.1:8080/v1 is not an API: the endpoint returned a web page (text/html).",
    ),
    (
        AuthenticationError("the upstream refused the key (from A)", code="upstream_unauthorized"),
        "NoPermissions",
        "was reached, but cannot use the model: the upstream refused the key (from A).",
    ),
    (NetworkError("self-signed", code="certificate_error", phase="connect"), "", "is not trusted"),
    (ProtocolError("<html>"), "", "does it support the Responses API?"),
    (ProtocolError("gave no answer", code="empty_response"), "", "big-model gave no answer: try again"),
    (ProtocolError("cut", code="stream_truncated"), "", "was cut off"),
    (ProtocolError("x", code="incomplete_length"), "", "raise it"),
    (ProtocolError("x", code="incomplete_something"), "", "does it support"),
]


@pytest.mark.parametrize(("error", "kind", "words"), CASES, ids=lambda each: str(each)[:30])
def test_an_error_has_its_kind_and_says_what_to_do(error: OpenResponsesError, kind: str, words: str) -> None:
    line = failure_line(error, PLACE)
    assert (line["kind"], line["name"], line["code"]) == (kind, type(error).__name__, error.code)
    assert words in line["message"]
    assert line["message"][0].isupper() or line["message"].startswith((PLACE.endpoint, PLACE.model))


UPSTREAM_CONNECTIONS = {
    "certificate_error": "the certificate of h:1 is not trusted: self-signed; check ca_file",
    "tls_error": tls_required("h:1").message,
    "proxy_error": "the proxy h:1 returned 407",
}


@pytest.mark.parametrize("status", [502, None], ids=["over HTTP", "in the stream"])
@pytest.mark.parametrize(("code", "words"), UPSTREAM_CONNECTIONS.items())
def test_a_failed_connection_of_a_gateway_to_its_upstream_does_not_blame_the_groups_url(
    code: str, words: str, status: int | None
) -> None:
    error = ServerError(f"{words} (request req_1)", code=code, status=status)
    assert failure_line(error, PLACE)["message"] == (
        f"http://127.0.0.1:8080/v1 was reached, but not the model: {words}."
    )


@pytest.mark.parametrize("code", ERROR_TEXTS)
def test_every_row_is_a_complete_sentence(code: str) -> None:
    kind, _, phase = code.partition(".")
    error = (NetworkError if phase else ServerError)("words\nof a  server.", code=kind, phase=phase or None)
    message = failure_line(error, ErrorContext())["message"]
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


@pytest.mark.parametrize("text", ['{"error": {"a": 1}}', "[1, 2]", "<!doctype html><p>", "", "  \n "])
def test_json_and_markup_are_omitted(text: str) -> None:
    message = failure_line(ServerError(text), PLACE)["message"]
    assert message.endswith("if that does not help.")


MESSAGES: dict[str, str] = {
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


@pytest.mark.parametrize(("original", "shown"), MESSAGES.items(), ids=range(len(MESSAGES)))
def test_the_first_readable_sentence_of_an_endpoints_message_is_shown(original: str, shown: str) -> None:
    message = failure_line(ServerError(original), PLACE)["message"]
    assert (
        message == f"{PLACE.endpoint} failed: try again, and check its log if that does not help ({shown})."
    )


@pytest.mark.parametrize(
    "words", ['Error: {"a": 1}', "at foo (bar.js:1:2)", "Traceback (most recent call last)"]
)
def test_a_single_word_before_unreadable_text_is_omitted(words: str) -> None:
    assert failure_line(ServerError(words), PLACE)["message"].endswith("if that does not help.")
    rejected = failure_line(InvalidRequestError(words), PLACE)["message"]
    assert rejected == (
        "The request was rejected: no reason given; change the request, or choose another model."
    )


@pytest.mark.parametrize("code", ["protocol_error", "tls_error", "certificate_error"])
def test_our_question_is_not_followed_by_the_endpoints_question(code: str) -> None:
    words = "no. Is it https:// where it should be http://? Is ca_file right?"
    message = failure_line(NetworkError(words, code=code, phase="connect"), PLACE)["message"]
    assert message.count("?") <= 1
    assert "(" not in message
    assert "ca_file" not in message


def test_a_404_without_a_model_asks_only_for_the_url() -> None:
    message = failure_line(NotFoundError("gone"), ErrorContext("http://here/v1"))["message"]
    assert message == "http://here/v1 was not found: check the URL (gone)."


def test_a_long_message_with_control_characters_becomes_one_short_line() -> None:
    message = failure_line(ServerError("a\x1b[31m\nb\u202e" + "x" * 5000), PLACE)["message"]
    assert message.isprintable()
    assert len(message) < 450


def test_all_known_details_are_in_the_line() -> None:
    error = RateLimitError("slow", status=429, request_id="req_1", retry_after=2.0, param="model")
    line = failure_line(error, PLACE)
    assert (line["status"], line["request_id"], line["retry_after"], line["param"]) == (
        429,
        "req_1",
        2.0,
        "model",
    )


def test_an_internal_error_shows_only_its_type() -> None:
    line = internal_error_line(ValueError("sesame"))
    assert (line["code"], line["name"]) == ("internal_error", "InternalError")
    assert "ValueError" in line["message"]
    assert "sesame" not in str(line)


HOSTILE = {
    "a page": f"<!doctype html><title>502</title>{'<p>mill</p>' * 5000}",
    "a page after words": f"The mill is closed <html>{'<p>mill</p>' * 5000}",
    "a long text": "The mill is closed. " * 5000,
    "keys": "The key sk-mill-0123456789 of http://a:b12345678@x.example/?key=c is bad, Bearer d123456789",
    "markup": "| a | b |\n|---|---|\n# Closed\n[x](command:quit) $(error)",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_message_is_one_short_sentence_without_keys(text: str) -> None:
    line = failure_line(ServerError(text, code=text), ErrorContext(endpoint="http://here"))
    assert len(line["message"]) < 500
    assert line["code"] == "server_error"
    for unwanted in ("\n", "<", "0123456789", "b12345678", "key=c", "d123456789"):
        assert unwanted not in line["message"]
    assert len(brief(text)) <= 301
    assert "0123456789" not in brief(text)
    assert "\n" not in brief(text)


def test_a_code_that_looks_like_a_key_is_masked() -> None:
    assert failure_line(ServerError("x", code="sk-mill-0123456789"), ErrorContext())["code"] == "[key]"
    assert failure_line(ServerError("x", code="mill_closed"), ErrorContext())["code"] == "mill_closed"
