"""Lenient reading of JSON and text that is almost valid, for all data from vendors and clients.

Vendors send null or a number where a string belongs. Servers that count text in UTF-16 units split a
character into its two surrogates (`"\\ud83d"` and `"\\ude00"`), which are not valid text on their own. These
functions return plain values; the callers decide what they mean.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import msgspec

from penstock.errors import DecodeError, JsonSyntaxError

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def text_of(value: Any) -> str:
    """Return the value of a field that should be a string, or "" if it is null, absent or anything else."""
    return value if isinstance(value, str) else ""


def count_of(value: Any) -> int | None:
    """Return the value of a field that should be a count, or None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value and abs(value) < 1e15 else None


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a field that should be a list of objects."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def object_of(value: Any) -> dict[str, Any]:
    """Return the value of a field that should be an object, or an empty object."""
    return value if isinstance(value, dict) else {}


def camel_field(value: dict[str, Any], name: str) -> Any:
    """Return the field with this `camelCase` name or its `snake_case` form; None if absent or null.

    Gemini's servers write the former, dumps of its SDK's objects the latter.
    """
    found = value.get(name)
    return value.get(_snake_case(name)) if found is None else found


@cache
def _snake_case(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()


def read_json(text: str) -> Any:
    """Parse complete JSON text; return None if it is not JSON. Unpaired surrogates are replaced."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        repaired = join_surrogates(json.dumps(json.loads(text), ensure_ascii=False))
        return msgspec.json.decode(repaired)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None


def parse_json(text: str) -> Any:
    """Parse complete JSON text. Raise `ValueError` if it is invalid or nested too deeply."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        if not has_surrogates(text):
            raise ValueError(str(error)) from None
    try:
        # An escaped unpaired surrogate is valid JSON, and not a reason to lose a call.
        return join_surrogates_in(_loads(text))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def is_json(text: str) -> bool:
    """Return whether the text is complete JSON. Huge numbers are accepted, unpaired surrogates are not."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def has_surrogates(text: str) -> bool:
    """Return whether JSON text contains escaped surrogates, which a strict parser may reject."""
    return _ESCAPED_SURROGATE.search(text) is not None


def parse_with_surrogates(text: str) -> Any:
    """Parse one JSON document whose strings may contain unpaired surrogates, which stay unchanged."""
    try:
        return _loads(text)
    except ValueError as error:
        raise JsonSyntaxError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise DecodeError("nested too deeply") from None


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


def join_surrogates(text: str) -> str:
    """Return text that can be encoded: join surrogate pairs, replace unpaired surrogates."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def join_surrogates_in(value: Any) -> Any:
    """Apply `join_surrogates` to every string in a value."""
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        return [join_surrogates_in(each) for each in value]
    if isinstance(value, dict):
        return {join_surrogates(name): join_surrogates_in(each) for name, each in value.items()}
    return value
