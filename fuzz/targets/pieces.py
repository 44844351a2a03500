"""Cut inputs into pieces, the same way every time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

_BYTE_BY_BYTE = 200
_WAYS = 2


def ways_to_cut(data: bytes) -> Iterator[list[bytes]]:
    """Yield the input in pieces, in a few ways: byte by byte if it is short, and at random places."""
    if len(data) <= _BYTE_BY_BYTE:
        yield [data[at : at + 1] for at in range(len(data))]
    for way in range(_WAYS):
        # Shares of the length, so that an input that becomes shorter is cut at similar places.
        random = Random(way)
        count = (3, 12)[way % 2]
        places = sorted({0, len(data), *(int(random.random() * len(data)) for _ in range(count))})
        yield [data[begin:end] for begin, end in pairwise(places)]


def after_options(data: bytes, known: frozenset[str]) -> tuple[frozenset[str], bytes]:
    """Return the options in the first line of an input, such as `:fuzz tools openai`, and the rest of it.

    The line is a comment of an event stream, and stays readable in a finding.
    """
    line, found, rest = data.partition(b"\n")
    if not found or not line.startswith(b":fuzz"):
        return frozenset(), data
    return known & set(line.decode("latin-1").split()), rest
