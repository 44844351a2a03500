"""Reads the end of another endpoint's response: usage, and the reason why it is incomplete."""

from __future__ import annotations

from penstock.dialects.responses.items import JSON
from penstock.lenient import count_of, object_of, text_of
from penstock.stream.deltas import Delta, DiagnosticDelta, ErrorDelta, FinishDelta, FinishReason, UsageDelta

INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "pause_turn": FinishReason.PAUSE,
    "steered": FinishReason.STEERED,
}
"""Reasons for an incomplete response. An unknown one counts as length: it must not look complete."""


def read_usage(raw: JSON) -> UsageDelta:
    input_tokens, output_tokens = count_of(raw.get("input_tokens")), count_of(raw.get("output_tokens"))
    total = count_of(raw.get("total_tokens"))
    input_details = object_of(raw.get("input_tokens_details"))
    reasoning = count_of(object_of(raw.get("output_tokens_details")).get("reasoning_tokens"))
    if reasoning and total is not None and total > (input_tokens or 0) + (output_tokens or 0):
        output_tokens = total - (input_tokens or 0)  # the output did not include reasoning (quirk C7)
    return UsageDelta(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=count_of(input_details.get("cached_tokens")),
        cache_write_tokens=count_of(input_details.get("cache_write_tokens")),
        reasoning_tokens=reasoning,
    )


def read_incomplete(response: JSON) -> list[Delta]:
    reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
    if reason == "cancelled":
        return [ErrorDelta("server_error", "the upstream cancelled its response")]
    known = INCOMPLETE.get(reason)
    if known is not None:
        return [FinishDelta(known)]
    message = f"the upstream's response is incomplete for the unknown reason {reason[:80]!r}"
    return [DiagnosticDelta("unknown_finish", message), FinishDelta(FinishReason.LENGTH)]
