"""Our error codes, and the evidence for each: codes, message texts and statuses, as vendors send them."""

from __future__ import annotations

import re

CODES: dict[str, str] = {
    # Unambiguous words in `code`, `type`, `status` or `reason`; compared without case or `_-. `.
    "context_length_exceeded": "context_length_exceeded",
    "exceed_context_size_error": "context_length_exceeded",
    "model_max_prompt_tokens_exceeded": "context_length_exceeded",
    "context_window_exceeded": "context_length_exceeded",
    "prompt_too_long": "context_length_exceeded",
    "string_above_max_length": "context_length_exceeded",
    "request_too_large": "context_length_exceeded",
    "1261": "context_length_exceeded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "rate_limit_error": "rate_limit_exceeded",
    "rate_limit_reached_error": "rate_limit_exceeded",
    "rate_limited": "rate_limit_exceeded",
    "too_many_requests": "rate_limit_exceeded",
    "too_many_requests_exception": "rate_limit_exceeded",
    "throttling_exception": "rate_limit_exceeded",
    "throttling": "rate_limit_exceeded",
    "resource_exhausted": "rate_limit_exceeded",
    "1302": "rate_limit_exceeded",
    "insufficient_quota": "insufficient_quota",
    "budget_exceeded": "budget_exceeded",  # another Penstock
    "service_quota_exceeded_exception": "insufficient_quota",
    "quota_exceeded": "insufficient_quota",
    "exceeded_current_quota_error": "insufficient_quota",
    "billing_error": "insufficient_quota",
    "billing_hard_limit_reached": "insufficient_quota",
    "billing_not_active": "insufficient_quota",
    "usage_limit_reached": "insufficient_quota",
    "usage_not_included": "insufficient_quota",
    "insufficient_balance": "insufficient_quota",
    "credits_exhausted": "insufficient_quota",
    "payment_required": "insufficient_quota",
    "arrearage": "insufficient_quota",
    "1113": "insufficient_quota",
    "1008": "insufficient_quota",
    "server_is_overloaded": "server_is_overloaded",
    "overloaded_error": "server_is_overloaded",
    "overloaded": "server_is_overloaded",
    "engine_overloaded_error": "server_is_overloaded",
    "slow_down": "server_is_overloaded",
    "unavailable": "server_is_overloaded",
    "service_unavailable": "server_is_overloaded",
    "service_unavailable_exception": "server_is_overloaded",
    "service_unavailable_error": "server_is_overloaded",
    "model_not_ready_exception": "server_is_overloaded",
    "1305": "server_is_overloaded",
    "invalid_api_key": "authentication_error",
    "authentication_error": "authentication_error",
    "invalid_authentication_error": "authentication_error",
    "incorrect_api_key_error": "authentication_error",
    "unauthenticated": "authentication_error",
    "unauthorized": "authentication_error",
    "unrecognized_client_exception": "authentication_error",
    "expired_token_exception": "authentication_error",
    "permission_error": "permission_denied",
    "permission_denied": "permission_denied",
    "permission_denied_error": "permission_denied",
    "access_denied_exception": "permission_denied",
    "unsupported_country_region_territory": "permission_denied",
    "forbidden": "permission_denied",
    "unknown_url": "not_found",
    "model_not_found": "model_not_found",
    "model_not_found_error": "model_not_found",
    "model_not_exist": "model_not_found",
    "model_not_supported": "model_not_found",
    "deployment_not_found": "model_not_found",
    "resource_not_found_exception": "model_not_found",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "responsible_ai_policy_violation": "content_filter",
    "data_inspection_failed": "content_filter",
    "moderation_blocked": "content_filter",
    "cyber_policy_violation": "content_filter",
    "1301": "content_filter",
    "invalid_prompt": "invalid_prompt",
    # Another Penstock.
    "encrypted_content_unreadable": "encrypted_content_unreadable",
    "upstream_unauthorized": "upstream_unauthorized",
    "upstream_forbidden": "upstream_forbidden",
    "upstream_not_found": "upstream_not_found",
    "upstream_timeout": "upstream_timeout",
    "shutting_down": "server_is_overloaded",
    # The model wrote a call that the vendor could not parse: not the caller's fault (Groq, quirk C37).
    "tool_use_failed": "server_error",
    "model_stream_error_exception": "server_error",
}

_OVERFLOW = (
    r"maximum context length",  # OpenAI, Azure, vLLM, DeepSeek, OpenRouter, Mistral
    r"exceeds? the context (window|length)",  # OpenAI Responses, Ollama
    r"input tokens? exceeds? the configured limit",
    r"prompt is too long",  # Anthropic, Bedrock
    r"prompt too long",  # Ollama
    r"exceeds? (the )?context (limit|window)",  # Anthropic
    r"context (window|length|size) exceed(s|ed)",  # MiniMax
    r"input token count.{0,40}exceeds the maximum",  # Gemini
    r"longer than the (maximum model length|model's context length)",  # vLLM, SGLang
    r"maximum model length",
    r"exceeds? the (available|maximum|max) context",  # llama.cpp
    r"larger than the max(imum)? context size",
    r"when context the overflows",  # LM Studio, verbatim
    r"loaded with context length",
    r"tokens to keep from the initial prompt",
    r"(reached|exceeds?|exceeded|greater than) (the |model's )?(max(imum)? )?context (length|size|window)",
    r"input is too long",  # Bedrock
    r"too large for model with \d+ maximum context",  # Mistral
    r"too many tokens.{0,60}prompt",  # Cohere
    r"too many input tokens",  # Bedrock: Titan
    r"number of input tokens exceeds",  # Bedrock: Nova
    r"inputs. must have less than \d+ tokens",  # Hugging Face
    r"maximum prompt length",  # xAI
    r"prompt token count of \d+ exceeds",  # Copilot
    r"exceeded model token limit",  # Moonshot
    r"prompt exceeds max(imum)? length",  # Z.ai
    r"range of input length should be",  # Qwen
    r"tokens.{0,20}max_new_tokens.{0,12}must be <=",  # Hugging Face, Together
    r"reduce the length of the (messages|prompt|input)",  # Groq, Cerebras
)

MESSAGES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (code, re.compile("|".join(patterns), re.IGNORECASE))
    for code, patterns in (
        ("context_length_exceeded", _OVERFLOW),
        (
            "insufficient_quota",
            (
                r"exceeded your current quota",
                r"credit balance is too low",
                r"insufficient (balance|credits?|funds|quota)",
                r"(requires|add|purchase|out of|not enough) (more )?credits",
                r"payment required|billing (hard )?limit|account.{0,20}(in arrears|overdue)",
                r"usage limit (has been )?reached",
            ),
        ),
        ("rate_limit_exceeded", (r"rate[ -]?limit", r"too many (requests|tokens)", r"throttl")),
        (
            "server_is_overloaded",
            (
                r"overloaded",
                r"(over|at) (its )?capacity",
                r"(high|heavy) (demand|load)",
                r"server (is )?busy",
                r"model is (currently |still )?loading",
                r"temporarily unavailable",
            ),
        ),
        (
            "model_not_found",
            (
                r"model\b[^.]{0,80}(not found|does(n't| not) exist)",
                r"not a valid model",
                r"(unknown|no such|invalid) model",
                r"no endpoints found for",
            ),
        ),
        (
            "not_found",
            (
                r"unexpected endpoint or method",  # LM Studio, with status 200
            ),
        ),
        (
            "authentication_error",
            (
                r"(invalid|incorrect|missing|no|bad|wrong|expired) (api|access)[ _-]?(key|token)",
                r"api key not valid",
                r"(invalid|missing) (authentication|credentials)",
                r"no auth credentials",
            ),
        ),
        (
            "content_filter",
            (
                r"content (management|filter(ing)?|usage) polic",
                r"content (safety|filter)",
                r"content exists risk",
                r"flagged (by|as|for)",
                r"safety system",
            ),
        ),
    )
)
"""Message texts that are more specific than a general code or a status, in the order they are checked."""

TYPES: dict[str, str] = {
    # General words: they show whether the client or the server is at fault, and little else.
    "invalid_request_error": "invalid_request",
    "invalid_request": "invalid_request",
    "invalid_argument": "invalid_request",
    "failed_precondition": "invalid_request",
    "bad_request_error": "invalid_request",
    "bad_request": "invalid_request",
    "validation_exception": "invalid_request",
    "validation_error": "invalid_request",
    "unprocessable_entity_error": "invalid_request",
    "not_found_error": "model_not_found",
    "not_found": "model_not_found",
    "previous_response_not_found": "invalid_request",
    "api_error": "server_error",
    "server_error": "server_error",
    "internal_server_error": "server_error",
    "internal_server_exception": "server_error",
    "internal": "server_error",
    "timeout_error": "upstream_timeout",
    "deadline_exceeded": "upstream_timeout",
}

NOT_THE_REQUEST: dict[int, str] = {
    # Proxies send these when they, or the server behind them, gave up. The request itself is valid.
    408: "upstream_timeout",
    421: "server_error",
    425: "server_is_overloaded",
    499: "server_error",
    504: "upstream_timeout",
    # Cloudflare: the connection to the origin, or its response, timed out.
    522: "upstream_timeout",
    524: "upstream_timeout",
    # Not standardised: a read or connect timeout.
    598: "upstream_timeout",
    599: "upstream_timeout",
}
"""Statuses that take precedence over a general word: a 408 often comes with `invalid_request_error`."""

STATUSES: dict[int, str] = {
    **NOT_THE_REQUEST,
    400: "invalid_request",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_denied",
    404: "model_not_found",
    # Too many bytes. The remedy is the same as for too many tokens: a shorter history.
    413: "context_length_exceeded",
    422: "invalid_request",
    429: "rate_limit_exceeded",
    503: "server_is_overloaded",
    529: "server_is_overloaded",
}
"""Any other status from 400 to 499 is an invalid request; everything else is a server error."""

WRONG_ADDRESS = re.compile(
    r"^\W*(404\W+)?((page|file|resource|url|path|route|endpoint) )?(was |is )?not found\W*$"
    r"|page (could )?not (be )?found"
    r"|cannot (get|post) /"  # Express
    r"|\bno route\b|\broute \S+ not found"  # Kong, Fastify
    r"|invalid url|unknown request url"  # OpenAI, Groq
    r"|there is no such path|this path has /v1 twice",  # another Penstock
    re.IGNORECASE,
)
"""The message of a 404 that is about the address: it names neither a model nor anything else."""

NOT_AN_API = (404, 405, 415, 501)
"""Statuses with which web servers refuse a request to a page. With a web page as their body, they show that
the address is not that of an API."""

ERROR_TYPES: dict[str, str] = {
    "rate_limit_exceeded": "too_many_requests",
    "insufficient_quota": "too_many_requests",
    "budget_exceeded": "too_many_requests",
    "context_length_exceeded": "invalid_request",
    "invalid_prompt": "invalid_request",
    "encrypted_content_unreadable": "invalid_request",
    "server_is_overloaded": "server_error",
    "authentication_error": "invalid_request",
    "permission_denied": "invalid_request",
    "upstream_unauthorized": "invalid_request",
    "upstream_forbidden": "invalid_request",
    "model_not_found": "not_found",
    "not_found": "not_found",
    "upstream_not_found": "not_found",
    "invalid_request": "invalid_request",
    "content_filter": "invalid_request",
    "server_error": "server_error",
    "upstream_timeout": "server_error",
}
"""Every code that we return, and the specification's error type for it."""
