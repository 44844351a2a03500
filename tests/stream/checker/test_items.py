"""Item events: added once, closed once, one id, one call id."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.stream.checker import StreamChecker
from penstock.stream.checker.items import Items
from penstock.stream.checker.names import Names
from penstock.stream.checker.state import Findings
from tests.stream import lawful
from tests.stream.checker.broken_streams import (
    ADDED,
    ARGUMENTS_DONE,
    COMPLETED,
    DONE,
    Broken,
    Case,
    assert_found_once,
    assert_tolerated_as_documented,
    check,
)
from tests.stream.checker.fault_cases import ITEM_CASES
from tests.stream.lawful import Stream


@pytest.mark.parametrize("case", ITEM_CASES, ids=lambda case: case.id)
def test_a_fault_in_items_is_found_once_under_its_rule(case: Case) -> None:
    assert_found_once(case)


@pytest.mark.parametrize("case", ITEM_CASES, ids=lambda case: case.id)
def test_tolerant_mode_ignores_faults_in_items_as_documented(case: Case) -> None:
    assert_tolerated_as_documented(case)


@pytest.mark.parametrize("accent", ["openai", "copilot"])
def test_the_rules_for_items_apply_to_unknown_types(accent: str) -> None:
    stream = lawful.unknown(accent)
    cases: list[tuple[str, Callable[[Broken], object], str, int]] = [
        ("item.id", lambda b: b.set(ADDED, "item.id", ""), ADDED, 0),
        ("item.fields", lambda b: b.unset(ADDED, "item.status"), ADDED, 0),
        ("item.added-twice", lambda b: b.repeat(ADDED), ADDED, 1),
        ("item.done-twice", lambda b: b.repeat(DONE), DONE, 1),
        ("item.done-missing", lambda b: b.drop(DONE), COMPLETED, 0),
        ("item.done-status", lambda b: b.set(DONE, "item.status", "in_progress"), DONE, 0),
    ]
    for rule, change, at, nth in cases:
        broken = Broken(stream)
        change(broken)
        assert check(broken.events, accent=accent) == [(rule, broken.find(at, nth))]


def test_changing_item_ids_are_reported_once_per_item() -> None:
    """Quirk R2: every event has another item id."""
    broken = Broken(lawful.text())
    for number, event in enumerate(broken.events):
        if "item_id" in event:
            event["item_id"] = f"msg_{number + 100}"
    assert check(broken.events) == [("item.id-changed", 3)]


def test_a_duplicate_call_and_a_call_id_used_as_item_id_have_their_own_rules() -> None:
    stream = Stream().work()
    stream.call("fc_a", "call_1").stream_in("{}").end_stream().done()
    stream.call("fc_b", "call_1").stream_in("{}").end_stream().done()
    checker = StreamChecker()
    found = [violation for event in stream.complete().events for violation in checker.feed(event)]
    assert [(violation.rule, violation.sequence) for violation in found] == [("call.duplicate", 6)]
    assert "'fc_a'" in found[0].message
    assert "'fc_b'" in found[0].message
    broken = Broken(lawful.function_call())
    broken.set(ARGUMENTS_DONE, "item_id", "call_1").set(DONE, "item.id", "call_1")
    assert check(broken.events) == [("item.id-is-call-id", broken.find(ARGUMENTS_DONE))]


def test_an_item_added_with_content_and_without_deltas_is_tolerated_from_vendors() -> None:
    stream = Stream().work()
    call = stream.item("function_call", "fc_1", call_id="call_1", name="f", arguments='{"a":1}')
    call.end_stream().done()
    assert check(stream.complete().events, tolerant=True) == []
    assert check(stream.events) == [("item.prefilled", 2)]


@pytest.mark.parametrize("field", ["call_id", "name"])
def test_tolerant_mode_requires_the_call_id_and_the_name_of_a_call(field: str) -> None:
    broken = Broken(lawful.function_call()).unset(ADDED, f"item.{field}").unset(DONE, f"item.{field}")
    rule = {"call_id": "call.id", "name": "call.name"}[field]
    assert (rule, 2) in check(broken.events, tolerant=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.unset(ADDED, "output_index"), "response.output_item.added has no `output_index`"),
        (
            lambda b: b.set(ADDED, "output_index", "0"),
            "response.output_item.added has an invalid `output_index`: '0'",
        ),
        (
            lambda b: b.set(DONE, "item.name", "get_time"),
            "the name of function_call 'fc_1' changed from 'get_weather' to 'get_time'",
        ),
        (
            lambda b: b.set(DONE, "item.arguments", "{}"),
            "the final `arguments` of function_call 'fc_1' differs from what was streamed",
        ),
        (lambda b: b.repeat(DONE), "function_call 'fc_1' was already done"),
    ],
)
def test_a_message_names_the_item_and_the_values(change: Callable[[Broken], object], message: str) -> None:
    broken = Broken(lawful.function_call())
    change(broken)
    checker = StreamChecker()
    assert [violation.message for event in broken.events for violation in checker.feed(event)] == [message]


def test_items_are_ordered_again_only_when_there_are_others() -> None:
    """Each snapshot asks for them: ordering thousands with every heartbeat would take minutes."""
    items = Items(Findings(tolerant=False), Names("openresponses"))
    for index in (1, 0, 2):
        item = {"type": "message", "id": f"msg_{index}"}
        items.added({"type": "response.output_item.added", "output_index": index, "item": item})
        assert items.in_order() is items.in_order()
    assert [item.index for item in items.in_order()] == [0, 1, 2]
