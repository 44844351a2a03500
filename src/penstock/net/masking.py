"""What must not be told. Servers repeat the key that they were given, so every text of theirs goes through
here before it is cut, logged or put in an exception."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

import msgspec
from msgspec import Struct
from msgspec.structs import replace

_TELLING = ("authorization", "cookie", "key", "token", "secret", "password")
_MAY_TELL = ("auth", "session", "credential")
"""Words in the names of headers. The second have a secret only where it is long: `x-auth-mode: api`."""
_MASK = b"[key]"
_PLACEHOLDER = 8
"""A shorter key is a placeholder, for servers that want none, and may be a word of the protocol: `error`."""


class Secrets:
    """Held for as long as an answer is read; it shows nothing of itself."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
        self._spellings = sorted(spellings, key=len, reverse=True)
        self._sure = [spelling for spelling in self._spellings if len(spelling) >= _PLACEHOLDER]

    def mask(self, text: str) -> str:
        return _masked(text, self._spellings)

    def mask_body(self, body: bytes) -> bytes:
        """The same body without the secrets. JSON is searched value by value: its text has many ways to write
        one character, and the names of its fields are needed to read it."""
        try:
            return msgspec.json.encode(self._mask_value(msgspec.json.decode(body), self._spellings))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.mask(body.decode("utf-8", "replace")).encode()

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        """One read without the secrets; `before` has the end of what was read before it, as it came.

        A placeholder stays: it may be any word. Of a secret that is cut, its first few characters may.
        """
        for spelling in self._sure:
            secret = spelling.encode("utf-8", "surrogatepass")
            data = _without_end(data, before, secret).replace(secret, _MASK)
            data = _without_beginning(data, secret)
        return data

    def mask_value(self, value: Any) -> Any:
        """The same value without the secrets, wherever there is text in it; itself where there are none.

        A placeholder stays: this is not only for messages, and a name may hold such a word.
        """
        if isinstance(value, str):
            return _masked(value, self._sure)
        if isinstance(value, Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            masked = {name: self.mask_value(each) for name, each in fields.items()}
            changed = {name: each for name, each in masked.items() if each is not fields[name]}
            return replace(value, **changed) if changed else value
        if isinstance(value, list):
            items = [self.mask_value(each) for each in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if isinstance(value, dict):
            entries = self._mask_value(value, self._sure)
            return value if entries == value else entries
        return value

    def mask_event(self, event: dict[str, Any], kept: str = "type") -> dict[str, Any]:
        """The same event without the secrets. A placeholder stays: what kind of failure this is will be read
        from the words that may hold it. What the model wrote stays too: it was given out before, as it came.
        """
        masked: dict[str, Any] = {}
        for name, value in event.items():
            if name == kept:
                masked[name] = value
            elif name == "response" and isinstance(value, dict):
                masked[name] = self.mask_event(value, kept="output")
            else:
                masked[_masked(name, self._sure)] = self._mask_value(value, self._sure)
        return masked

    def _mask_value(self, value: Any, spellings: list[str]) -> Any:
        if isinstance(value, str):
            return _masked(value, spellings)
        if isinstance(value, list):
            return [self._mask_value(each, spellings) for each in value]
        if isinstance(value, dict):
            return {
                _masked(name, self._sure): self._mask_value(each, spellings) for name, each in value.items()
            }
        return value


def secrets_in(headers: Mapping[str, str]) -> Iterable[str]:
    """The values of headers that carry a secret by their name, also without the scheme before it."""
    for name, value in headers.items():
        words = _TELLING if len(value) < _PLACEHOLDER else _TELLING + _MAY_TELL
        if any(word in name.lower() for word in words):
            yield value
            yield value.partition(" ")[2]


def secrets_of(values: Iterable[str]) -> Iterable[str]:
    """The values that are known to be secrets, also without the scheme before them.

    One that is too short is left out: it would be masked in every word that happens to have it.
    """
    for value in values:
        for each in (value, value.partition(" ")[2]):
            if len(each) >= _PLACEHOLDER:
                yield each


def secrets_in_query(query: str) -> Iterable[str]:
    """The values of a query that may be a key, as they are written and as they are meant. A version is none,
    and a message about it should show it."""
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        value = value or name  # a key may stand there without a name
        if len(value) >= _PLACEHOLDER and not name.lower().endswith("version"):
            yield value
            yield unquote_plus(value)


def _without_end(data: bytes, before: bytes, secret: bytes) -> bytes:
    """Without the rest of a secret that the read before has begun."""
    longest = len(secret) - 1 if _may_begin(before, secret) else _PLACEHOLDER - 1
    for size in range(longest, 0, -1):
        if not before.endswith(secret[:size]):
            continue
        rest = secret[size:]
        if data.startswith(rest):
            left = data[len(rest) :]
            # Nothing for what was masked with its beginning; but an empty read is the end of an answer.
            return left if left and size >= _PLACEHOLDER else _MASK + left
        if rest.startswith(data) and size + len(data) >= _PLACEHOLDER:
            return _MASK
    return data


def _without_beginning(data: bytes, secret: bytes) -> bytes:
    """Without the beginning of a secret that the next read may go on with."""
    longest = len(secret) - 1 if _may_begin(data, secret) else 0
    for size in range(longest, _PLACEHOLDER - 1, -1):
        if data.endswith(secret[:size]):
            return data[:-size] + _MASK
    return data


def _may_begin(data: bytes, secret: bytes) -> bool:
    """Hardly ever: it saves the search for every length of a long secret in every read."""
    return secret[:_PLACEHOLDER] in data[-len(secret) :]


def _masked(text: str, spellings: list[str]) -> str:
    for spelling in spellings:
        text = text.replace(spelling, "[key]")
    for spelling in spellings:
        beginning = spelling[: max(_PLACEHOLDER, (len(spelling) + 1) // 2)]
        if len(spelling) > _PLACEHOLDER and beginning in text and " " not in spelling:
            text = _without_cut(text, spelling, beginning)
    return text


def _without_cut(text: str, spelling: str, beginning: str) -> str:
    """Without what is left of a secret in a message that was cut in the middle of it: half of it, or more."""
    start = 0
    while (start := text.find(beginning, start)) >= 0:
        end = start + len(beginning)
        while end < len(text) and end - start < len(spelling) and text[end] == spelling[end - start]:
            end += 1
        text = f"{text[:start]}[key]{text[end:]}"
        start += len("[key]")
    return text


def _spellings(secret: str) -> Iterable[str]:
    """As it is, in JSON, in the JSON of those who escape the slash, in a URL, and in a web page."""
    in_json = json.dumps(secret)[1:-1]
    in_url = (quote(secret), quote(secret, safe=""), quote_plus(secret))
    return secret, in_json, in_json.replace("/", "\\/"), *in_url, escape(secret)
