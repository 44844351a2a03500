"""Token usage, accumulated over a stream."""

from __future__ import annotations

from penstock.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from penstock.stream.deltas import UsageDelta

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


class UsageTally:
    """The last non-zero count of each field: upstreams repeat their usage, split it, or reset it to zero."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.is_known = False
        """Whether the upstream reported any count."""
        self.estimated = False

    def take(self, delta: UsageDelta) -> None:
        counts = (
            delta.input_tokens,
            delta.output_tokens,
            delta.cached_tokens,
            delta.cache_write_tokens,
            delta.reasoning_tokens,
        )
        for value in counts:
            if value is not None and value.__class__ is not int:
                raise TypeError("a token count must be an integer")
        for name, value in zip(_COUNTS, counts, strict=True):
            if value is not None:
                self.is_known = True
                self._counts[name] = value or self._counts.get(name, 0)
        self.estimated = delta.estimated

    @property
    def consistent(self) -> bool:
        """Whether cached tokens are at most the input, and reasoning tokens at most the output."""
        return self._of("cached_tokens") <= self._of("input_tokens") and (
            self._of("reasoning_tokens") <= self._of("output_tokens")
        )

    @property
    def usage(self) -> Usage:
        """The usage for the client: total is input plus output, and details never exceed their total."""
        input_tokens, output_tokens = self._of("input_tokens"), self._of("output_tokens")
        return Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
            input_tokens_details=InputTokensDetails(
                cached_tokens=min(input_tokens, self._of("cached_tokens")),
                cache_write_tokens=min(input_tokens, self._of("cache_write_tokens")),
            ),
            output_tokens_details=OutputTokensDetails(
                reasoning_tokens=min(output_tokens, self._of("reasoning_tokens"))
            ),
        )

    def _of(self, name: str) -> int:
        return max(0, self._counts.get(name, 0))
