"""How a response of another endpoint ends: usage, and why it is incomplete."""

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
}
"""Why a response is incomplete. An unknown reason counts as length: it must not look like a whole answer."""


def read_usage(raw: JSON) -> UsageDelta:
    given, made = count_of(raw.get("input_tokens")), count_of(raw.get("output_tokens"))
    total = count_of(raw.get("total_tokens"))
    before, after = object_of(raw.get("input_tokens_details")), object_of(raw.get("output_tokens_details"))
    reasoning = count_of(after.get("reasoning_tokens"))
    if reasoning and total is not None and total > (given or 0) + (made or 0):
        made = total - (given or 0)  # reasoning was left out of the output (quirk C7)
    return UsageDelta(
        input_tokens=given,
        output_tokens=made,
        cached_tokens=count_of(before.get("cached_tokens")),
        cache_write_tokens=count_of(before.get("cache_write_tokens")),
        reasoning_tokens=reasoning,
    )


def read_incomplete(response: JSON) -> list[Delta]:
    reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
    if reason == "cancelled":
        return [ErrorDelta("server_error", "the upstream cancelled its response")]
    known = INCOMPLETE.get(reason)
    if known is not None:
        return [FinishDelta(known)]
    message = f"the upstream's response is incomplete for a reason that is not known: {reason[:80]!r}"
    return [DiagnosticDelta("unknown_finish", message), FinishDelta(FinishReason.LENGTH)]
