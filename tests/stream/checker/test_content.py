"""Parts, texts, annotations and arguments inside an item."""

from __future__ import annotations

import pytest

from tests.stream import lawful
from tests.stream.checker.broken_streams import (
    COMPLETED,
    DELTA,
    DONE,
    PART_ADDED,
    PART_DONE,
    SUMMARY_ADDED,
    SUMMARY_PART,
    TEXT_DONE,
    Broken,
    Case,
    assert_found_once,
    assert_tolerated_as_documented,
    check,
)
from tests.stream.checker.fault_cases import CONTENT_CASES

SUMMARY_DONE = "response.reasoning_summary_part.done"


@pytest.mark.parametrize("case", CONTENT_CASES, ids=lambda case: case.id)
def test_a_fault_in_content_is_found_once_under_its_rule(case: Case) -> None:
    assert_found_once(case)


@pytest.mark.parametrize("case", CONTENT_CASES, ids=lambda case: case.id)
def test_tolerant_mode_ignores_faults_in_content_as_documented(case: Case) -> None:
    assert_tolerated_as_documented(case)


def test_a_delta_that_only_has_log_probabilities_is_not_empty() -> None:
    broken = Broken(lawful.text()).set(DELTA, "delta", "").set(TEXT_DONE, "text", "lo world")
    for type, path in (
        (PART_DONE, "part"),
        (DONE, "item.content.0"),
        (COMPLETED, "response.output.0.content.0"),
    ):
        broken.set(type, f"{path}.text", "lo world")
    assert check(broken.events) == [("delta.empty", 4)]
    logprobs = [{"token": "", "logprob": -0.1, "bytes": [], "top_logprobs": []}]
    for type, path in (
        (DELTA, "logprobs"),
        (TEXT_DONE, "logprobs"),
        (PART_DONE, "part.logprobs"),
        (DONE, "item.content.0.logprobs"),
        (COMPLETED, "response.output.0.content.0.logprobs"),
    ):
        broken.set(type, path, logprobs)
    assert check(broken.events) == []


def test_a_summary_in_a_message_is_reported_once() -> None:
    broken = Broken(lawful.text())
    summary = {"item_id": "msg_1", "output_index": 0, "summary_index": 0, "part": SUMMARY_PART}
    for type in (SUMMARY_DONE, SUMMARY_ADDED):
        broken.insert(3, {"type": type, **summary})
    assert check(broken.events) == [("item.event-kind", 3)]


def test_consequences_of_a_wrong_text_are_not_reported_again() -> None:
    broken = Broken(lawful.text()).set(TEXT_DONE, "text", "Bye").set(PART_DONE, "part.text", "Bye")
    broken.set(DONE, "item.content.0.text", "Bye").set(COMPLETED, "response.output.0.content.0.text", "Bye")
    assert check(broken.events) == [("part.text-differs", broken.find(TEXT_DONE))]


def test_a_part_that_was_opened_without_a_type_gets_that_of_its_text() -> None:
    broken = Broken(lawful.text()).unset(PART_ADDED, "part")
    assert check(broken.events) == [("event.fields", broken.find(PART_ADDED))]
