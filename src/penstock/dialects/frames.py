"""Decode the JSON of upstream frames: an object, or an error that ends the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.failures import explain
from penstock.lenient import read_json
from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta

DONE = "[DONE]"


def read_object(frame: Frame) -> dict[str, Any] | ErrorDelta:
    """Return the object in a frame. Anything else ends the answer, because content may be lost (ask E1)."""
    value = read_json(frame.data)
    if isinstance(value, dict):
        return value
    shown = frame.data[:200]
    return ErrorDelta("upstream_invalid", f"the upstream sent a frame that is not a JSON object: {shown}")


def error_delta(payload: Mapping[str, Any]) -> ErrorDelta:
    """Convert an error object in a stream, in any vendor's shape."""
    failure = explain(payload)
    return ErrorDelta(failure.code, failure.message, failure.type, failure.param, failure.retry_after)
