"""Map Anthropic's stop reasons to finish reasons."""

from __future__ import annotations

from typing import Any

from penstock.lenient import object_of, text_of
from penstock.stream.deltas import DiagnosticDelta, FinishReason

FINISHES: dict[str, FinishReason] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "pause_turn": FinishReason.PAUSE,
    "compaction": FinishReason.PAUSE,
    "refusal": FinishReason.CONTENT_FILTER,
}
"""The finish reason for each stop reason (quirk A9). Any other is a normal stop, with a diagnostic."""

CUT_SHORT = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
"""After these, the last block may be incomplete even though its stop event was sent."""


def finish_reason_of(message: dict[str, Any]) -> FinishReason | None:
    """Return why the model stopped, or None if the message has no stop reason."""
    reason = text_of(message.get("stop_reason"))
    return FINISHES.get(reason, FinishReason.STOP) if reason else None


def finish_diagnostics(message: dict[str, Any]) -> list[DiagnosticDelta]:
    """Report an unknown stop reason, and the details of a refusal."""
    reason = text_of(message.get("stop_reason"))
    diagnostics = []
    if reason not in FINISHES:
        diagnostics.append(DiagnosticDelta("unknown_finish", f"the upstream stopped with {reason!r}"))
    fields = object_of(message.get("stop_details"))
    details = ": ".join(text for name in ("category", "explanation") if (text := text_of(fields.get(name))))
    if details:
        diagnostics.append(DiagnosticDelta("stop_details", f"the upstream stopped with {reason}: {details}"))
    return diagnostics
