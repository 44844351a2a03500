"""Convert Anthropic's token counts to usage."""

from __future__ import annotations

from typing import Any

from penstock.lenient import count_of, object_of, objects_of
from penstock.stream.deltas import UsageDelta

_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_OUTPUT = ("output_tokens",)

_METRICS = {
    "inputTokenCount": "input_tokens",
    "outputTokenCount": "output_tokens",
    "cacheReadInputTokenCount": "cache_read_input_tokens",
    "cacheWriteInputTokenCount": "cache_creation_input_tokens",
}
"""Bedrock's names for the same counts, in the metrics that it adds to the last event (quirk A15)."""


class AnthropicUsage:
    """Merge the counts of a message field by field: they are repeated and split over events (quirk A10)."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._reasoning: int | None = None
        self._compactions: dict[str, int] = {}

    def add(self, usage: Any) -> list[UsageDelta]:
        """Add a `usage` object. Later counts replace earlier ones, unless all of them are zero (quirk C6)."""
        fields = object_of(usage)
        for names in (_INPUT, _OUTPUT):
            counts = {
                name: max(value, 0) for name in names if (value := count_of(fields.get(name))) is not None
            }
            self._counts = {**self._counts, **counts} if any(counts.values()) else {**counts, **self._counts}
        details = object_of(fields.get("output_tokens_details"))
        self._reasoning = count_of(details.get("thinking_tokens")) or self._reasoning
        if iterations := objects_of(fields.get("iterations")):
            self._compactions = _compactions(iterations)
        return [self._delta()] if fields else []

    def add_metrics(self, metrics: Any) -> list[UsageDelta]:
        """Add Bedrock's metrics for the counts that the message did not have."""
        fields = {ours: object_of(metrics).get(theirs) for theirs, ours in _METRICS.items()}
        missing = {name: value for name, value in fields.items() if not self._counts.get(name)}
        return self.add(missing) if any(missing.values()) else []

    def _delta(self) -> UsageDelta:
        """Return the usage. The input includes tokens read from and written to the cache (ask D2)."""
        return UsageDelta(
            input_tokens=self._sum(_INPUT),
            output_tokens=self._sum(_OUTPUT),
            cached_tokens=self._sum(("cache_read_input_tokens",)),
            cache_write_tokens=self._sum(("cache_creation_input_tokens",)),
            reasoning_tokens=self._reasoning,
        )

    def _sum(self, names: tuple[str, ...]) -> int | None:
        known = [
            self._counts[name] + self._compactions.get(name, 0) for name in names if name in self._counts
        ]
        return sum(known) if known else None


def _compactions(iterations: list[dict[str, Any]]) -> dict[str, int]:
    """Return the tokens used by compaction: they are billed, but not in the top-level counts."""
    rounds = [each for each in iterations if each.get("type") == "compaction"]
    return {
        name: sum(max(count_of(each.get(name)) or 0, 0) for each in rounds) for name in (*_INPUT, *_OUTPUT)
    }
