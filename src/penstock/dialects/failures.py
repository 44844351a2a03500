"""What an upstream's failure means, for all dialects: an HTTP answer that is none, or an error in a stream.

Vendors agree neither on shapes nor on codes, and hide one failure behind another: an overflow arrives as 400,
413 or 500 (notes/asks E4), a spent quota as 429. So the evidence is asked in a fixed order, the most exact
first: a code that means one thing, the text, a status that means one thing, the general type, any status. The
tables below are that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import msgspec

from penstock.dialects.plan import UpstreamError
from penstock.lenient import count_of, object_of, objects_of, text_of
from penstock.stream.deltas import ErrorDelta

CODES: dict[str, str] = {
    # A word that means one thing, as `code`, `type`, `status` or `reason`; compared without case or `_-. `.
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
    # The model wrote a call that the vendor could not read: its failure, not the caller's (Groq, C37).
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
    r"context (window|length) exceeds",  # MiniMax
    r"input token count.{0,40}exceeds the maximum",  # Gemini
    r"longer than the (maximum model length|model's context length)",  # vLLM, SGLang
    r"maximum model length",
    r"exceeds? the (available|maximum|max) context",  # llama.cpp
    r"larger than the max(imum)? context size",
    r"when context the overflows",  # LM Studio, in its own words
    r"loaded with context length",
    r"tokens to keep from the initial prompt",
    r"(reached|exceeds?|exceeded|greater than) (the |model's )?(max(imum)? )?context (length|size|window)",
    r"input is too long",  # Bedrock
    r"too large for model with \d+ maximum context",  # Mistral
    r"too many tokens.{0,60}prompt",  # Cohere
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
"""Texts that say what a general code or a status does not, in the order in which they are asked."""

TYPES: dict[str, str] = {
    # General words: they say who is at fault and little else.
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
    "api_error": "server_error",
    "server_error": "server_error",
    "internal_server_error": "server_error",
    "internal_server_exception": "server_error",
    "internal": "server_error",
    "timeout_error": "upstream_timeout",
    "deadline_exceeded": "upstream_timeout",
}

NOT_THE_REQUEST: dict[int, str] = {
    # Proxies send these when they, or the server behind them, gave up. Nothing is wrong with the request.
    408: "upstream_timeout",
    421: "server_error",
    425: "server_is_overloaded",
    499: "server_error",
    504: "upstream_timeout",
    # Cloudflare: no connection to the origin in time, no answer in time.
    522: "upstream_timeout",
    524: "upstream_timeout",
    # Not standardised: a read or a connect that timed out.
    598: "upstream_timeout",
    599: "upstream_timeout",
}
"""Statuses that say more than a general word does: a 408 is often called `invalid_request_error`."""

STATUSES: dict[int, str] = {
    **NOT_THE_REQUEST,
    400: "invalid_request",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_denied",
    404: "model_not_found",
    # Too many bytes, and what helps is what helps with too many tokens: a shorter history.
    413: "context_length_exceeded",
    422: "invalid_request",
    429: "rate_limit_exceeded",
    503: "server_is_overloaded",
    529: "server_is_overloaded",
}
"""Any other status from 400 to 499 is an invalid request; what is left is the server's fault."""

ERROR_TYPES: dict[str, str] = {
    "rate_limit_exceeded": "too_many_requests",
    "insufficient_quota": "too_many_requests",
    "context_length_exceeded": "invalid_request",
    "invalid_prompt": "invalid_request",
    "server_is_overloaded": "server_error",
    "authentication_error": "invalid_request",
    "permission_denied": "invalid_request",
    "model_not_found": "not_found",
    "invalid_request": "invalid_request",
    "content_filter": "invalid_request",
    "server_error": "server_error",
    "upstream_timeout": "server_error",
}
"""Every code that we give, and the type of error that the specification has for it."""

_WORD_FIELDS = ("code", "type", "status", "reason", "error_type", "__type", "name")
_TEXT_FIELDS = ("message", "Message", "msg", "status_msg", "error_description")
_STATUS_FIELDS = ("status_code", "statusCode", "code", "status")
_NESTED_FIELDS = ("error", "response", "base_resp", "errors", "detail", "data")
_STATUS = re.compile(r"[45]\d\d", re.ASCII)
_DEPTH = 4
_ENTRIES = 8
_SHOWN = 4000
"""Characters of an upstream's error that are read and kept."""
_SHOWN_PAGE = 200
_HTML = re.compile(r"\s*<(?:!doctype|html|head|body|title|center|h1|p)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^>]*>([^<]*)", re.IGNORECASE)
_NO_TEXT = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<[^>]*(?:>|\Z)", re.IGNORECASE | re.DOTALL)


def classify(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """What an HTTP answer that is no success means."""
    names = {name.lower(): value for name, value in headers.items()}
    errors = list(_errors_in(_decoded(body)))
    errors.append({"code": names.get("x-amzn-errortype", "").partition(":")[0]})
    message = _message_of(errors) or _plain_text(status, body[:_SHOWN].decode(errors="replace").strip())
    return _explained(errors, message, status, names)


def _plain_text(status: int, body: str) -> str:
    """The message of a body that is no JSON. Of a web page only the title, or else the beginning of its text:
    its markup helps nobody, and words in it (such as "rate limit") may be about something else."""
    if not body:
        return f"the upstream returned HTTP {status} and no body"
    if not _HTML.match(body):
        return body
    title = _TITLE.search(body)
    text = title[1] if title and title[1].strip() else _NO_TEXT.sub(" ", body)
    shown = " ".join(unescape(text).split())[:_SHOWN_PAGE]
    return f"the upstream returned HTTP {status} and a web page" + (f": {shown}" if shown else "")


def explain(payload: Mapping[str, Any]) -> UpstreamError:
    """What an error object in a stream means, in any vendor's shape. It has no status: 0."""
    errors = list(_errors_in(dict(payload)))
    message = _message_of(errors) or "the upstream reported an error and did not say which"
    return _explained(errors, message, 0, {})


def error_delta(payload: Mapping[str, Any]) -> ErrorDelta:
    """The same as a delta."""
    error = explain(payload)
    return ErrorDelta(error.code, error.message, error.type, error.param, error.retry_after)


def _explained(
    errors: list[dict[str, Any]], message: str, status: int, headers: Mapping[str, str]
) -> UpstreamError:
    code = _code_for(errors, message, status or None)
    limit, used = overflow(errors, message) if code == "context_length_exceeded" else (None, None)
    return UpstreamError(
        status=status,
        code=code,
        message=message,
        type=ERROR_TYPES[code],
        param=_param_of(errors),
        retry_after=_retry_after(headers, errors),
        limit_tokens=limit,
        used_tokens=used,
    )


def _errors_in(value: Any, depth: int = _DEPTH) -> Iterator[dict[str, Any]]:
    """Every object that may say something of the error, the outermost first. A bare text may be either."""
    if isinstance(value, str):
        yield {"message": value, "code": value[:64]}
    elif isinstance(value, list) and depth:
        for each in value[:_ENTRIES]:
            yield from _errors_in(each, depth - 1)
    elif isinstance(value, dict):
        yield value
        for name in _NESTED_FIELDS if depth else ():
            yield from _errors_in(value.get(name), depth - 1)


def _code_for(errors: list[dict[str, Any]], message: str, status: int | None) -> str:
    """The first evidence that says something, in the order of the tables."""
    words = [_plain(word) for each in errors for word in _words_of(each)]
    for word in words:
        if word in _PLAIN_CODES:
            return _PLAIN_CODES[word]
    for code, pattern in MESSAGES:
        if pattern.search(message):
            return code
    # What the body says is nearer to the cause than what a proxy made of it.
    first = next((each for each in (*_statuses_of(errors), status or 0) if each >= 400), 500)
    if first in NOT_THE_REQUEST:
        return NOT_THE_REQUEST[first]
    for word in words:
        if word in _PLAIN_TYPES:
            return _PLAIN_TYPES[word]
    return STATUSES.get(first, "invalid_request" if first < 500 else "server_error")


def _plain(word: str) -> str:
    """A word without its spelling: `TooManyRequestsException` and `too_many_requests_exception` are one."""
    return re.sub(r"[^a-z0-9]", "", word.rpartition("#")[2].lower())


_PLAIN_CODES = {_plain(word): code for word, code in CODES.items()}
_PLAIN_TYPES = {_plain(word): code for word, code in TYPES.items()}


def _words_of(error: dict[str, Any]) -> Iterator[str]:
    for name in _WORD_FIELDS:
        word = error.get(name)
        if isinstance(word, str) and word:
            yield word[:64]
    status = count_of(error.get("status_code"))
    if status is not None and status >= 1000:
        yield str(status)  # MiniMax has its codes as numbers here
    inner = object_of(error.get("innererror")).get("code")
    if isinstance(inner, str):
        yield inner[:64]  # Azure: the filter is named one level deeper


def _statuses_of(errors: list[dict[str, Any]]) -> Iterator[int]:
    for error in errors:
        for name in _STATUS_FIELDS:
            told = error.get(name)
            status = int(told) if isinstance(told, str) and _STATUS.fullmatch(told) else count_of(told)
            if status is not None and 400 <= status < 600:
                yield status


def _message_of(errors: list[dict[str, Any]]) -> str:
    """The vendor's own words, with those of the provider behind it where there is one (OpenRouter)."""
    message = raw = ""
    for error in errors:
        for name in _TEXT_FIELDS:
            message = message or text_of(error.get(name)).strip()
        raw = raw or text_of(object_of(error.get("metadata")).get("raw")).strip()
    if raw and raw != message:
        message = f"{message}: {raw}" if message else raw
    return message[:_SHOWN]


def _param_of(errors: list[dict[str, Any]]) -> str | None:
    return next((text_of(error.get("param")) for error in errors if text_of(error.get("param"))), None)


_COUNT = r"(\d{1,3}(?:,\d{3})+|\d{1,9})"
_SUM = re.compile(rf"{_COUNT} \+ {_COUNT} > {_COUNT}")
_LIMIT = re.compile(
    rf"(?:context (?:length|size|window)|limit|allowed|maximum|max)[a-z ]{{0,20}}[(:]? ?{_COUNT}\b"
    rf"|> {_COUNT}\b|{_COUNT} (?:tokens )?maximum",
    re.IGNORECASE,
)


def overflow(errors: list[dict[str, Any]], message: str) -> tuple[int | None, int | None]:
    """The limit that was passed, and what would have been used, as far as the vendor told.

    llama.cpp has fields for them. In a text the largest number is what was used: it made the overflow.
    """
    for error in errors:
        limit, used = count_of(error.get("n_ctx")), count_of(error.get("n_prompt_tokens"))
        if limit is not None:
            return limit, used
    if added := _SUM.search(message):  # Anthropic: what goes in, and what may come out
        given, reserved, limit = map(_count, added.groups())
        return limit, given + reserved
    told = _LIMIT.search(message)
    if told is None:
        return None, None
    limit = _count(next(each for each in told.groups() if each))
    largest = max(map(_count, re.findall(_COUNT, message)))
    return limit, largest if largest > limit else None


def _count(digits: str) -> int:
    return int(digits.replace(",", ""))


_RETRY_HEADERS = (("retry-after-ms", 0.001), ("retry-after", 1.0))
_RETRY_TEXT = re.compile(
    r"(?:try again|retry) in ((?:\d{1,6}(?:\.\d{1,6})? ?[a-z]{1,12} ?){1,3})", re.IGNORECASE
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|mil|s|m|h)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "mil": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _retry_after(headers: Mapping[str, str], errors: list[dict[str, Any]]) -> float | None:
    """Seconds to wait: as the headers say, else Gemini's `RetryInfo`, else the text (notes/asks E5)."""
    for name, unit in _RETRY_HEADERS:
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    for error in errors:
        for detail in objects_of(error.get("details")):
            seconds = _number(text_of(detail.get("retryDelay")).removesuffix("s"))
            if seconds is not None:
                return seconds
    told = _RETRY_TEXT.search(_message_of(errors))
    parts = _DURATION.findall(told[1]) if told else []
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts) if parts else None


def _number(text: str) -> float | None:
    """A number of seconds that can be waited for: a date, a negative number or NaN is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
