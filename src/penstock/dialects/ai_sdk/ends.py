"""How an answer of the AI SDK ends: finish reasons and usage, in the shapes of versions 2, 3 and 4."""

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
"""`error` and `interrupted` are failures; what is in neither table is a normal stop, with a diagnostic."""

RAW_FINISHES: dict[str, FinishReason] = {
    "pause_turn": FinishReason.PAUSE,
    "compaction": FinishReason.PAUSE,
}
"""Words of a vendor that say more than the unified one beside them (quirk A9)."""

ERROR = "error"
INTERRUPTED = "interrupted"


def read_finish(value: Any) -> tuple[str, str]:
    """The unified reason and the vendor's own. Version 2 has the first alone, as a bare text."""
    if isinstance(value, str):
        return value, ""
    told = object_of(value)
    return text_of(told.get("unified")) or text_of(told.get("type")), text_of(told.get("raw"))


def read_usage(usage: JSON, metadata: JSON) -> UsageDelta:
    given, made = usage.get("inputTokens"), usage.get("outputTokens")
    if isinstance(given, dict) or isinstance(made, dict):
        return _nested(object_of(given), object_of(made))
    return _flat(usage, metadata)


def _nested(given: JSON, made: JSON) -> UsageDelta:
    """Versions 3 and 4: totals include what they are made of."""
    return UsageDelta(
        input_tokens=_total(given, "noCache", "cacheRead", "cacheWrite"),
        output_tokens=_total(made, "text", "reasoning"),
        cached_tokens=count_of(given.get("cacheRead")),
        cache_write_tokens=count_of(given.get("cacheWrite")),
        reasoning_tokens=count_of(made.get("reasoning")),
    )


def _total(counts: JSON, *parts: str) -> int | None:
    total = count_of(counts.get("total"))
    known = [count for part in parts if (count := count_of(counts.get(part))) is not None]
    return total if total is not None or not known else sum(known)


def _flat(usage: JSON, metadata: JSON) -> UsageDelta:
    """Version 2 passes on what the vendor counts, and Anthropic does not count what its cache has
    (ask D2)."""
    given, cached = count_of(usage.get("inputTokens")), count_of(usage.get("cachedInputTokens"))
    native = object_of(object_of(metadata.get("anthropic")).get("usage"))
    written = count_of(native.get("cache_creation_input_tokens"))
    if given is not None and (native or (cached or 0) > given):
        given += (cached or 0) + (written or 0)
    return UsageDelta(
        input_tokens=given,
        output_tokens=count_of(usage.get("outputTokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=count_of(usage.get("reasoningTokens")),
    )
