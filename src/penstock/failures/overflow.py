"""Reads the token counts of a context overflow. The limit is learned, so a doubtful number is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from penstock.lenient import count_of

_COUNT = r"(\d{1,3}(?:,\d{3})+|\d{1,9})(?!\w|[.,]\d)"
_NUMBER = re.compile(rf"(\b(?:id|code|error|status|port)\b[ :=#(]{{0,3}})?(?<![\w.-]){_COUNT}(?!-(?!token))")
"""A number that is a word of its own, and not part of a request id; with the word that makes it a code."""
_OWN = re.compile(r"\((?:(\d{1,15}) tokens; )?the limit is (\d{1,15}) tokens\)")
_SUM = re.compile(rf"{_COUNT} \+ {_COUNT} > {_COUNT}")
_REFUSED = (
    r"(?!\)?(?: tokens?)?[),]{0,2} (?:exceeds?\b|>|is (?:too|longer|larger|greater|more|over|above)\b))"
)
"""A number before these words is the size that was refused."""
_WORDS = r"(?:(?!output|completion|generat|exceed|new\b|per\b|by\b)[a-z ]){0,20}"
"""A few words between "limit" and its number. With these, the number is another limit, the size that was
refused, or the excess."""
_IS = rf"{_WORDS}[(:]? ?{_COUNT}{_REFUSED}"
_MAX = r"(?<!output )(?<!completion )(?:limit|allowed|maximum|max)"
_LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"context[ -](?:length|size|window){_IS}",
        rf"{_MAX} (?:prompt|input)[ -](?:length|size|window){_IS}",
        rf"(?<![\w.,-]){_COUNT} (?:tokens )?maximum",
        rf"(?<![\w.,-]){_COUNT}[ -]tokens? (?:limit|context|window)",
        rf"{_MAX}{_IS}",
        rf"(?:(?:cannot|must not|may not) exceed|must be <=|less than) {_COUNT}",
        rf"> {_COUNT}",
        rf"range of input length should be \[\d+, ?{_COUNT}\]",
    )
)
"""How a message names the limit, the most specific way first."""
_RANGE = _LIMITS[-1]
"""Qwen's way. It is about tokens, although it does not say so."""
_NOT_TOKENS = re.compile(
    r"characters?\b|\bbytes?\b|\d ?[kmg]i?b\b|string too long|per (?:minute|hour|day)\b|\b[tr]p[mdh]\b",
    re.IGNORECASE,
)
"""The numbers of such a message are not tokens of a conversation: a size in bytes, or a rate limit."""
_OTHER_UNITS = re.compile(
    r"\b(?:body|payload|entity|images?|attachments?|files?|items|array)\b|"
    r"(?:many|number of|max|maximum|limit of|\d) messages\b|\bmessages (?:limit|allowed|count)\b",
    re.IGNORECASE,
)
"""The numbers of such a message count something else, unless it says that they are tokens."""
_CONVERSATION = re.compile(r"token|context|prompt|input|length of the messages", re.IGNORECASE)
"""A message without these is about something else: in a 413, about the bytes of the request."""
_TOKENS = re.compile(r"\btokens?\b", re.IGNORECASE)
_BEFORE, _AFTER = 40, 10
"""How many characters around the limit may contain the word "tokens"."""
_URL = re.compile(r"https?://\S+")


def token_counts(errors: list[dict[str, Any]], message: str) -> tuple[int | None, int | None]:
    """Return the token limit and the tokens used, as far as the vendor reports them.

    llama.cpp has fields for both. In a text the largest number is the tokens used: it caused the overflow. A
    number is the limit only if a larger one was refused, or if it is called tokens: others are error codes.
    """
    for error in errors:
        limit, used = count_of(error.get("n_ctx")), count_of(error.get("n_prompt_tokens"))
        if limit is not None and limit > 0:
            return limit, used if used is not None and used > 0 else None
    if own := _OWN.findall(message):
        used, limit = own[-1]
        return int(limit), int(used) if used else None
    if added := _SUM.search(message):  # Anthropic: input tokens + max_tokens > limit
        used, reserved, limit = map(_count, added.groups())
        return limit, used + reserved
    return (None, None) if _NOT_TOKENS.search(message) else _stated_counts(_URL.sub("", message))


def with_counts(message: str, limit: int | None, used: int | None, max_length: int) -> str:
    """Return a message from which the counts can be read: the client of a gateway has only the message."""
    if limit is None or token_counts([], message) == (limit, used):
        return message
    size = f"{used} tokens; " if used is not None else ""
    counts = f" ({size}the limit is {limit} tokens)"
    return message[: max_length - len(counts)] + counts


def _stated_counts(message: str) -> tuple[int | None, int | None]:
    numbers = (_count(number) for word, number in _NUMBER.findall(message) if not word)
    largest = max(numbers, default=0)
    is_about_tokens = _CONVERSATION.search(message) and not _OTHER_UNITS.search(message)
    called_tokens: int | None = None
    for limit, is_called_tokens in _candidates(message):
        if limit < largest and (is_called_tokens or is_about_tokens):
            return limit, largest
        if is_called_tokens and called_tokens is None:
            called_tokens = limit
    return called_tokens, None


def _candidates(message: str) -> Iterator[tuple[int, bool]]:
    """Yield every number that may be the limit, the most likely first, and whether it is called tokens."""
    for pattern in _LIMITS:
        found = []
        for match in pattern.finditer(message):
            around = message[max(match.start() - _BEFORE, 0) : match.end() + _AFTER]
            found.append((_count(match[1]), pattern is _RANGE or _TOKENS.search(around) is not None))
        yield from sorted(found)


def _count(digits: str) -> int:
    return int(digits.replace(",", ""))
