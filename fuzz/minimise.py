"""Make a failing input smaller while it still fails in the same way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

MOST_TRIES = 1500

_SEPARATORS = (b"\n\n", b"\n", b",", b" ")


def minimised(data: bytes, fails: Callable[[bytes], bool], most_tries: int = MOST_TRIES) -> bytes:
    """Remove blocks, lines, JSON values and bytes, from large to small, until nothing more can be removed or
    so many smaller inputs were tried. The result depends on nothing else."""
    tries = 0
    smaller: bytes | None = data
    while smaller is not None:
        data, smaller = smaller, None
        for candidate in _candidates(data):
            if tries >= most_tries:
                return data
            tries += 1
            if fails(candidate):
                smaller = candidate
                break
    return data


def _candidates(data: bytes) -> Iterator[bytes]:
    """Yield smaller inputs, those that remove most first."""
    for separator in _SEPARATORS[:2]:
        yield from _without_pieces(data, separator)
    for begin, end in _documents(data):
        for text in _smaller_json(data[begin:end]):
            if len(text) < end - begin:
                yield data[:begin] + text + data[end:]
    for separator in _SEPARATORS[2:]:
        yield from _without_pieces(data, separator)
    size = len(data) // 2
    while size:
        for at in range(0, len(data), size):
            yield data[:at] + data[at + size :]
        size //= 2


def _without_pieces(data: bytes, separator: bytes) -> Iterator[bytes]:
    pieces = data.split(separator)
    size = len(pieces) // 2
    while size:
        for at in range(0, len(pieces), size):
            yield separator.join(pieces[:at] + pieces[at + size :])
        size //= 2


def _documents(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where JSON may begin and end: from the first bracket of a line to its end."""
    at = 0
    for line in data.split(b"\n") if data.count(b"\n") else [data]:
        begin = min((place for place in (line.find(b"{"), line.find(b"[")) if place >= 0), default=-1)
        if begin >= 0:
            yield at + begin, at + len(line)
        at += len(line) + 1


def _smaller_json(text: bytes) -> Iterator[bytes]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    for smaller in _smaller_values(value):
        yield json.dumps(smaller, separators=(",", ":")).encode()


def _smaller_values(value: Any) -> Iterator[Any]:
    """Yield a value without each of its entries, and with each entry made smaller."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: smaller} for smaller in _smaller_values(each))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield from ([*value[:index], smaller, *value[index + 1 :]] for smaller in _smaller_values(each))
    elif isinstance(value, str) and value:
        yield ""
        if len(value) > 1:
            yield value[: len(value) // 2]
            yield value[len(value) // 2 :]
