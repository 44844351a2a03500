"""Comparison of values and of streamed text."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.stream.checker import StreamChecker
from penstock.stream.checker.state import Findings, ItemState, PartState, Text, same, show
from tests.stream import lawful
from tests.stream.checker.broken_streams import Broken, check


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        (1, 1.0, True),
        ({"a": [1, {"b": False}]}, {"a": [1, {"b": 0}]}, False),
        ({"a": 1, "b": True}, {"b": True, "a": 1.0}, True),
        ([("x", True)], [("x", 1)], False),
        ([1], [1, 1], False),
        ("1", 1, False),
        (None, False, False),
    ],
)
def test_booleans_and_numbers_are_never_equal(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) == same(other, one) == equal


def test_text_is_joined_only_to_compare_equal_lengths() -> None:
    text = Text()
    for _ in range(1000):
        text.add("ab")
    assert not text.equals("ab")
    assert not text.equals("ab" * 1001)
    assert len(text._chunks) == 1000
    assert text.equals("ab" * 1000)
    assert len(text._chunks) == 1
    assert not text.equals("ba" * 1000)
    assert not text.equals(None)


@pytest.mark.e2e
def test_values_nested_too_deeply_to_compare_count_as_different() -> None:
    def nest() -> Any:
        value: Any = []
        for _ in range(20_000):
            value = [value]
        return value

    for stream in (lawful.text(), lawful.heartbeats(), lawful.annotated_text()):
        broken = Broken(stream)
        for event in broken.events:
            for field in ("item", "part", "annotation"):
                if isinstance(event.get(field), dict):
                    event[field]["extra"] = nest()
            for item in event.get("response", {}).get("output", []):
                item["extra"] = nest()
        assert {rule for rule, _ in check(broken.events)} <= {
            "terminal.output-differs",
            "item.content-differs",
            "snapshot.output",
            "annotation.differs",
        }
    checker = StreamChecker()
    assert [found.rule for found in checker.feed_frame(None, "[" * 100_000)] == ["transport.json"]


def test_a_fault_is_recorded_once_per_subject() -> None:
    findings = Findings(tolerant=False)
    findings.position = 7
    findings.report("item.id", "first", about=1)
    findings.report("item.id", "again", about=1)
    findings.report("item.id", "another item", about=2)
    findings.report("item.id", "no subject")
    findings.report("item.id", "no subject")
    found = findings.take()
    assert [violation.message for violation in found] == ["first", "another item", "no subject", "no subject"]
    assert {violation.sequence for violation in found} == {7}
    assert (findings.count, findings.take()) == (4, [])


def test_tolerant_findings_ignore_strict_rules() -> None:
    findings = Findings(tolerant=True)
    findings.report("delta.empty", "strict")
    findings.report("item.id", "in both modes")
    assert [violation.rule for violation in findings.take()] == ["item.id"]


def test_a_part_matches_its_type_and_its_streamed_text() -> None:
    part = PartState("output_text", "content part 0")
    part.text.add("Hel")
    part.text.add("lo")
    assert part.matches({"type": "output_text", "text": "Hello"})
    assert not part.matches({"type": "output_text", "text": "Hell"})
    assert not part.matches({"type": "refusal", "text": "Hello"})
    assert not part.matches({"type": "output_text"})
    assert not part.matches(None)
    part.disputed = True
    assert part.matches({"type": "output_text", "text": "Hell"}), "its fault is already reported"


def test_a_part_of_an_unknown_type_matches_by_type_alone() -> None:
    assert PartState("acme:chart", "").matches({"type": "acme:chart", "text": "anything"})


def test_items_and_values_are_short_in_messages() -> None:
    assert str(ItemState(0, 3, "", "")) == "item at 3"
    assert str(ItemState(0, 3, "fc_1", "function_call")) == "function_call 'fc_1'"
    assert str(ItemState(0, 0, "x" * 1000, "y" * 1000)) == f"{'y' * 40} {'x' * 80!r}"
    assert (show("x" * 1000), show(None), show(["secret"])) == (repr("x" * 80), "NoneType", "list")
