"""Reading the JSON of a frame, for all dialects."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta

DONE = "[DONE]"


def read_object(frame: Frame) -> dict[str, Any] | ErrorDelta:
    """The object in a frame. What is none ends the answer: content may be lost in it (notes/asks E1)."""
    try:
        value = msgspec.json.decode(frame.data)
    except (msgspec.DecodeError, RecursionError):
        value = _lenient(frame.data)
    if isinstance(value, dict):
        return value
    shown = frame.data[:200]
    return ErrorDelta("upstream_invalid", f"the upstream sent something that is no JSON object: {shown}")


def _lenient(data: str) -> Any:
    """JSON with half a surrogate pair in it, which upstreams make by cutting a text between two deltas."""
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None


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
