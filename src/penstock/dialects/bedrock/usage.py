"""Convert Bedrock's token counts to usage."""

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
"""Names of each count: in Converse, then in invocations of a single model."""


def usage_of(usage: dict[str, Any]) -> list[UsageDelta]:
    """Return the counts of a `usage` object, if it has any. Cached input is counted separately (ask D2)."""
    counts = {ours: _first(usage, theirs) for ours, theirs in _NAMES.items()}
    input, output, total = counts["input"], counts["output"], counts["total"]
    if input is None and output is None:
        return []
    if input is not None:
        cached = (counts["read"] or 0) + (counts["write"] or 0)
        # If the total is input plus output, the input already includes the cached tokens.
        input += 0 if total is not None and total == input + (output or 0) else cached
    return [
        UsageDelta(
            input_tokens=input,
            output_tokens=output,
            cached_tokens=counts["read"],
            cache_write_tokens=counts["write"],
        )
    ]


def _first(usage: dict[str, Any], names: tuple[str, ...]) -> int | None:
    counts = (count_of(usage.get(name)) for name in names)
    return next((max(count, 0) for count in counts if count is not None), None)
