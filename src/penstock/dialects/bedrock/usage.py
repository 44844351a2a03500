"""Bedrock's token counts, as a client of Responses reads them."""

from __future__ import annotations

from typing import Any

from penstock.lenient import count_of
from penstock.stream.deltas import UsageDelta

_NAMES: dict[str, tuple[str, ...]] = {
    "input": ("inputTokens", "inputTokenCount"),
    "output": ("outputTokens", "outputTokenCount"),
    "total": ("totalTokens",),
    "read": ("cacheReadInputTokens", "cacheReadInputTokenCount"),
    "write": ("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
}
"""What Converse calls a count, and then what invocations of a single model call it."""


def usage_of(usage: dict[str, Any]) -> list[UsageDelta]:
    """The counts of a `usage` object, if it has any. Cached input comes beside the input (ask D2)."""
    counts = {ours: _first(usage, theirs) for ours, theirs in _NAMES.items()}
    given, made, total = counts["input"], counts["output"], counts["total"]
    if given is None and made is None:
        return []
    if given is not None:
        cached = (counts["read"] or 0) + (counts["write"] or 0)
        # Models whose input has the cached tokens in it show it by their total.
        given += 0 if total is not None and total == given + (made or 0) else cached
    return [
        UsageDelta(
            input_tokens=given,
            output_tokens=made,
            cached_tokens=counts["read"],
            cache_write_tokens=counts["write"],
        )
    ]


def _first(usage: dict[str, Any], names: tuple[str, ...]) -> int | None:
    counts = (count_of(usage.get(name)) for name in names)
    return next((max(count, 0) for count in counts if count is not None), None)
