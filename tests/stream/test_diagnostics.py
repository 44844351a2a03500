"""Diagnostics are counted, and their number is bounded."""

from __future__ import annotations

from penstock.stream.deltas import (
    ToolCallDelta,
)
from penstock.stream.diagnostics import MESSAGES, OTHERS, Diagnostics
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


def test_repeated_messages_are_counted_and_kept_in_order() -> None:
    diagnostics = Diagnostics()
    for message in ("b", "a", "b"):
        diagnostics.report("code", message)
    assert [(each.message, each.count) for each in diagnostics.entries] == [("b", 2), ("a", 1)]


def test_many_messages_of_one_code_do_not_crowd_out_other_codes() -> None:
    diagnostics = Diagnostics()
    for number in range(100):
        diagnostics.add("undeclared_tool", name=f"tool_{number}")
    diagnostics.add("glued_calls")
    entries = diagnostics.entries
    assert [each.code for each in entries] == ["undeclared_tool"] * 9 + ["glued_calls"]
    assert (entries[8].message, entries[8].count) == (OTHERS, 92)


def test_a_message_of_any_length_is_shortened() -> None:
    diagnostics = Diagnostics()
    diagnostics.report("c" * 1000, "m" * 1000)
    (entry,) = diagnostics.entries
    assert (len(entry.code), len(entry.message)) == (500, 500)


def test_every_message_can_be_formatted() -> None:
    class Anything(dict[str, str]):
        def __missing__(self, key: str) -> str:
            return key

    for code, message in MESSAGES.items():
        assert message.format_map(Anything()), code
        assert not message.endswith("."), code
