"""Masks secrets. Servers repeat the key that they were sent, so every text from a server is masked before it
is truncated, logged or used in an exception."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

import msgspec
from msgspec import Struct
from msgspec.structs import replace

_SECRET_NAMES = ("authorization", "cookie", "key", "token", "secret", "password")
_LIKELY_SECRET_NAMES = ("auth", "session", "credential")
"""Words in header names. With these, only a long value is a secret: `x-auth-mode: api` has none."""
_MASK = b"[key]"
_PLACEHOLDER = 8
"""Characters. A shorter key is a placeholder for servers without keys, and may be a common word: `error`."""


class Secrets:
    """The secrets of one request, for as long as its response is read. Its repr does not show them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
        self._spellings = sorted(spellings, key=len, reverse=True)
        self._long_spellings = [spelling for spelling in self._spellings if len(spelling) >= _PLACEHOLDER]

    def mask(self, text: str) -> str:
        return _masked(text, self._spellings)

    def mask_body(self, body: bytes) -> bytes:
        """Mask a body. JSON is masked value by value: a character can be written in many ways in its text,
        and its field names are needed to read it."""
        try:
            return msgspec.json.encode(self._mask_value(msgspec.json.decode(body), self._spellings))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.mask(body.decode("utf-8", "replace")).encode()

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        """Mask one read; `before` is the unmasked end of the previous read.

        Placeholders are not masked: they may be any word. If a secret is split between reads, its first few
        characters may remain.
        """
        for spelling in self._long_spellings:
            secret = spelling.encode("utf-8", "surrogatepass")
            data = _without_end(data, before, secret).replace(secret, _MASK)
            data = _without_beginning(data, secret)
        return data

    def mask_value(self, value: Any) -> Any:
        """Mask all text in a value; return the value itself if there is no secret in it.

        Placeholders are not masked: a name may contain such a word.
        """
        if isinstance(value, str):
            return _masked(value, self._long_spellings)
        if isinstance(value, Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            masked = {name: self.mask_value(each) for name, each in fields.items()}
            changed = {name: each for name, each in masked.items() if each is not fields[name]}
            return replace(value, **changed) if changed else value
        if isinstance(value, list):
            items = [self.mask_value(each) for each in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if isinstance(value, dict):
            entries = self._mask_value(value, self._long_spellings)
            return value if entries == value else entries
        return value

    def mask_event(self, event: dict[str, Any], unmasked: str = "type") -> dict[str, Any]:
        """Mask an event. Placeholders are not masked: the failure is classified by words that may contain
        them. The model's output is not masked either: it was delivered unchanged before.
        """
        masked: dict[str, Any] = {}
        for name, value in event.items():
            if name == unmasked:
                masked[name] = value
            elif name == "response" and isinstance(value, dict):
                masked[name] = self.mask_event(value, unmasked="output")
            else:
                masked[_masked(name, self._long_spellings)] = self._mask_value(value, self._long_spellings)
        return masked

    def _mask_value(self, value: Any, spellings: list[str]) -> Any:
        if isinstance(value, str):
            return _masked(value, spellings)
        if isinstance(value, list):
            return [self._mask_value(each, spellings) for each in value]
        if isinstance(value, dict):
            return {
                _masked(name, self._long_spellings): self._mask_value(each, spellings)
                for name, each in value.items()
            }
        return value


def secrets_in(headers: Mapping[str, str]) -> Iterable[str]:
    """Yield the values of headers whose name indicates a secret, with and without the scheme before it."""
    for name, value in headers.items():
        if _is_secret(name, len(value) >= _PLACEHOLDER):
            yield value
            yield value.partition(" ")[2]


@lru_cache(512)
def _is_secret(name: str, is_long: bool) -> bool:
    words = _SECRET_NAMES + _LIKELY_SECRET_NAMES if is_long else _SECRET_NAMES
    return any(word in name.lower() for word in words)


def secrets_of(values: Iterable[str]) -> Iterable[str]:
    """Yield values that are known to be secrets, with and without the scheme before them.

    Short values are left out: they would be masked in every word that contains them.
    """
    for value in values:
        for secret in (value, value.partition(" ")[2]):
            if len(secret) >= _PLACEHOLDER:
                yield secret


def secrets_in_query(query: str) -> Iterable[str]:
    """Yield the values of a query that may be a key, encoded and decoded. A version is not a key, and
    messages about it should show it."""
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        value = value or name  # a key may have no parameter name
        if len(value) >= _PLACEHOLDER and not name.lower().endswith("version"):
            yield value
            yield unquote_plus(value)


def _without_end(data: bytes, before: bytes, secret: bytes) -> bytes:
    """Remove the rest of a secret that began in the previous read."""
    longest = len(secret) - 1 if _may_begin(before, secret) else _PLACEHOLDER - 1
    for size in range(longest, 0, -1):
        if not before.endswith(secret[:size]):
            continue
        rest = secret[size:]
        if data.startswith(rest):
            left = data[len(rest) :]
            # The mask is already in place of its beginning; but an empty read would mean the end of the body.
            return left if left and size >= _PLACEHOLDER else _MASK + left
        if rest.startswith(data) and size + len(data) >= _PLACEHOLDER:
            return _MASK
    return data


def _without_beginning(data: bytes, secret: bytes) -> bytes:
    """Remove the beginning of a secret that may continue in the next read."""
    longest = len(secret) - 1 if _may_begin(data, secret) else 0
    for size in range(longest, _PLACEHOLDER - 1, -1):
        if data.endswith(secret[:size]):
            return data[:-size] + _MASK
    return data


def _may_begin(data: bytes, secret: bytes) -> bool:
    """Return whether a secret may begin near the end. Usually it does not, which saves a slow search."""
    return secret[:_PLACEHOLDER] in data[-len(secret) :]


def _masked(text: str, spellings: list[str]) -> str:
    for spelling in spellings:
        text = text.replace(spelling, "[key]")
    for spelling in spellings:
        beginning = spelling[: max(_PLACEHOLDER, (len(spelling) + 1) // 2)]
        if len(spelling) > _PLACEHOLDER and beginning in text and " " not in spelling:
            text = _mask_truncated(text, spelling, beginning)
    return text


def _mask_truncated(text: str, spelling: str, beginning: str) -> str:
    """Mask a secret that was truncated, if at least half of it is left."""
    start = 0
    while (start := text.find(beginning, start)) >= 0:
        end = start + len(beginning)
        while end < len(text) and end - start < len(spelling) and text[end] == spelling[end - start]:
            end += 1
        text = f"{text[:start]}[key]{text[end:]}"
        start += len("[key]")
    return text


def _spellings(secret: str) -> Iterable[str]:
    """Return the secret plain, in JSON (ASCII or not, also with escaped slashes), in a URL, and in HTML."""
    in_json = [json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
    with_slashes = [text.replace("/", "\\/") for text in in_json]
    in_url = (quote(secret), quote(secret, safe=""), quote_plus(secret))
    return secret, *in_json, *with_slashes, *in_url, escape(secret)
