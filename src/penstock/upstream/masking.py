"""Masks secrets in deltas: some upstreams repeat the key that they were sent (ask K3)."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec.structs import replace

from penstock.stream.deltas import (
    AnnotationDelta,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    ItemDelta,
    OpaqueReasoning,
    ToolCallDelta,
    UpstreamInfo,
)


class MaskingSource(Protocol):
    """The part of an upstream's answer that knows its secrets."""

    def mask(self, text: str) -> str: ...

    def mask_value(self, value: Any) -> Any: ...


FIELDS: dict[type[Any], tuple[str, ...]] = {
    UpstreamInfo: ("id", "model", "service_tier"),
    DiagnosticDelta: ("message",),
    ErrorDelta: ("param",),
    ToolCallDelta: ("id", "name", "namespace", "type"),
    BlockStart: ("phase",),
    AnnotationDelta: ("annotation",),
    OpaqueReasoning: ("data",),
    ItemDelta: ("item",),
    EventDelta: ("type", "fields"),
}
"""The fields of each delta whose text comes from the upstream. Text, reasoning and arguments come from the
model and are passed on unchanged. Keys of blocks and calls are internal."""


def masked(deltas: list[Delta], source: MaskingSource) -> list[Delta]:
    for delta in deltas:
        if delta.__class__ in FIELDS:
            return [_masked(each, source) if each.__class__ in FIELDS else each for each in deltas]
    return deltas  # the usual case


def _masked(delta: Delta, source: MaskingSource) -> Delta:
    changes: dict[str, Any] = {}
    for name in FIELDS[delta.__class__]:
        value = getattr(delta, name)
        if value is not None and (masked_value := source.mask_value(value)) is not value:
            changes[name] = masked_value
    if isinstance(delta, ErrorDelta):
        changes["message"] = source.mask(delta.message)
    return replace(delta, **changes) if changes else delta
