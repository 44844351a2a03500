"""Context overflows in the words of every vendor, and the limits and sizes that they name."""

from __future__ import annotations

from typing import Any

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
    "minimax": (
        200,
        {
            "base_resp": {
                "status_code": 2013,
                "status_msg": "invalid params, context window exceeds limit (2013)",
            }
        },
    ),
    "both lengths": (
        400,
        {"error": {"message": "input length (5000) exceeds maximum context length (4096)"}},
    ),
    "the refused size first": (
        400,
        {"error": {"message": "Context length exceeded: 9000 tokens, limit 8192"}},
    ),
    "the limit before its word": (
        400,
        {
            "error": {
                "message": "Input length 131,073 exceeds the 131,072 token limit",
                "code": "context_length_exceeded",
            }
        },
    ),
    "two kinds of length": (
        400,
        {
            "error": {
                "message": "Prompt length (4200) exceeds maximum input length (4096)",
                "code": "context_length_exceeded",
            }
        },
    ),
    "the refused context": (
        400,
        {"error": {"message": "Context length 9000 tokens exceeds the maximum context length of 8192"}},
    ),
}

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
    "minimax": (None, None),
    "both lengths": (4096, 5000),
    "the refused size first": (8192, 9000),
    "the limit before its word": (131072, 131073),
    "two kinds of length": (4096, 4200),
    "the refused context": (8192, 9000),
}
"""The limit and the refused size of each."""
