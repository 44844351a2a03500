"""Token counts of Chat Completions, converted to OpenAI's definitions for every vendor."""

from __future__ import annotations

from typing import Any

from penstock.lenient import count_of, object_of
from penstock.stream.deltas import UsageDelta

_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "input": (("", "prompt_tokens"), ("", "input_tokens")),
    "output": (("", "completion_tokens"), ("", "output_tokens")),
    "total": (("", "total_tokens"),),
    "cached": (
        ("prompt_tokens_details", "cached_tokens"),
        ("", "prompt_cache_hit_tokens"),  # DeepSeek
        ("", "cached_tokens"),  # Together, Moonshot
        ("", "num_cached_tokens"),  # Mistral, in one of three forms
        ("prompt_token_details", "cached_tokens"),
        ("prompt_tokens_details", "num_cached_tokens"),
        ("", "cache_read_input_tokens"),
        ("input_tokens_details", "cached_tokens"),
    ),
    "written": (
        ("prompt_tokens_details", "cache_write_tokens"),
        ("input_tokens_details", "cache_write_tokens"),
        ("prompt_tokens_details", "cache_creation_tokens"),  # LiteLLM
        ("", "cache_creation_input_tokens"),
    ),
    "reasoning": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ),
}
"""Where vendors report each count: the object inside the usage, if any, and the field. The first number other
than zero is used."""


def read_usage(chunk: dict[str, Any]) -> list[UsageDelta]:
    """Return the usage in a chunk. A vendor may report it in several places and in every chunk (quirk C5)."""
    if not (chunk.get("usage") or chunk.get("x_groq")):
        return []
    usage = object_of(chunk.get("usage")) or object_of(object_of(chunk.get("x_groq")).get("usage"))
    if not usage:
        return []
    counts = {name: _count(usage, places) for name, places in _PLACES.items()}
    if all(count is None for count in counts.values()):
        return []
    return [
        UsageDelta(
            input_tokens=counts["input"],
            output_tokens=_output(counts),
            cached_tokens=counts["cached"],
            cache_write_tokens=counts["written"],
            reasoning_tokens=counts["reasoning"],
        )
    ]


def _count(usage: dict[str, Any], places: tuple[tuple[str, str], ...]) -> int | None:
    found: int | None = None
    for outer, name in places:
        fields = usage.get(outer) if outer else usage
        value = fields.get(name) if isinstance(fields, dict) else None
        count = count_of(value) if value is not None else None
        if count is not None and count >= 0:
            if count:
                return count
            found = count
    return found


def _output(counts: dict[str, int | None]) -> int | None:
    """Return the output tokens including reasoning. Some vendors count reasoning separately, which shows in
    the totals (quirk C7)."""
    output, reasoning = counts["output"], counts["reasoning"] or 0
    if output is None or not reasoning:
        return output
    separate_total = (counts["input"] or 0) + output + reasoning
    return output + reasoning if counts["total"] == separate_total or reasoning > output else output
