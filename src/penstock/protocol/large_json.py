"""Reading and writing large JSON documents in pieces.

A single msgspec call on a large document would block every other stream of the process, whichever thread it
runs in, because it holds the interpreter lock until it returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from penstock.errors import DecodeError
from penstock.protocol.wire import encode, parse

_encode = msgspec.json.Encoder().encode


# Reading


def max_values(text: str) -> int:
    """Return an upper bound for the number of JSON values in a text, by counting characters."""
    return 1 + text.count(",") + text.count("[") + text.count("{")


def has_more_values(data: bytes, limit: int) -> bool:
    """Return whether this JSON has more than `limit` values, without building any of them.

    A separator or an opening bracket counts as a value. Strings are excluded only if there are many of these
    characters. The data is read in slices, because each call holds the interpreter lock.
    """
    if len(data) <= limit:
        return False
    if sum(_separators(data[at : at + _SLICE]) for at in range(0, len(data), _SLICE)) <= limit:
        return False
    count = at = inside = 0
    while at < len(data) and count <= limit:
        piece = data[at : at + _SLICE]
        if piece.endswith(b"\\"):  # an escaped character belongs to its backslash
            end = _ESCAPED.match(data, at + len(piece) - 1)
            piece = data[at : end.end() if end is not None else len(data)]
        at += len(piece)
        between_quotes = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        count += _separators(b"".join(between_quotes[inside::2]))
        inside ^= len(between_quotes) % 2 ^ 1
    return count > limit


_SLICE = 256 * 1024
_ESCAPED = re.compile(rb"\\+.", re.DOTALL)


def _separators(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def parse_in_pieces(data: bytes) -> Any:
    """Do the same as `parse` for a large document, without blocking other threads for long: lists and objects
    that are too large for one call are first split into their members."""
    try:
        return _in_pieces(data, 0)
    except (msgspec.DecodeError, UnicodeError):
        return parse(data)  # its error message has the position in the whole document
    except RecursionError:
        raise DecodeError("nested too deeply") from None


_AT_ONCE_BYTES, _AT_ONCE_VALUES = 4 * 1024 * 1024, 50_000
"""The most that one call reads: less than 10 milliseconds of work."""
_SPLIT_DEPTH = 6
"""Levels that are split: request, input, item, content, part, and one more. Each costs another pass."""


def _in_pieces(data: bytes | msgspec.Raw, depth: int) -> Any:
    view = memoryview(data)
    is_small = len(view) <= _AT_ONCE_VALUES or (
        len(view) <= _AT_ONCE_BYTES and _separators(bytes(view)) <= _AT_ONCE_VALUES
    )
    first = b"" if is_small or depth > _SPLIT_DEPTH else bytes(view[:64]).lstrip()[:1]
    if first == b"[":
        return _list_in_pieces(msgspec.json.decode(view, type=list[msgspec.Raw]), depth)
    if first == b"{":
        fields = msgspec.json.decode(view, type=dict[str, msgspec.Raw])
        return {name: _in_pieces(each, depth + 1) for name, each in fields.items()}
    return msgspec.json.decode(view)


def _list_in_pieces(members: list[msgspec.Raw], depth: int) -> list[Any]:
    """Read small members together: a call for each would cost more than reading it."""
    values: list[Any] = []
    batch: list[msgspec.Raw] = []
    size = 0
    for member in members:
        length = memoryview(member).nbytes
        if batch and size + length > _AT_ONCE_VALUES:
            values += msgspec.json.decode(b"[%s]" % b",".join(batch))
            batch, size = [], 0
        if length > _AT_ONCE_VALUES:
            values.append(_in_pieces(member, depth + 1))
        else:
            batch.append(member)
            size += length
    if batch:
        values += msgspec.json.decode(b"[%s]" % b",".join(batch))
    return values


# Writing


LONG_TEXT = 256 * 1024
"""Number of characters. A longer string is encoded in slices of this length."""
_DEEPEST_TEXT = 64
"""Levels of nesting, counted from the document."""


def encode_in_pieces(value: Any) -> Iterator[bytes]:
    """Yield the same JSON as `encode`, in pieces that are cheap to produce, however long its strings are."""
    texts: list[str] = []
    document = encode(_without_long_texts(value, texts))
    # JSON never contains a NUL byte, so the placeholders of the long strings are unambiguous.
    for place, piece in enumerate(document.split(b"\0")):
        if place % 2 == 0:
            yield piece
            continue
        yield from _text_in_pieces(texts[int(piece)])


def _text_in_pieces(text: str) -> Iterator[bytes]:
    yield b'"'
    for begin in range(0, len(text), LONG_TEXT):
        yield _encode(text[begin : begin + LONG_TEXT])[1:-1]
    yield b'"'


def _without_long_texts(value: Any, texts: list[str], depth: int = 0) -> Any:
    """Return `value` with a numbered placeholder for each long string, which is added to `texts`. Below
    `_DEEPEST_TEXT`, long strings stay: a request may be nested as deep as the interpreter allows."""
    if isinstance(value, str):
        if len(value) <= LONG_TEXT:
            return value
        texts.append(value)
        return msgspec.Raw(b"\0%d\0" % (len(texts) - 1))
    if depth > _DEEPEST_TEXT:
        return value
    if isinstance(value, list):
        return [_without_long_texts(each, texts, depth + 1) for each in value]
    if isinstance(value, dict):
        return {name: _without_long_texts(each, texts, depth + 1) for name, each in value.items()}
    if not isinstance(value, Struct):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    shortened = {name: _without_long_texts(old, texts, depth + 1) for name, old in fields.items()}
    return msgspec.structs.replace(value, **shortened)


_MEMBERS_AT_ONCE = 64
_DEEPEST_STEP = 4


def encode_stepwise(value: Any) -> bytes:
    """Do the same as `encode` for dicts, lists and scalars, without blocking other threads for long: long
    strings and the members of long lists are encoded one by one."""
    return b"".join(_steps_of(value, 0))


def _steps_of(value: Any, depth: int) -> Iterator[bytes]:
    if isinstance(value, str) and len(value) > LONG_TEXT:
        yield from _text_in_pieces(value)
    elif isinstance(value, list) and len(value) > _MEMBERS_AT_ONCE and depth < _DEEPEST_STEP:
        for place, each in enumerate(value):
            yield b"," if place else b"["
            yield from _steps_of(each, depth + 1)
        yield b"]"
    elif isinstance(value, dict) and value and depth < _DEEPEST_STEP:
        for place, (name, each) in enumerate(value.items()):
            yield b"," if place else b"{"
            yield _encode(name) + b":"
            yield from _steps_of(each, depth + 1)
        yield b"}"
    else:
        yield _encode(value)
