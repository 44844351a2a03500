"""Diagnostics are counted, and their number is bounded."""

from __future__ import annotations

from penstock.stream.deltas import (
    ToolCallDelta,
)
from tests.stream.running import (
    machine,
)


def test_diagnostics_are_counted_and_bounded() -> None:
    stream = machine()
    stream.start()
    for number in range(300):
        stream.event("response.web_search_call.searching", {}, key=f"none {number % 2}")
        stream.tool_call(ToolCallDelta(key=number, name=f"tool_{number}"))
    assert len(stream.diagnostics) <= 64
    assert max(diagnostic.count for diagnostic in stream.diagnostics) == 300
