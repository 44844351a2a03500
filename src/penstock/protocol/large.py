"""Large documents, piece by piece: read or written in one call, they would hold up every other stream of the
process, in whichever thread that is done, because one call holds the interpreter's lock until its end.
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
    """An upper bound for the JSON values in a text, found by counting characters."""
    return 1 + text.count(",") + text.count("[") + text.count("{")


def has_more_values(data: bytes, most: int) -> bool:
    """Does this JSON hold more values than that? Found without building any of them.

    A separator or an opening bracket stands for a value. Only where there are many of them is it looked which
    are in strings. All in slices: each of these calls holds the interpreter's lock.
    """
    if len(data) <= most:
        return False
    if sum(_separators(data[at : at + _SLICE]) for at in range(0, len(data), _SLICE)) <= most:
        return False
    count = at = inside = 0
    while at < len(data) and count <= most:
        piece = data[at : at + _SLICE]
        if piece.endswith(b"\\"):  # an escaped character belongs to its backslash
            end = _ESCAPED.match(data, at + len(piece) - 1)
            piece = data[at : end.end() if end is not None else len(data)]
        at += len(piece)
        between_quotes = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        count += _separators(b"".join(between_quotes[inside::2]))
        inside ^= len(between_quotes) % 2 ^ 1
    return count > most


_SLICE = 256 * 1024
_ESCAPED = re.compile(rb"\\+.", re.DOTALL)


def _separators(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def parse_in_pieces(data: bytes) -> Any:
    """The same as `parse`, for a large document: to read all of it in one call would keep every other thread
    waiting. Lists and objects that are too large for that are first cut up into their members."""
    try:
        return _in_pieces(data, 0)
    except (msgspec.DecodeError, UnicodeError):
        return parse(data)  # it says where in the whole document the mistake is
    except RecursionError:
        raise DecodeError("nested too deeply") from None


_AT_ONCE_BYTES, _AT_ONCE_VALUES = 8 * 1024 * 1024, 100_000
"""What is read in one call, some 20 milliseconds."""
_CUT_DEPTH = 6
"""Levels that are cut up: request, input, item, content, part, and one more. Each costs another reading."""


def _in_pieces(data: bytes | msgspec.Raw, depth: int) -> Any:
    view = memoryview(data)
    is_small = len(view) <= _AT_ONCE_VALUES or (
        len(view) <= _AT_ONCE_BYTES and _separators(bytes(view)) <= _AT_ONCE_VALUES
    )
    first = b"" if is_small or depth > _CUT_DEPTH else bytes(view[:64]).lstrip()[:1]
    if first == b"[":
        members = msgspec.json.decode(view, type=list[msgspec.Raw])
        return [_in_pieces(each, depth + 1) for each in members]
    if first == b"{":
        fields = msgspec.json.decode(view, type=dict[str, msgspec.Raw])
        return {name: _in_pieces(each, depth + 1) for name, each in fields.items()}
    return msgspec.json.decode(view)


# Writing


LONG_TEXT = 256 * 1024
"""Characters. A longer text is encoded in slices of this length."""


def encode_in_pieces(value: Any) -> Iterator[bytes]:
    """The same JSON as `encode` gives, in pieces that each cost little, however long the texts in it are."""
    texts: list[str] = []
    document = encode(_without_long_texts(value, texts))
    # JSON never contains a NUL byte, so the places of the long texts cannot be mistaken for anything else.
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


def _without_long_texts(value: Any, texts: list[str]) -> Any:
    """`value` with a numbered place for each long text, which is added to `texts`."""
    if isinstance(value, str):
        if len(value) <= LONG_TEXT:
            return value
        texts.append(value)
        return msgspec.Raw(b"\0%d\0" % (len(texts) - 1))
    if isinstance(value, list):
        return [_without_long_texts(each, texts) for each in value]
    if isinstance(value, dict):
        return {name: _without_long_texts(each, texts) for name, each in value.items()}
    if not isinstance(value, Struct):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    shortened = {name: _without_long_texts(old, texts) for name, old in fields.items()}
    return msgspec.structs.replace(value, **shortened)


_MEMBERS_AT_ONCE = 64
_DEEPEST_STEP = 4


def encode_stepwise(value: Any) -> bytes:
    """The same as `encode`, for dicts, lists and scalars. The members of long lists, and long texts, are
    encoded bit by bit: to encode everything in one call would keep every other thread waiting."""
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
