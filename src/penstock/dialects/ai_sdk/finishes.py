"""Reads the end of an AI SDK answer: finish reason and usage, in the shapes of versions 2, 3 and 4."""

from __future__ import annotations

from typing import Any

from penstock.lenient import count_of, object_of, text_of
from penstock.stream.deltas import FinishReason, UsageDelta

JSON = dict[str, Any]

FINISHES: dict[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "tool-calls": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content-filter": FinishReason.CONTENT_FILTER,
    "other": FinishReason.STOP,
    "unknown": FinishReason.STOP,
}
"""`error` and `interrupted` are failures; any other reason is a normal stop, with a diagnostic."""

RAW_FINISHES: dict[str, FinishReason] = {
    "pause_turn": FinishReason.PAUSE,
    "compaction": FinishReason.PAUSE,
}
"""A vendor's own reasons that are more specific than the unified reason next to them (quirk A9)."""

ERROR = "error"
INTERRUPTED = "interrupted"


def read_finish(value: Any) -> tuple[str, str]:
    """Return the unified reason and the vendor's own. Version 2 has only the first, as plain text."""
    if isinstance(value, str):
        return value, ""
    reason = object_of(value)
    return text_of(reason.get("unified")) or text_of(reason.get("type")), text_of(reason.get("raw"))


def read_usage(usage: JSON, metadata: JSON) -> UsageDelta:
    input_counts, output_counts = usage.get("inputTokens"), usage.get("outputTokens")
    if isinstance(input_counts, dict) or isinstance(output_counts, dict):
        return _nested(object_of(input_counts), object_of(output_counts))
    return _flat(usage, metadata)


def _nested(input_counts: JSON, output_counts: JSON) -> UsageDelta:
    """Read the usage of versions 3 and 4, whose totals include their parts."""
    return UsageDelta(
        input_tokens=_total(input_counts, "noCache", "cacheRead", "cacheWrite"),
        output_tokens=_total(output_counts, "text", "reasoning"),
        cached_tokens=count_of(input_counts.get("cacheRead")),
        cache_write_tokens=count_of(input_counts.get("cacheWrite")),
        reasoning_tokens=count_of(output_counts.get("reasoning")),
    )


def _total(counts: JSON, *parts: str) -> int | None:
    total = count_of(counts.get("total"))
    known = [count for part in parts if (count := count_of(counts.get(part))) is not None]
    return total if total is not None or not known else sum(known)


def _flat(usage: JSON, metadata: JSON) -> UsageDelta:
    """Read the usage of version 2, which has the vendor's own counts. Anthropic's do not include cached
    input (ask D2)."""
    input_tokens, cached = count_of(usage.get("inputTokens")), count_of(usage.get("cachedInputTokens"))
    native = object_of(object_of(metadata.get("anthropic")).get("usage"))
    written = count_of(native.get("cache_creation_input_tokens"))
    if input_tokens is not None and (native or (cached or 0) > input_tokens):
        input_tokens += (cached or 0) + (written or 0)
    return UsageDelta(
        input_tokens=input_tokens,
        output_tokens=count_of(usage.get("outputTokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=count_of(usage.get("reasoningTokens")),
    )
