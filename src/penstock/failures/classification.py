"""Classifies an HTTP error response, or an error object inside a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.failures.codes import (
    CODES,
    ERROR_TYPES,
    MESSAGES,
    NOT_AN_API,
    NOT_THE_REQUEST,
    STATUSES,
    TYPES,
    WRONG_ADDRESS,
)
from penstock.failures.overflow import token_counts, with_counts
from penstock.lenient import count_of, object_of, objects_of, text_of

_WORD_FIELDS = ("code", "type", "status", "reason", "error_type", "__type", "name")
_TEXT_FIELDS = ("message", "Message", "msg", "status_msg", "error_description")
_STATUS_FIELDS = ("status_code", "statusCode", "code", "status")
_NESTED_FIELDS = ("error", "response", "base_resp", "errors", "detail", "data")
_STATUS = re.compile(r"[45]\d\d", re.ASCII)
_DEPTH = 4
_ENTRIES = 8
_MESSAGE_LIMIT = 4000
"""Maximum number of characters of an upstream's error message."""
_PAGE_LIMIT = 200
NO_MESSAGE = "the upstream returned HTTP "
"""The beginning of our own message for a body that has none: no body, or a web page."""
_HTML = re.compile(r"\s*<(?:!doctype|html|head|body|title|center|h1|p)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^>]*>([^<]*)", re.IGNORECASE)
_MODEL = re.compile(r"(?<!/)model", re.IGNORECASE)
"""A model in a text. In the path of a URL, as in `/v1/models`, the word means nothing."""
_NO_TEXT = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<[^>]*(?:>|\Z)", re.IGNORECASE | re.DOTALL)


class Failure(Struct, frozen=True):
    """A classified error: our code and the vendor's own message. `status` is 0 if there was none."""

    status: int
    code: str
    message: str
    type: str = "server_error"
    param: str | None = None
    retry_after: float | None = None
    limit_tokens: int | None = None
    """For a context overflow: the maximum number of tokens, if the vendor reports it."""
    used_tokens: int | None = None
    """For a context overflow: the number of tokens that the request needs."""


def classify(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Classify an HTTP error response."""
    names = {name.lower(): value for name, value in headers.items()}
    errors = list(_errors_in(_decoded(body)))
    errors.append({"code": names.get("x-amzn-errortype", "").partition(":")[0]})
    text = body[:_MESSAGE_LIMIT].decode(errors="replace").strip()
    message = _message_of(errors) or _plain_text(status, text)
    failure = _explained(errors, message, status, names)
    if status in NOT_AN_API and is_web_page(text):  # whatever words there are in its title
        return replace(failure, code="not_found", type=ERROR_TYPES["not_found"])
    return failure


def is_web_page(text: str) -> bool:
    return _HTML.match(text) is not None


def title_of(page: str) -> str:
    """Return the title of a web page, or the beginning of its text."""
    title = _TITLE.search(page)
    text = title[1] if title and title[1].strip() else _NO_TEXT.sub(" ", page)
    return " ".join(unescape(text).split())[:_PAGE_LIMIT]


def _plain_text(status: int, body: str) -> str:
    """Return the message of a body that is not JSON. Of a web page, return only the title or the beginning of
    its text: markup does not help, and words in it (such as "rate limit") may refer to something else."""
    if not body:
        return f"{NO_MESSAGE}{status} and no body"
    if not is_web_page(body):
        return body
    shown = title_of(body)
    return f"{NO_MESSAGE}{status} and a web page" + (f": {shown}" if shown else "")


def explain(payload: Mapping[str, Any]) -> Failure:
    """Classify an error object in a stream, in any vendor's shape. Its status is 0."""
    errors = list(_errors_in(dict(payload)))
    message = _message_of(errors) or "the upstream reported an error without a message"
    return _explained(errors, message, 0, {})


def _explained(
    errors: list[dict[str, Any]], message: str, status: int, headers: Mapping[str, str]
) -> Failure:
    code, is_stated = _code_for(errors, message, status or None)
    limit, used = None, None
    if code == "context_length_exceeded":
        # A 413 alone is about bytes, whatever the numbers in its message are.
        limit, used = token_counts(errors, message if is_stated else "")
    return Failure(
        status=status,
        code=code,
        message=with_counts(message, limit, used, _MESSAGE_LIMIT),
        type=ERROR_TYPES[code],
        param=_param_of(errors),
        retry_after=_retry_after(headers, errors),
        limit_tokens=limit,
        used_tokens=used,
    )


def _errors_in(value: Any, depth: int = _DEPTH) -> Iterator[dict[str, Any]]:
    """Yield every object that may describe the error, outermost first. A string may be code or message."""
    if isinstance(value, str):
        yield {"message": value, "code": value[:64]}
    elif isinstance(value, list) and depth:
        for each in value[:_ENTRIES]:
            yield from _errors_in(each, depth - 1)
    elif isinstance(value, dict):
        yield value
        for name in _NESTED_FIELDS if depth else ():
            yield from _errors_in(value.get(name), depth - 1)


def _code_for(errors: list[dict[str, Any]], message: str, status: int | None) -> tuple[str, bool]:
    """Return the code for the first evidence found, in the order of the tables, and whether the error states
    it: otherwise only a general word or a status shows it."""
    words = [_plain(word) for each in errors for word in _words_of(each)]
    for word in words:
        if word in _PLAIN_CODES:
            return _PLAIN_CODES[word], True
    for code, pattern in MESSAGES:
        if pattern.search(message):
            return code, True
    # The status in the body is closer to the cause than the status that a proxy returned.
    first = next((each for each in (*_statuses_of(errors), status or 0) if each >= 400), 500)
    if first in NOT_THE_REQUEST:
        return NOT_THE_REQUEST[first], False
    # The address of an upstream that has begun a stream is right.
    if status is not None and first in (404, 405) and _is_about_address(errors, words, message, first):
        return "not_found", False
    if first == 404 and _param_of(errors) == "model":
        return "model_not_found", False
    by_status = STATUSES.get(first, "invalid_request" if first < 500 else "server_error")
    return next((_PLAIN_TYPES[word] for word in words if word in _PLAIN_TYPES), by_status), False


def _is_about_address(errors: list[dict[str, Any]], words: list[str], message: str, status: int) -> bool:
    """Return whether the server has no such address. Servers use the same status and type for a missing model
    or file, so a 404 needs evidence: a text that names nothing, or no error object at all."""
    if status == 405:
        return True
    if words or _message_of(errors):
        return _param_of(errors) != "model" and WRONG_ADDRESS.search(message) is not None
    return _MODEL.search(message) is None


def _plain(word: str) -> str:
    """Normalise an error word: `TooManyRequestsException` and `too_many_requests_exception` are equal."""
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
        yield str(status)  # MiniMax sends its codes as numbers here
    inner = object_of(error.get("innererror")).get("code")
    if isinstance(inner, str):
        yield inner[:64]  # Azure: the filter is named one level deeper


def _statuses_of(errors: list[dict[str, Any]]) -> Iterator[int]:
    for error in errors:
        for name in _STATUS_FIELDS:
            value = error.get(name)
            status = int(value) if isinstance(value, str) and _STATUS.fullmatch(value) else count_of(value)
            if status is not None and 400 <= status < 600:
                yield status


def _message_of(errors: list[dict[str, Any]]) -> str:
    """Return the vendor's message, followed by that of the provider behind it, if any (OpenRouter)."""
    message = raw = ""
    for error in errors:
        for name in _TEXT_FIELDS:
            message = message or text_of(error.get(name)).strip()
        raw = raw or text_of(object_of(error.get("metadata")).get("raw")).strip()
    if raw and raw != message:
        message = f"{message}: {raw}" if message else raw
    return message[:_MESSAGE_LIMIT]


def _param_of(errors: list[dict[str, Any]]) -> str | None:
    return next((text_of(error.get("param")) for error in errors if text_of(error.get("param"))), None)


_RETRY_HEADERS = (("retry-after-ms", 0.001), ("retry-after", 1.0))
_RETRY_TEXT = re.compile(
    r"(?:try again|retry) in ((?:\d{1,6}(?:\.\d{1,6})? ?[a-z]{1,12} ?){1,3})", re.IGNORECASE
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|mil|s|m|h)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "mil": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _retry_after(headers: Mapping[str, str], errors: list[dict[str, Any]]) -> float | None:
    """Return the seconds to wait, from the headers, Gemini's `RetryInfo` or the message text (ask E5)."""
    for name, unit in _RETRY_HEADERS:
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    for error in errors:
        for detail in objects_of(error.get("details")):
            seconds = _number(text_of(detail.get("retryDelay")).removesuffix("s"))
            if seconds is not None:
                return seconds
    advice = _RETRY_TEXT.search(_message_of(errors))
    parts = _DURATION.findall(advice[1]) if advice else []
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts) if parts else None


def _number(text: str) -> float | None:
    """Parse a number of seconds; return None for a date, a negative number or NaN."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
