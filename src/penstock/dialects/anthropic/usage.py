"""Anthropic's token counts, as a client of Responses reads them."""

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
"""What Bedrock calls the same counts, in the metrics that it adds to the last event (quirk A15)."""


class AnthropicUsage:
    """Merges the counts of a message field by field: they come split over events and repeated (quirk A10)."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._reasoning: int | None = None
        self._compactions: dict[str, int] = {}

    def take(self, usage: Any) -> list[UsageDelta]:
        """A later statement replaces an earlier one, but one of nothing but zeros takes nothing back
        (quirk C6)."""
        told = object_of(usage)
        for names in (_INPUT, _OUTPUT):
            counts = {
                name: max(value, 0) for name in names if (value := count_of(told.get(name))) is not None
            }
            self._counts = {**self._counts, **counts} if any(counts.values()) else {**counts, **self._counts}
        details = object_of(told.get("output_tokens_details"))
        self._reasoning = count_of(details.get("thinking_tokens")) or self._reasoning
        if iterations := objects_of(told.get("iterations")):
            self._compactions = _compactions(iterations)
        return [self._delta()] if told else []

    def take_metrics(self, metrics: Any) -> list[UsageDelta]:
        """Bedrock's own figures, where the message had none."""
        told = {ours: object_of(metrics).get(theirs) for theirs, ours in _METRICS.items()}
        missing = {name: value for name, value in told.items() if not self._counts.get(name)}
        return self.take(missing) if any(missing.values()) else []

    def _delta(self) -> UsageDelta:
        """Input is what was read afresh, from the cache and into it (ask D2)."""
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
    """What compacting the context took. The top-level counts leave it out, the bill does not."""
    rounds = [each for each in iterations if each.get("type") == "compaction"]
    return {
        name: sum(max(count_of(each.get(name)) or 0, 0) for each in rounds) for name in (*_INPUT, *_OUTPUT)
    }
