"""What a frame of an upstream holds: an object, or something that ends the answer."""

from __future__ import annotations

from typing import Any

from penstock.lenient import read_json
from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta

DONE = "[DONE]"


def read_object(frame: Frame) -> dict[str, Any] | ErrorDelta:
    """The object in a frame. What is none ends the answer: content may be lost in it (notes/asks E1)."""
    value = read_json(frame.data)
    if isinstance(value, dict):
        return value
    shown = frame.data[:200]
    return ErrorDelta("upstream_invalid", f"the upstream sent something that is no JSON object: {shown}")
