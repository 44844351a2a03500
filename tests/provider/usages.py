"""Usage of a response, for tests."""

from __future__ import annotations

from penstock.protocol.response import InputTokensDetails, OutputTokensDetails, Usage


def usage(input: int, output: int, cached: int = 0, reasoning: int = 0, written: int = 0) -> Usage:
    return Usage(
        input_tokens=input,
        output_tokens=output,
        total_tokens=input + output,
        input_tokens_details=InputTokensDetails(cached_tokens=cached, cache_write_tokens=written),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=reasoning),
    )
