"""Token usage, accumulated over a stream."""

from __future__ import annotations

from penstock.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from penstock.stream.deltas import UsageDelta


class UsageTally:
    """The last non-zero count of each field: upstreams repeat their usage, split it, or reset it to zero."""

    __slots__ = ("_cached", "_input", "_output", "_reasoning", "_written", "estimated", "is_known")

    def __init__(self) -> None:
        self._input = self._output = self._cached = self._written = self._reasoning = 0
        self.is_known = False
        """Whether the upstream reported any count."""
        self.estimated = False

    def take(self, delta: UsageDelta) -> None:
        for count in (
            delta.input_tokens,
            delta.output_tokens,
            delta.cached_tokens,
            delta.cache_write_tokens,
            delta.reasoning_tokens,
        ):
            if count is not None and count.__class__ is not int:
                raise TypeError("a token count must be an integer")
        self.is_known = self.is_known or delta != UsageDelta(estimated=delta.estimated)
        self._input = delta.input_tokens or self._input
        self._output = delta.output_tokens or self._output
        self._cached = delta.cached_tokens or self._cached
        self._written = delta.cache_write_tokens or self._written
        self._reasoning = delta.reasoning_tokens or self._reasoning
        self.estimated = delta.estimated

    @property
    def consistent(self) -> bool:
        """Whether cached tokens are at most the input, and reasoning tokens at most the output."""
        return max(0, self._cached) <= max(0, self._input) and max(0, self._reasoning) <= max(0, self._output)

    @property
    def usage(self) -> Usage:
        """The usage for the client: total is input plus output, and details never exceed their total."""
        input_tokens, output_tokens = max(0, self._input), max(0, self._output)
        return Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
            input_tokens_details=InputTokensDetails(
                cached_tokens=min(input_tokens, max(0, self._cached)),
                cache_write_tokens=min(input_tokens, max(0, self._written)),
            ),
            output_tokens_details=OutputTokensDetails(
                reasoning_tokens=min(output_tokens, max(0, self._reasoning))
            ),
        )
