"""Usage that an upstream told in part: what can be believed of it, and what is counted instead."""

from __future__ import annotations

from penstock.protocol.usage import Usage
from penstock.stream.deltas import UsageDelta


def missing(told: Usage, counted: UsageDelta) -> UsageDelta:
    """What was counted, for what was told as zero or only at the beginning, as Anthropic does: no two
    tokenizers are so far apart that one has twice the tokens of the other."""
    is_short = (counted.output_tokens or 0) > 2 * told.output_tokens
    return UsageDelta(
        input_tokens=None if told.input_tokens else counted.input_tokens,
        output_tokens=counted.output_tokens if is_short else None,
        reasoning_tokens=counted.reasoning_tokens if is_short else None,
        estimated=True,
    )
