"""Map Gemini's finish reasons and block reasons (quirk G2, quirk G10)."""

from __future__ import annotations

from typing import Any

from penstock.dialects.plan import Target
from penstock.dialects.presets.rows import vendor_facts
from penstock.stream.deltas import Delta, DiagnosticDelta, ErrorDelta, FinishDelta, FinishReason

NUMBERS = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
)
"""The enum for the integers in gRPC's JSON (quirk G2). Some vendors use other numbers."""

UNSPECIFIED = frozenset({"", "FINISH_REASON_UNSPECIFIED"})

FINISHES: dict[str, FinishReason] = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "SAFETY": FinishReason.CONTENT_FILTER,
    "RECITATION": FinishReason.CONTENT_FILTER,
    "LANGUAGE": FinishReason.CONTENT_FILTER,
    "BLOCKLIST": FinishReason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "SPII": FinishReason.CONTENT_FILTER,
    "MODEL_ARMOR": FinishReason.CONTENT_FILTER,
    "IMAGE_SAFETY": FinishReason.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "IMAGE_RECITATION": FinishReason.CONTENT_FILTER,
}

FAILURES: dict[str, str] = {
    # The model's output is lost, so the turn failed regardless of earlier output.
    "MALFORMED_FUNCTION_CALL": "server_error",
    "UNEXPECTED_TOOL_CALL": "server_error",
    "TOO_MANY_TOOL_CALLS": "server_error",
    "MALFORMED_RESPONSE": "server_error",
    "MISSING_THOUGHT_SIGNATURE": "invalid_request",
}
"""Finish reasons that are failures, and the error code for each."""


def name_of(reason: Any, target: Target) -> str:
    """Return the name of a finish reason given as a name or a number; "" if it is unspecified."""
    if isinstance(reason, int) and not isinstance(reason, bool):
        names = vendor_facts(target.vendor).finish_reasons or NUMBERS
        reason = names[reason] if 0 <= reason < len(names) else str(reason)
    return "" if not isinstance(reason, str) or reason in UNSPECIFIED else reason


def finish(name: str, message: str) -> list[Delta]:
    """Return the deltas for a finish reason, with the vendor's message if there is one."""
    if name in FAILURES:
        code = FAILURES[name]
        type = "invalid_request" if code == "invalid_request" else "server_error"
        return [ErrorDelta(code, message or f"the model's answer ended with {name}", type=type)]
    reason = FINISHES.get(name, FinishReason.STOP)
    details = f"{name}: {message}" if message else name
    deltas: list[Delta] = [FinishDelta(reason)]
    if name not in FINISHES:
        deltas.append(DiagnosticDelta("unknown_finish", f"the upstream stopped with {details}"))
    elif reason is FinishReason.CONTENT_FILTER:
        deltas.append(DiagnosticDelta("content_filter", f"the upstream stopped with {details}"))
    return deltas


def blocked(reason: str, message: str) -> list[Delta]:
    """Return the deltas for a blocked prompt, which has no answer (quirk G10)."""
    details = f"{reason}: {message}" if message else reason
    return [
        FinishDelta(FinishReason.CONTENT_FILTER),
        DiagnosticDelta("content_filter", f"the upstream blocked the prompt with {details}"),
    ]
