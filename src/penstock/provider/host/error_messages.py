"""Describe an error in one sentence that says what to do (decision 23).

VS Code shows the sentence unchanged, so it contains no JSON and no stack trace, and only the readable part of
the endpoint's message. The client has already masked the key that it sent; other keys are masked here.
"""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.errors import DecodeError, NetworkError, OpenResponsesError
from penstock.likely_secrets import mask_likely_secrets
from penstock.net.network_errors import scheme_in
from penstock.parts.wire import JSON, error_to_json
from penstock.provider.wording import overflow_size, wait_of

BLOCKED, NOT_FOUND, NO_PERMISSIONS = "Blocked", "NotFound", "NoPermissions"
"""The kinds of errors in VS Code's API."""

_MAX_LENGTH = 300
_MAX_READ = 20_000
"""The characters of a text to look at: a message may be a whole page."""
_CODE = re.compile(r"[\w.:-]{1,80}")
_NOT_READABLE = re.compile(
    r"\{|^\[|\[[\[{\"']|<[!/?A-Za-z]|\bTraceback\b|\bFile \"[^\"]*\", line \d|(?:^| )at (?:async )?\S+ \("
)
"""Where the readable text ends: JSON, markup or a stack frame. `tools[3]` and `< 5` are readable."""
_TRAILING = " .,:;-=([\"'`"
"""Characters to strip where the text was cut off."""
_REQUEST_ID = re.compile(r" \(request [^()]*\)\.?$")
"""Our gateway appends the request id; the line has it in a field."""
_UPSTREAM = "upstream"
"""The phase of an error that the endpoint reported: a failed connection was not ours, but its own."""
_SENTENCE_END = re.compile(r"[.?!] +(?=[A-Z])")


class ErrorText(Struct, frozen=True):
    """The kind of an error and the sentence for it.

    `{detail}` is the first sentence of the endpoint's message in brackets, `{reason}` the same without
    brackets, `{message}` the full message, `{cause}` its part before the remedy. `{key}` is the group's key,
    `{and_model}` the model if there is one. A sentence that asks a question, or that explains the cause
    itself, does not quote the endpoint: its message may mention settings that an editor does not have.
    """

    kind: str
    sentence: str


_NOT_THE_MODEL = ErrorText("", "{endpoint} was reached, but not the model: {message}")

ERROR_TEXTS: dict[str, ErrorText] = {
    "authentication_error": ErrorText(
        NO_PERMISSIONS, "{endpoint} does not accept {key}: enter the key again{detail}"
    ),
    "invalid_key": ErrorText(NO_PERMISSIONS, "{key} is not valid: enter it again, as a single line"),
    "permission_denied": ErrorText(
        NO_PERMISSIONS, "{key} does not have permission for this request: choose another model or key{detail}"
    ),
    "upstream_unauthorized": ErrorText(
        NO_PERMISSIONS, "{endpoint} was reached, but cannot use the model: {message}"
    ),
    "upstream_forbidden": ErrorText(
        NO_PERMISSIONS, "{endpoint} was reached, but may not use the model: {message}"
    ),
    "upstream_not_found": _NOT_THE_MODEL,
    "rate_limit_exceeded": ErrorText(BLOCKED, "Too many requests: wait {wait} and try again{detail}"),
    "insufficient_quota": ErrorText(
        BLOCKED, "The quota of {key} is used up, and waiting does not help: check the account{detail}"
    ),
    "budget_exceeded": ErrorText(BLOCKED, "The budget of {key} is used up{detail}"),
    "context_length_exceeded": ErrorText(
        "", "The conversation is too long{length}: {retry}start a new one, or attach less"
    ),
    "content_filter": ErrorText(BLOCKED, "A content filter rejected this: rephrase it{detail}"),
    "invalid_prompt": ErrorText(BLOCKED, "{endpoint} rejected the prompt: rephrase it{detail}"),
    "encrypted_content_unreadable": ErrorText(
        "",
        "The conversation has messages that only another vendor's models can read: start a new one{detail}",
    ),
    "model_not_found": ErrorText(
        NOT_FOUND, "{endpoint} has no model {model}: choose another model, or refresh the models{detail}"
    ),
    "not_found": ErrorText(NOT_FOUND, "{endpoint} was not found: check the URL{and_model}{detail}"),
    "group_not_configured": ErrorText(
        NOT_FOUND, "{group} is not configured: configure it, and select its model again"
    ),
    "invalid_base_url": ErrorText("", "The URL of {group} is not valid: {message}"),
    "invalid_config": ErrorText("", "The settings of {group} are not valid: {message}"),
    "invalid_request": ErrorText(
        "", "The request was rejected: {reason}; change the request, or choose another model"
    ),
    "server_is_overloaded": ErrorText(BLOCKED, "{endpoint} is overloaded: wait {wait} and try again{detail}"),
    "server_error": ErrorText(
        "", "{endpoint} failed: try again, and check its log if that does not help{detail}"
    ),
    "upstream_timeout": ErrorText(
        "", "{endpoint} did not get an answer from the model in time: try again{detail}"
    ),
    "network_error": ErrorText("", "The connection to {endpoint} was lost: try again{detail}"),
    "network_error.connect": ErrorText(
        "", "{endpoint} cannot be reached: is it running, and is the URL correct{detail}?"
    ),
    "network_error.first_byte": ErrorText(
        "", "{endpoint} did not answer in time: try again, or check its log{detail}"
    ),
    "network_error.idle": ErrorText(
        "", "{endpoint} stopped sending in the middle of the answer: try again{detail}"
    ),
    "certificate_error": ErrorText(
        "", "The certificate of {endpoint} is not trusted: check the URL, or trust its certificate authority"
    ),
    "tls_error": ErrorText(
        "", "The TLS connection to {endpoint} failed: should its URL begin with http:// or https://?"
    ),
    # The remedy comes first, because VS Code shows only the beginning of an error of the list of models.
    "tls_error.https": ErrorText("", "Use https:// instead of http://: {cause}"),
    "tls_error.http": ErrorText("", "Use http:// instead of https://: {cause}"),
    "proxy_error": ErrorText(
        "", "The proxy for {endpoint} refused the connection: check the proxy settings{detail}"
    ),
    "certificate_error.upstream": _NOT_THE_MODEL,
    "tls_error.upstream": _NOT_THE_MODEL,
    "proxy_error.upstream": _NOT_THE_MODEL,
    "unsupported_proxy": ErrorText("", "The proxy cannot be used: {message}"),
    "redirected": ErrorText("", "{endpoint} has moved: {message}"),
    "protocol_error": ErrorText(
        "", "{endpoint} did not send a valid answer: does it support the Responses API?"
    ),
    "no_event_stream": ErrorText("", "{endpoint} is not an API: {message}"),
    "no_json_document": ErrorText("", "{endpoint} is not an API: {message}"),
    "stream_truncated": ErrorText("", "The answer from {endpoint} was cut off: try again{detail}"),
    "empty_response": ErrorText("", "{model} gave no answer: try again, or add details{detail}"),
    "malformed_tool_call": ErrorText("", "{model} sent a malformed tool call: try again{detail}"),
    "incomplete": ErrorText("", "{model} stopped before it answered: try again{detail}"),
    "incomplete_length": ErrorText(
        "",
        "{model} reached the limit on output tokens before it answered: raise it, or lower the effort",
    ),
}
"""By the error code and phase, by the code, by the kind and phase, or by the kind."""


class ErrorContext(Struct, frozen=True):
    """Where the error happened, for people."""

    endpoint: str = "the endpoint"
    group: str = ""
    model: str = ""
    as_text: bool = False
    """Whether a failed turn also sends its error as text."""


def failure_line(error: OpenResponsesError, context: ErrorContext) -> JSON:
    # The code is the endpoint's, and may be any text.
    code = error.code if _CODE.fullmatch(error.code) else error.default_code
    return {
        **error_to_json(error),
        "code": mask_likely_secrets(code),
        "kind": _text_of(error).kind,
        "name": type(error).__name__,
        "message": error_sentence(error, context),
        **({"as_text": True} if context.as_text else {}),
    }


def known_code(error: OpenResponsesError) -> str:
    """Return our own code for an error. The endpoint's code can be any text, so it is not logged."""
    return error.code if error.code in ERROR_TEXTS else error.default_code


def invalid_request_line(error: DecodeError) -> JSON:
    """Return the line for a request that cannot be read."""
    return _own_error(
        "invalid_request", "DecodeError", _with_full_stop(f"The request cannot be read: {error}")
    )


def internal_error_line(error: BaseException) -> JSON:
    """Return the line for an internal error. Its message may contain a secret, so only the type is shown."""
    message = (
        f"Penstock failed ({type(error).__name__}): restart the provider, and report the error with its log"
    )
    return _own_error("internal_error", "InternalError", _with_full_stop(message))


def notice_line(code: str, message: str) -> JSON:
    """Return the line for input that is not a valid request."""
    return {"type": "error", "code": code, "message": _with_full_stop(message)}


def _own_error(code: str, name: str, message: str) -> JSON:
    return {"type": "error", "code": code, "kind": "", "name": name, "message": message}


def _text_of(error: OpenResponsesError) -> ErrorText:
    kind, phase = error.default_code, _UPSTREAM
    if isinstance(error, NetworkError):
        phase = scheme_in(error.message) or error.phase or ""
    codes = (f"{error.code}.{phase}", error.code, f"{kind}.{phase}", kind)
    return next(ERROR_TEXTS[code] for code in codes if code in ERROR_TEXTS)


def error_sentence(error: OpenResponsesError, context: ErrorContext) -> str:
    """Return one sentence that says what happened and what to do."""
    text = _text_of(error)
    readable = _readable(error.message)
    first = _SENTENCE_END.split(readable, maxsplit=1)[0].rstrip(".?! ")
    no_reason = "no reason given"
    group = f"the group “{context.group}”" if context.group else "the endpoint"
    filled = text.sentence.format(
        message=readable or no_reason,
        cause=readable.partition(": use ")[0],
        reason=first or no_reason,
        detail=_in_brackets(first),
        endpoint=context.endpoint,
        key=f"the key of {group}",
        group=group,
        model=context.model or "the model",
        and_model=f" and the model name {context.model}" if context.model else "",
        wait=wait_of(error.retry_after),
        length=f" ({size})" if (size := overflow_size(error)) else "",
        retry="try again, " if error.is_limit_learned else "",
    )
    return _with_full_stop(filled)


def _in_brackets(text: str) -> str:
    """Return the text in brackets, with its own brackets replaced by commas."""
    flat = re.sub(r"[ ,]*[()][(), ]*", ", ", text.replace("()", ""))
    flat = re.sub(r", (?=[.;:!?])", "", flat).strip(", ")
    return f" ({flat})" if flat else ""


def brief(text: str) -> str:
    """Return a text of an endpoint or model as one short line without what looks like a secret."""
    return _shortened(_one_line(text))


def _one_line(text: str) -> str:
    line = "".join(each if each.isprintable() else " " for each in text[:_MAX_READ])
    return mask_likely_secrets(" ".join(line.split()))


def _shortened(line: str) -> str:
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"


def _readable(message: str) -> str:
    """Return the readable part of a message as one line without a full stop."""
    line = _REQUEST_ID.sub("", _one_line(message)).rstrip(". ")
    if found := _NOT_READABLE.search(line):
        line = line[: found.start()].rstrip(_TRAILING)
        if " " not in line:  # for example "Error:" before JSON
            return ""
    return _shortened(line)


def _with_full_stop(sentence: str) -> str:
    if sentence.startswith("the "):  # names and URLs stay unchanged
        sentence = f"The {sentence[4:]}"
    return sentence if sentence.endswith(("?", ".", "…")) else f"{sentence}."
