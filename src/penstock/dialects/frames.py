"""Decode the JSON of upstream frames: an object, or an error that ends the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from penstock.failures import explain
from penstock.lenient import read_json
from penstock.protocol.large_json import has_more_values
from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta

DONE = "[DONE]"
MOST_VALUES = 500_000
"""JSON values of one frame, or of a whole answer that is not streamed. Each takes up to hundreds of bytes."""
_LARGE = 1024 * 1024
_MAX_SHOWN = 200

T = TypeVar("T")


def read_object(frame: Frame) -> dict[str, Any] | ErrorDelta:
    """Return the object in a frame. Anything else ends the answer, because content may be lost (ask E1)."""
    if len(frame.data) > _LARGE and has_more_values(frame.data.encode("utf-8", "replace"), MOST_VALUES):
        return ErrorDelta(
            "upstream_invalid", f"the upstream sent more than {MOST_VALUES:,} JSON values at once"
        )
    value = read_json(frame.data)
    if isinstance(value, dict):
        return value
    shown = _shortened(frame.data)
    return ErrorDelta("upstream_invalid", f"the upstream sent a frame that is not a JSON object: {shown}")


def _shortened(data: str) -> str:
    """Return the beginning of a frame without its last word: keys are masked later, and half a key is not
    recognised."""
    if len(data) <= _MAX_SHOWN:
        return data
    words, *cut_off = data[:_MAX_SHOWN].rsplit(maxsplit=1) or [""]
    return f"{words} …" if cut_off else "…"


def error_delta(payload: Mapping[str, Any]) -> ErrorDelta:
    """Convert an error object in a stream, in any vendor's shape."""
    failure = explain(payload)
    return ErrorDelta(failure.code, failure.message, failure.type, failure.param, failure.retry_after)


class CommonShape(Struct, forbid_unknown_fields=True, gc=False):
    """An object of a frame that is read by its type: the fields of its class and no others."""


def common_reader(type: type[T]) -> Callable[[str], T | None]:
    """Return a function that reads the text of a frame as `type`, or returns None if it is anything else.

    Nearly all frames of a stream have one of a few shapes. As a typed value, such a frame is decoded faster
    than as a dict, and nothing has to be looked for in it. A reader reads all other frames the general way,
    and must give the same deltas for a common one either way.
    """
    decode = msgspec.json.Decoder(type).decode

    def read_common(data: str) -> T | None:
        try:
            return decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None

    return read_common
