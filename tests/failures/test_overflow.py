"""Context overflows in the words of every vendor, and the limits that they name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.dialects.frames import error_delta
from penstock.failures import classify, explain

OVERFLOWS: dict[str, tuple[int, dict[str, Any]]] = {
    "openai": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens. However, your messages"
                " resulted in 9001 tokens. Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "openai responses": (
        400,
        {"error": {"message": "Your input exceeds the context window of this model.", "code": None}},
    ),
    "azure": (
        400,
        {"error": {"message": "Input tokens exceed the configured limit of 272000 tokens.", "code": "400"}},
    ),
    "anthropic": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 208310 tokens > 200000 maximum",
            },
        },
    ),
    "anthropic with output": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            },
        },
    ),
    "gemini": (
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1048577) exceeds the maximum number of tokens allowed.",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "vllm": (
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing it",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "llama.cpp, old": (
        500,
        {"error": {"code": 500, "message": "input is larger than the max context size. skipped"}},
    ),
    "ollama": (500, {"error": "the input length exceeds the context length"}),
    "lm studio": (
        400,
        {
            "error": "Trying to keep the first 5203 tokens when context the overflows. However, the model is"
            " loaded with context length of only 4096 tokens"
        },
    ),
    "openrouter": (
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. However, you requested"
                " about 140000 tokens.",
                "code": 400,
            }
        },
    ),
    "openrouter, the provider's error": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": '{"error":{"message":"Input is too long for requested model."}}'},
            }
        },
    ),
    "deepseek": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 65536 tokens. However, …",
                "type": "invalid_request_error",
                "code": "invalid_request_error",
            }
        },
    ),
    "mistral": (
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
    ),
    "xai": (
        400,
        {"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."},
    ),
    "copilot": (
        400,
        {
            "error": {
                "message": "prompt token count of 130000 exceeds the limit of 128000",
                "code": "model_max_prompt_tokens_exceeded",
            }
        },
    ),
    "azure, with numbers": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens. However, you requested"
                " 130000 tokens (126000 in the messages, 4000 in the completion). Please reduce the length of"
                " the messages or completion.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "gemini, with numbers": (
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed"
                " (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "deepseek, with numbers": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 65536 tokens. However, you requested 70000"
                " tokens (66000 in the messages, 4000 in the completion). Please reduce the length of the"
                " messages or completion.",
                "type": "invalid_request_error",
            }
        },
    ),
    "mistral, with drafts": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 133128 tokens and 0 draft tokens, too large for model with 131072"
            " maximum context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
    ),
    "vllm, input and output": (
        400,
        {
            "message": "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum"
            " context length is 40960 tokens and your request has 12000 input tokens (32000 > 40960 -"
            " 12000).",
            "code": 400,
        },
    ),
    "vllm, input": (
        400,
        {
            "error": {
                "message": "You passed 5000 input tokens and requested 500 output tokens. However, the"
                " model's context length is only 4096 tokens, resulting in a maximum input length of 3596"
                " tokens. Please reduce the length of the input prompt.",
                "code": 400,
            }
        },
    ),
    "sglang": (
        400,
        {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."},
    ),
    "llama.cpp, with numbers": (
        400,
        {
            "error": {
                "message": "request (5000 tokens) exceeds the available context size (4096 tokens), try"
                " increasing it",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "ollama, the excess": (
        400,
        {"error": "prompt too long; exceeded max context length by 4000 tokens"},
    ),
    "openrouter, with numbers": (
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. However, you requested"
                " about 140000 tokens (136000 of text input, 4000 in the output). Please reduce the length of"
                ' either one, or use the "middle-out" transform to compress your prompt automatically.',
                "code": 400,
            }
        },
    ),
    "groq": (
        400,
        {
            "error": {
                "message": "Please reduce the length of the messages or completion. Your current length is"
                " 9000 while limit is 8192",
                "type": "invalid_request_error",
            }
        },
    ),
    "bedrock": (
        400,
        {
            "message": "The model returned the following errors: prompt is too long: 208310 tokens > 200000"
            " maximum"
        },
    ),
    "bedrock, titan": (
        400,
        {"message": "Too many input tokens. Max input tokens: 8192, request input token count: 9000"},
    ),
    "bedrock, nova": (
        400,
        {"message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length."},
    ),
    "cohere": (
        400,
        {
            "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received"
            " 4292. Try using a shorter prompt, or enabling prompt truncating."
        },
    ),
    "moonshot": (
        400,
        {"error": {"message": "Your request exceeded model token limit: 8192 (requested: 9000)"}},
    ),
    "qwen": (
        400,
        {"error": {"message": "Range of input length should be [1, 30720]", "code": "InvalidParameter"}},
    ),
    "hugging face": (
        422,
        {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"},
    ),
    "hugging face, sum": (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000"
            " `inputs` tokens and 500 `max_new_tokens`"
        },
    ),
    "fireworks": (
        400,
        {"error": {"message": "The prompt is too long: 140000, model maximum context length: 131071"}},
    ),
    "openai, a string": (
        400,
        {
            "error": {
                "message": "Invalid 'input[0].content': string too long. Expected a string with maximum"
                " length 1048576, but got a string with length 1200000 instead.",
                "code": "string_above_max_length",
            }
        },
    ),
    "a size in characters": (
        413,
        {"error": {"message": "the prompt is too long: maximum 32000 characters"}},
    ),
    "too many bytes": (413, {"type": "error", "error": {"type": "request_too_large", "message": "too big"}}),
}


@pytest.mark.parametrize("vendor", OVERFLOWS)
def test_a_context_overflow_is_recognised_in_every_vendors_words(vendor: str) -> None:
    status, body = OVERFLOWS[vendor]
    error = classify(status, {}, json.dumps(body).encode())
    assert (error.code, error.type, error.status) == ("context_length_exceeded", "invalid_request", status)
    assert error_delta(body).code == "context_length_exceeded"
    assert error.message == error_delta(body).message


NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "openai": (8192, 9001),
    "openai responses": (None, None),
    "azure": (272000, None),
    "anthropic": (200000, 208310),
    "anthropic with output": (200000, 188240 + 21333),
    "vllm": (4096, 5000),
    "lm studio": (4096, 5203),
    "openrouter": (131072, 140000),
    "mistral": (32768, 40000),
    "xai": (131072, 537812),
    "copilot": (128000, 130000),
    "azure, with numbers": (128000, 130000),
    "gemini": (None, None),
    "gemini, with numbers": (1048576, 1200000),
    "deepseek": (65536, None),
    "deepseek, with numbers": (65536, 70000),
    "mistral, with drafts": (131072, 133128),
    "vllm, input and output": (40960, None),
    "vllm, input": (4096, 5000),
    "sglang": (4096, 5000),
    "llama.cpp": (None, None),
    "llama.cpp, with numbers": (4096, 5000),
    "ollama": (None, None),
    "ollama, the excess": (None, None),
    "openrouter, with numbers": (131072, 140000),
    "groq": (8192, 9000),
    "bedrock": (200000, 208310),
    "bedrock, titan": (8192, 9000),
    "bedrock, nova": (None, None),
    "cohere": (4081, 4292),
    "moonshot": (8192, 9000),
    "qwen": (30720, None),
    "hugging face": (4096, 5000),
    "hugging face, sum": (8193, None),
    "fireworks": (131071, 140000),
    "openai, a string": (None, None),
    "a size in characters": (None, None),
    "too many bytes": (None, None),
}


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
    ],
)
def test_a_413_about_bytes_or_a_rate_names_no_limit(message: str) -> None:
    error = classify(413, {}, json.dumps({"error": {"message": message}}).encode())
    assert (error.code, error.limit_tokens, error.used_tokens) == ("context_length_exceeded", None, None)


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
