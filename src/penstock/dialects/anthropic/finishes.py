"""Why Anthropic's models stop, in our words."""

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
"""What a stop reason means (quirk A9). Any other is a normal stop, with a diagnostic."""

CUT_SHORT = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
"""After these nobody knows whether the last block is whole, although its end was told like any other."""


def reason_in(said: dict[str, Any]) -> FinishReason | None:
    """Why the model stopped, if this says that it did."""
    told = text_of(said.get("stop_reason"))
    return FINISHES.get(told, FinishReason.STOP) if told else None


def notes_on(said: dict[str, Any]) -> list[DiagnosticDelta]:
    """What else there is to say of a stop: a reason that is new to us, or why a request was refused."""
    told = text_of(said.get("stop_reason"))
    notes = []
    if told not in FINISHES:
        notes.append(DiagnosticDelta("unknown_finish", f"the upstream stopped with {told!r}"))
    details = object_of(said.get("stop_details"))
    why = [text for name in ("category", "explanation") if (text := text_of(details.get(name)))]
    if why:
        notes.append(DiagnosticDelta("stop_details", f"the upstream stopped with {told}: {': '.join(why)}"))
    return notes
