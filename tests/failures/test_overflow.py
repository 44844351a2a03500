"""Context overflows in the words of every vendor, and the limits that they name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.frames import error_delta
from penstock.failures import classify, explain
from tests.failures.overflows import NUMBERS, OVERFLOWS


@pytest.mark.parametrize("vendor", OVERFLOWS)
def test_a_context_overflow_is_recognised_in_every_vendors_words(vendor: str) -> None:
    status, body = OVERFLOWS[vendor]
    error = classify(status, {}, json.dumps(body).encode())
    assert (error.code, error.type, error.status) == ("context_length_exceeded", "invalid_request", status)
    assert error_delta(body).code == "context_length_exceeded"
    assert error.message == error_delta(body).message


@pytest.mark.parametrize("vendor", NUMBERS)
def test_a_context_overflow_has_the_token_counts_of_the_vendor(vendor: str) -> None:
    status, body = OVERFLOWS[vendor]
    error = classify(status, {}, json.dumps(body).encode())
    assert (error.limit_tokens, error.used_tokens) == NUMBERS[vendor]


def test_token_counts_may_be_fields_or_have_commas() -> None:
    fields = {"type": "exceed_context_size_error", "n_ctx": 4096, "n_prompt_tokens": 5000}
    assert (explain(fields).limit_tokens, explain(fields).used_tokens) == (4096, 5000)
    commas = {"message": "prompt is too long: 1,200,000 tokens > 1,048,576 maximum"}
    assert (explain(commas).limit_tokens, explain(commas).used_tokens) == (1048576, 1200000)


def test_counts_in_fields_are_added_to_the_message_for_clients_of_a_gateway() -> None:
    fields = {"type": "exceed_context_size_error", "n_ctx": 4096, "message": "the request is too long"}
    assert explain(fields).message == "the request is too long (the limit is 4096 tokens)"
    error = explain({**fields, "n_prompt_tokens": 5000})
    assert error.message == "the request is too long (5000 tokens; the limit is 4096 tokens)"
    again = explain({"message": error.message, "code": "context_length_exceeded"})
    assert (again.limit_tokens, again.used_tokens, again.message) == (4096, 5000, error.message)


@given(
    text=st.sampled_from(
        ["context size exceeded", "the limit is 512 tokens", "maximum 81920", "too many bytes", "x" * 5000]
    ),
    limit=st.integers(1, 10**15 - 1),
    used=st.none() | st.integers(1, 10**15 - 1),
)
def test_counts_that_were_added_to_a_message_are_read_back_unchanged(
    text: str, limit: int, used: int | None
) -> None:
    fields = {"type": "exceed_context_size_error", "n_ctx": limit, "n_prompt_tokens": used, "message": text}
    first = explain(fields)
    assert (first.limit_tokens, first.used_tokens) == (limit, used)
    again = explain({"message": first.message, "code": "context_length_exceeded"})
    assert (again.limit_tokens, again.used_tokens, again.message) == (limit, used, first.message)


def test_the_digits_of_a_request_id_are_not_a_token_count() -> None:
    message = "maximum context length is 8192 tokens, but you requested 9000 (request req_0f75661045-77)"
    error = explain({"message": message, "code": "context_length_exceeded"})
    assert (error.limit_tokens, error.used_tokens) == (8192, 9000)


@pytest.mark.parametrize(
    "message",
    [
        "the prompt is too long; the maximum number of output tokens is 4096",
        "prompt is too long: the limit on completion tokens is 4096",
        "prompt is too long: max_tokens 4096",
        "prompt is too long: max new tokens 4096",
        "prompt is too long (request id 20260101123456)",
        "prompt is too long for gpt-4096",
        "prompt is too long: it exceeds the context window by 4096 tokens",
        "prompt is too long: the maximum is 128k tokens",
        "prompt is too long: the maximum is 262.144 tokens",
        "prompt is too long: context window exceeds limit (2013)",
        "prompt is too long: context window exceeds limit (2013), status code: 4000, request id 12345678",
        "prompt is too long: limit (2013) at http://models.example:11434/v1",
        "prompt is too long: context length exceeded: 9000 tokens",
        "prompt is too long: too many messages, 1200 > 1000",
        "prompt is too long: the limit is 20 images, and there are 300 of the maximum 256",
    ],
)
def test_a_number_that_is_not_the_context_limit_is_not_taken_for_it(message: str) -> None:
    error = explain({"message": message})
    assert (error.code, error.limit_tokens) == ("context_length_exceeded", None)


@pytest.mark.parametrize(
    "message",
    [
        "Request exceeds the maximum size of 33554432 bytes",
        "The maximum request size is 32000 KB",
        "Request too large on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce it.",
        "Maximum request body size 262144 exceeded, actual body size 300000",
        "Request body exceeds the maximum allowed: 100000",
        "Request body (120000) exceeds the maximum allowed: 100000",
        "Payload too large: 120000 > 100000 maximum",
        "Your request is too large: 300000 > 262144",
        "Too many messages: maximum 1000",
        "Too many messages: 1200, maximum 1000",
        "Too many images in the prompt: 300, maximum 256",
    ],
)
def test_a_413_about_something_else_than_tokens_names_no_limit(message: str) -> None:
    error = classify(413, {}, json.dumps({"error": {"message": message}}).encode())
    assert (error.code, error.limit_tokens, error.used_tokens) == ("context_length_exceeded", None, None)
    # The gateway passes the message on with its own code, which a status did not decide.
    again = explain({"message": error.message, "code": error.code})
    assert (again.limit_tokens, again.used_tokens) == (None, None)


def test_a_413_alone_teaches_no_numbers_but_its_fields_do() -> None:
    body = {"message": "Input too large: 300000 > 262144"}
    assert classify(413, {}, json.dumps(body).encode()).limit_tokens is None
    body_with_fields = {**body, "n_ctx": 4096, "n_prompt_tokens": 5000}
    error = classify(413, {}, json.dumps(body_with_fields).encode())
    assert (error.limit_tokens, error.used_tokens) == (4096, 5000)


def test_the_limit_of_the_context_wins_over_a_limit_of_the_output() -> None:
    message = "max output limit 4096 and 8000 input tokens exceed the maximum context length of 8192 tokens"
    assert explain({"message": message}).limit_tokens == 8192


def test_an_output_limit_is_not_an_overflow() -> None:
    message = "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude"
    error = classify(400, {}, json.dumps({"error": {"message": message}}).encode())
    assert (error.code, error.limit_tokens) == ("invalid_request", None)


def test_other_errors_have_no_token_counts() -> None:
    error = explain({"code": "rate_limit_exceeded", "message": "limit of 3000 tokens > 2000 maximum"})
    assert (error.limit_tokens, error.used_tokens) == (None, None)
