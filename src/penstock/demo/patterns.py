"""Write a text that matches the regular expression of a schema.

Patterns come from requests, so they are never given to Python's `re`: a short hostile pattern can keep it
busy for years. This supports literals, classes, groups, alternatives, repetitions, and the anchors `^` and
`$` outside of groups. Lookarounds, back references and word boundaries are not supported.
"""

from __future__ import annotations

import re

_MAX_PATTERN = 1000
_MAX_TEXT = 2000
_MAX_DEPTH = 30
_EXTRA_REPEATS = (0, 1, 3, 7, 15, 31, 63)
"""How often a repetition is written beyond its minimum, to reach a minimum length."""

_TOKEN = re.compile(r"\\x..|\\u....|\\.|\(\?:|\[(?:\\.|[^\]])*\]|\{\d{1,6}(?:,\d{0,6})?\}|.", re.DOTALL)
_MEMBER = re.compile(r"(\\x..|\\u....|\\.|.)(?:-(\\x..|\\u....|\\.|.))?", re.DOTALL)
_REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_PLAIN = f"{_WORD}-. /:@#+"
"""Characters to choose from where a class allows many, the plainest first."""
_ESCAPES = {
    "d": "0123456789",
    "w": _WORD,
    "s": " ",
    "S": _PLAIN.replace(" ", ""),
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


class UnsupportedPatternError(Exception):
    """The pattern uses something outside the supported subset."""


def write_match(pattern: str, *, variant: int = 0, minimum: int = 0, maximum: int = _MAX_TEXT) -> str | None:
    """Return a text of `minimum` to `maximum` characters that matches, or None if none was found.

    Different variants give different texts where the pattern allows it.
    """
    try:
        texts = (_Writer(pattern, variant, extra).write() for extra in _EXTRA_REPEATS)
        return next((text for text in texts if minimum <= len(text) <= maximum), None)
    except UnsupportedPatternError:
        return None


class _Writer:
    def __init__(self, pattern: str, variant: int, extra: int) -> None:
        if len(pattern) > _MAX_PATTERN:
            raise UnsupportedPatternError("the pattern is too long")
        self._tokens: list[str] = [*_TOKEN.findall(pattern), ""]
        self._at = 0
        self._depth = 0
        self._variant = variant
        self._extra = extra

    def write(self) -> str:
        text = self._alternatives()
        if self._tokens[self._at]:
            raise UnsupportedPatternError("a group is closed that was not opened")
        return text

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _alternatives(self) -> str:
        texts = [self._sequence()]
        while self._tokens[self._at] == "|":
            self._at += 1
            texts.append(self._sequence())
        return texts[self._variant % len(texts)]

    def _sequence(self) -> str:
        text = ""
        self._at += self._tokens[self._at] == "^" and not self._depth
        while (token := self._tokens[self._at]) not in ("", "|", ")"):
            if token == "$" and self._tokens[self._at + 1] in ("", "|") and not self._depth:
                self._at += 1
                break
            text += self._repeated(self._atom())
            if len(text) > _MAX_TEXT:
                raise UnsupportedPatternError("the text would be too long")
        return text

    def _atom(self) -> str:
        token = self._next()
        if token in ("(", "(?:"):
            self._depth += 1
            if self._tokens[self._at] == "?" or self._depth > _MAX_DEPTH:
                raise UnsupportedPatternError("only plain and non-capturing groups are supported")
            text = self._alternatives()
            self._depth -= 1
            if self._next() != ")":
                raise UnsupportedPatternError("a group is not closed")
            return text
        if token in ("*", "+", "?", "^", "$", "[") or (token[0] == "{" and len(token) > 1):
            raise UnsupportedPatternError(f"{token!r} is not supported here")
        choices = _PLAIN if token == "." else _class(token) if token[0] == "[" else _characters(token)
        return choices[self._variant % len(choices)]

    def _repeated(self, text: str) -> str:
        token = self._tokens[self._at]
        if token[:1] == "{" and len(token) > 1:
            low, comma, high = token[1:-1].partition(",")
            minimum, maximum = int(low), int(high) if high else (None if comma else int(low))
        elif token in _REPEATS:
            minimum, maximum = _REPEATS[token]
        else:
            return text
        self._at += 1
        self._at += self._tokens[self._at] == "?"  # a lazy repetition matches the same texts
        count = minimum + self._extra if maximum is None else min(minimum + self._extra, maximum)
        if count < minimum or len(text) * count > _MAX_TEXT:
            raise UnsupportedPatternError("the text would be too long")
        return text * count


def _class(token: str) -> str:
    """Return characters of a class such as `[a-z_]` or `[^0-9]`, the plainest first."""
    is_negated = token[1] == "^"
    members = ""
    for first, last in _MEMBER.findall(token[1 + is_negated : -1]):
        if not last:
            members += _characters(first)
            continue
        low, high = _characters(first), _characters(last)
        if len(low) != 1 or len(high) != 1 or low > high:
            raise UnsupportedPatternError("a range without two ends")
        members += "".join(map(chr, range(ord(low), min(ord(high), ord(low) + 127) + 1)))
    choices = "".join(each for each in _PLAIN if (each in members) != is_negated)
    if not choices and (is_negated or not members):
        raise UnsupportedPatternError("a class without a character to write")
    return choices or members


def _characters(token: str) -> str:
    """Return the characters that one token stands for, such as `a`, `\\.`, `\\d` or `\\u00e9`."""
    if token[0] != "\\":
        return token
    name = token[1:]
    if len(name) > 1 and re.fullmatch(r"[xu][0-9a-fA-F]+", name):
        return chr(int(name[1:], 16))
    if name in _ESCAPES:
        return _ESCAPES[name]
    if not name or name.isalnum():
        raise UnsupportedPatternError(f"{token!r} is not supported")
    return name
