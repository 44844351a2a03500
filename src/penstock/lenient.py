"""Reading JSON and text that is nearly right, for every reader of foreign data.

Vendors send null or a number where a text belongs, and servers that count text in units of UTF-16 cut a
character into its two surrogates (`"\\ud83d"` and `"\\ude00"`), neither of which is text by itself. What is
read here comes back as plain values; the callers decide what it means.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import msgspec

from penstock.errors import DecodeError

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def text_of(value: Any) -> str:
    """A field that should be text: itself, or "" where a vendor sent null, nothing or something else."""
    return value if isinstance(value, str) else ""


def count_of(value: Any) -> int | None:
    """A field that should be a count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value and abs(value) < 1e15 else None


def objects_of(value: Any) -> list[dict[str, Any]]:
    """A field that should be a list of objects: those in it that are."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def object_of(value: Any) -> dict[str, Any]:
    """A field that should be an object: itself, or an empty one."""
    return value if isinstance(value, dict) else {}


def camel_field(value: dict[str, Any], name: str) -> Any:
    """The field of this `camelCase` name, also where it is spelled `snake_case`; None if absent or null.

    Gemini's servers write the one, dumps of its SDK's objects the other.
    """
    found = value.get(name)
    return value.get(_snake_case(name)) if found is None else found


@cache
def _snake_case(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()


def read_json(text: str) -> Any:
    """The value of whole JSON text, or None for what is no JSON. Single surrogates are replaced."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        repaired = join_surrogates(json.dumps(json.loads(text), ensure_ascii=False))
        return msgspec.json.decode(repaired)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None


def parse_json(text: str) -> Any:
    """The value of whole JSON text. Raises `ValueError`, also for what is nested too deeply to be read."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        if not has_surrogates(text):
            raise ValueError(str(error)) from None
    try:
        # A single surrogate is valid JSON where it is escaped, and no reason to lose a call.
        return join_surrogates_in(_loads(text))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def is_json(text: str) -> bool:
    """Is this whole JSON, by its grammar? A number too large for us, or a single surrogate, is."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def has_surrogates(text: str) -> bool:
    """Does JSON text have escaped surrogates, for which a strict parser may refuse it?"""
    return _ESCAPED_SURROGATE.search(text) is not None


def parse_with_surrogates(text: str) -> Any:
    """One JSON document whose strings may have single surrogates, which are left as they are."""
    try:
        return _loads(text)
    except ValueError as error:
        raise DecodeError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise DecodeError("nested too deeply") from None


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is none")


def join_surrogates(text: str) -> str:
    """Text that can be encoded: pairs of surrogates become one character, single ones are replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def join_surrogates_in(value: Any) -> Any:
    """The same for all text in a value."""
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        return [join_surrogates_in(each) for each in value]
    if isinstance(value, dict):
        return {join_surrogates(name): join_surrogates_in(each) for name, each in value.items()}
    return value
