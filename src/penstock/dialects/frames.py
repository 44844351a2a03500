"""What a frame of an upstream holds: an object, or an error that ends the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.failures import explain
from penstock.lenient import read_json
from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta

DONE = "[DONE]"


def read_object(frame: Frame) -> dict[str, Any] | ErrorDelta:
    """The object in a frame. What is none ends the answer: content may be lost in it (ask E1)."""
    value = read_json(frame.data)
    if isinstance(value, dict):
        return value
    shown = frame.data[:200]
    return ErrorDelta("upstream_invalid", f"the upstream sent something that is no JSON object: {shown}")


def error_delta(payload: Mapping[str, Any]) -> ErrorDelta:
    """An error object in a stream, in any vendor's shape."""
    failure = explain(payload)
    return ErrorDelta(failure.code, failure.message, failure.type, failure.param, failure.retry_after)
