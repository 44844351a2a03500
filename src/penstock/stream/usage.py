"""Usage as it adds up over a stream."""

from __future__ import annotations

from penstock.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from penstock.stream.deltas import UsageDelta

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


class UsageTally:
    """The last count that was not zero, field by field: upstreams repeat, split and blank out their usage."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.told = False
        self.estimated = False

    def take(self, delta: UsageDelta) -> None:
        counts = [(name, getattr(delta, name)) for name in _COUNTS]
        if not all(value is None or value.__class__ is int for _, value in counts):
            raise TypeError("a token count is an integer")
        for name, value in counts:
            if value is not None:
                self.told = True
                self._counts[name] = value or self._counts.get(name, 0)
        self.estimated = delta.estimated

    @property
    def consistent(self) -> bool:
        """Are cached tokens part of the input, and reasoning tokens of the output?"""
        return self._of("cached_tokens") <= self._of("input_tokens") and (
            self._of("reasoning_tokens") <= self._of("output_tokens")
        )

    @property
    def usage(self) -> Usage:
        """What the client reads: the total is the sum, and a part is never more than its whole."""
        given, made = self._of("input_tokens"), self._of("output_tokens")
        return Usage(
            input_tokens=given,
            output_tokens=made,
            total_tokens=given + made,
            input_tokens_details=InputTokensDetails(
                cached_tokens=min(given, self._of("cached_tokens")),
                cache_write_tokens=min(given, self._of("cache_write_tokens")),
            ),
            output_tokens_details=OutputTokensDetails(
                reasoning_tokens=min(made, self._of("reasoning_tokens"))
            ),
        )

    def _of(self, name: str) -> int:
        return max(0, self._counts.get(name, 0))
