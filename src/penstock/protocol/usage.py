"""Token counts. Both details objects are always there: clients read into them unasked (notes/asks A7)."""

from __future__ import annotations

from penstock.protocol.wire import Wire


class InputTokensDetails(Wire):
    """`cache_write_tokens` is not in the specification and openai-python requires it: always written."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(Wire):
    reasoning_tokens: int = 0


class Usage(Wire):
    """`input_tokens` includes what came from a cache, `output_tokens` what went into reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = InputTokensDetails()
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()
