"""What must not be told. Servers repeat the key that they were given, so every text of theirs goes through
here before it is cut, logged or put in an exception."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

_TELLING = ("authorization", "cookie", "key", "token", "secret", "password")
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
            return msgspec.json.encode(self._mask_value(msgspec.json.decode(body)))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.mask(body.decode("utf-8", "replace")).encode()

    def _mask_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, list):
            return [self._mask_value(each) for each in value]
        if isinstance(value, dict):
            return {_masked(name, self._sure): self._mask_value(each) for name, each in value.items()}
        return value


def secrets_in(headers: Mapping[str, str]) -> Iterable[str]:
    """The values of headers that carry a secret by their name, also without the scheme before it."""
    for name, value in headers.items():
        if any(word in name.lower() for word in _TELLING):
            yield value
            yield value.partition(" ")[2]


def _masked(text: str, spellings: list[str]) -> str:
    for spelling in spellings:
        text = text.replace(spelling, "[key]")
    return text


def _spellings(secret: str) -> Iterable[str]:
    """As it is, in JSON, in the JSON of those who escape the slash, and in a URL."""
    in_json = json.dumps(secret)[1:-1]
    return secret, in_json, in_json.replace("/", "\\/"), quote(secret), quote(secret, safe="")
