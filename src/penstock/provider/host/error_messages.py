"""What went wrong, in one sentence that says what to do (decision 23).

VS Code shows the sentence as it is, so it has neither JSON nor a stack in it, and of the endpoint's own words
only what a person can read. The client has masked keys in them already.
"""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.errors import DecodeError, OpenResponsesError
from penstock.parts.wire import JSON, error_to_json

BLOCKED, NOT_FOUND, NO_PERMISSIONS = "Blocked", "NotFound", "NoPermissions"
"""The kinds of error that VS Code knows."""

_LONGEST = 300
_FOR_PROGRAMS = re.compile(
    r"\{|^\[|\[[\[{\"']|<[!/?A-Za-z]|\bTraceback\b|\bFile \"[^\"]*\", line \d|(?:^| )at (?:async )?\S+ \("
)
"""Where words for people end: JSON, markup, or a frame of a stack. `tools[3]` and `< 5` are words."""
_LOOSE_END = " .,:;-=([\"'`"
"""What is left hanging where the rest was cut off."""
_REQUEST = re.compile(r" \(request [^()]*\)\.?$")
"""Our gateway names the request for its log; the line has it as a field."""
_SENTENCE_END = re.compile(r"[.?!] +(?=[A-Z])")


class ErrorText(Struct, frozen=True):
    """The kind of a failure and the sentence for it.

    `{said}` is the first sentence of the endpoint's words in brackets, `{reason}` the same without, `{words}`
    all of them; `{key}` names the group's key, `{named}` the model where there is one. A sentence that asks,
    or whose cause is ours to explain, has no words of others: they ask as well, and name settings that an
    editor does not have.
    """

    kind: str
    sentence: str


ERROR_TEXTS: dict[str, ErrorText] = {
    "authentication_error": ErrorText(
        NO_PERMISSIONS, "{endpoint} does not accept {key}: enter it anew{said}"
    ),
    "invalid_key": ErrorText(
        NO_PERMISSIONS, "What is set as {key} cannot be a key: enter it anew, in one line"
    ),
    "permission_denied": ErrorText(
        NO_PERMISSIONS, "With {key} this is not allowed: choose another model or key{said}"
    ),
    "rate_limit_exceeded": ErrorText(BLOCKED, "Too many requests: wait {wait} and try again{said}"),
    "insufficient_quota": ErrorText(
        BLOCKED, "The quota of {key} is spent and waiting does not help: look at the account there{said}"
    ),
    "context_length_exceeded": ErrorText(
        "", "The conversation is too long{length}: start a new one, or attach less"
    ),
    "content_filter": ErrorText(BLOCKED, "A content filter refused this: say it in other words{said}"),
    "invalid_prompt": ErrorText(BLOCKED, "{endpoint} refused the prompt: say it in other words{said}"),
    "model_not_found": ErrorText(
        NOT_FOUND, "There is no model {model} at {endpoint}: choose another one, or refresh the models{said}"
    ),
    "not_found": ErrorText(NOT_FOUND, "Nothing was found at {endpoint}: check its address{named}{said}"),
    "group_not_configured": ErrorText(
        NOT_FOUND, "There is no endpoint for {group}: configure one, and choose its model again"
    ),
    "invalid_base_url": ErrorText("", "The address of {group} cannot be used: {words}"),
    "invalid_config": ErrorText("", "The settings of {group} cannot be used: {words}"),
    "invalid_request": ErrorText(
        "", "The request was refused: {reason}; change the request, or choose another model"
    ),
    "server_is_overloaded": ErrorText(
        BLOCKED, "{endpoint} has too much to do: wait {wait} and try again{said}"
    ),
    "server_error": ErrorText(
        "", "{endpoint} failed: try again, and look at its log if that does not help{said}"
    ),
    "upstream_timeout": ErrorText(
        "", "{endpoint} did not get an answer from the model in time: try again{said}"
    ),
    "network_error": ErrorText("", "The connection to {endpoint} broke: try again{said}"),
    "network_error.connect": ErrorText(
        "", "{endpoint} cannot be reached: is it running, and is the address right{said}?"
    ),
    "network_error.first_byte": ErrorText(
        "", "{endpoint} did not answer in time: try again, or look at its log{said}"
    ),
    "network_error.idle": ErrorText(
        "", "{endpoint} fell silent in the middle of the answer: try again{said}"
    ),
    "certificate_error": ErrorText(
        "", "The certificate of {endpoint} is not trusted: check the address, or trust its authority"
    ),
    "tls_error": ErrorText(
        "", "{endpoint} cannot be reached this way: must its address begin with https:// or with http://?"
    ),
    "proxy_error": ErrorText("", "The proxy before {endpoint} refused: check its settings{said}"),
    "unsupported_proxy": ErrorText("", "The proxy cannot be used: {words}"),
    "redirected": ErrorText("", "{endpoint} is somewhere else now: {words}"),
    "protocol_error": ErrorText("", "{endpoint} sent what is no answer: does it speak the Responses API?"),
    "stream_truncated": ErrorText("", "The answer of {endpoint} broke off: try again{said}"),
    "empty_response": ErrorText("", "{model} gave no answer: try again, or say more{said}"),
    "malformed_tool_call": ErrorText(
        "", "{model} called a tool in a way that cannot be read: try again{said}"
    ),
    "incomplete": ErrorText("", "{model} stopped before there was an answer: try again{said}"),
    "incomplete_length": ErrorText(
        "", "{model} spent its output tokens before there was an answer: allow more, or lower its effort"
    ),
}
"""By the code of the error and its phase, by the code, by its kind and phase, or by its kind."""


class ErrorContext(Struct, frozen=True):
    """Where it happened, in words."""

    endpoint: str = "the endpoint"
    group: str = ""
    model: str = ""


def failure_line(error: OpenResponsesError, context: ErrorContext) -> JSON:
    text = _text_of(error)
    return {
        **error_to_json(error),
        "kind": text.kind,
        "name": type(error).__name__,
        "message": _sentence(error, text, context),
    }


def known_code(error: OpenResponsesError) -> str:
    """Our word for a failure: the endpoint's own may be anything, and is not for the log."""
    return error.code if error.code in ERROR_TEXTS else error.default_code


def wrong_line(error: DecodeError) -> JSON:
    """A request that cannot be read."""
    return _own("invalid_request", "DecodeError", _ended(f"The request cannot be read: {error}"))


def fault_line(error: BaseException) -> JSON:
    """A fault of ours. What it was about may be a secret, so only its kind is told."""
    message = f"Penstock failed ({type(error).__name__}): restart the provider, and report it with its log"
    return _own("internal_error", "InternalError", _ended(message))


def notice_line(code: str, message: str) -> JSON:
    """A line that is no request, or cannot be one."""
    return {"type": "error", "code": code, "message": _ended(message)}


def _own(code: str, name: str, message: str) -> JSON:
    return {"type": "error", "code": code, "kind": "", "name": name, "message": message}


def _text_of(error: OpenResponsesError) -> ErrorText:
    kind, phase = error.default_code, error.phase
    codes = (f"{error.code}.{phase}", error.code, f"{kind}.{phase}", kind)
    return next(ERROR_TEXTS[code] for code in codes if code in ERROR_TEXTS)


def _sentence(error: OpenResponsesError, text: ErrorText, context: ErrorContext) -> str:
    words = _readable(error.message)
    first = _SENTENCE_END.split(words, maxsplit=1)[0].rstrip(".?! ")
    silent = "it does not say why"
    whose = f"the group “{context.group}”" if context.group else "the endpoint"
    filled = text.sentence.format(
        words=words or silent,
        reason=first or silent,
        said=_in_brackets(first),
        endpoint=context.endpoint,
        key=f"the key of {whose}",
        group=whose,
        model=context.model or "the model",
        named=f" and the name {context.model}" if context.model else "",
        wait=_duration(error.retry_after),
        length=_length(error),
    )
    return _ended(filled)


def _in_brackets(words: str) -> str:
    """In brackets there are no others: what stood in them stands between commas."""
    flat = re.sub(r"[ ,]*[()][(), ]*", ", ", words.replace("()", ""))
    flat = re.sub(r", (?=[.;:!?])", "", flat).strip(", ")
    return f" ({flat})" if flat else ""


def _readable(words: str) -> str:
    """One line without its full stop, up to where it is for programs."""
    line = "".join(each if each.isprintable() else " " for each in words)
    line = _REQUEST.sub("", " ".join(line.split())).rstrip(". ")
    if found := _FOR_PROGRAMS.search(line):
        line = line[: found.start()].rstrip(_LOOSE_END)
        if " " not in line:  # "Error:", and then what the error was
            return ""
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _ended(sentence: str) -> str:
    if sentence.startswith("the "):  # names and addresses stay as they are
        sentence = f"The {sentence[4:]}"
    return sentence if sentence.endswith(("?", ".", "…")) else f"{sentence}."


def _length(error: OpenResponsesError) -> str:
    used, limit = error.used_tokens, error.limit_tokens
    if used and limit:
        return f" (it has {used:,} tokens, and the model takes {limit:,})"
    return f" (the model takes {limit:,} tokens)" if limit else ""


def _duration(seconds: float | None) -> str:
    if not seconds:
        return "a little"
    if seconds < 120:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{round(seconds / 3600)} h"
