"""Snapshots: one id, the right status, the items as streamed, usage that adds up."""

from __future__ import annotations

import pytest

from tests.stream import lawful
from tests.stream.checker.broken_streams import (
    COMPLETED,
    CREATED,
    FAILED,
    INCOMPLETE_DETAILS,
    LAST,
    Broken,
    Case,
    assert_found_once,
    assert_tolerated_as_documented,
    check,
)
from tests.stream.checker.fault_cases import SNAPSHOT_CASES


@pytest.mark.parametrize("case", SNAPSHOT_CASES, ids=lambda case: case.id)
def test_a_fault_in_snapshots_is_found_once_under_its_rule(case: Case) -> None:
    assert_found_once(case)


@pytest.mark.parametrize("case", SNAPSHOT_CASES, ids=lambda case: case.id)
def test_tolerant_mode_ignores_faults_in_snapshots_as_documented(case: Case) -> None:
    assert_tolerated_as_documented(case)


@pytest.mark.parametrize("accent", ["openai", "copilot"])
def test_clients_of_openai_s_wire_format_may_get_the_schema_of_a_format(accent: str) -> None:
    events = lawful.nothing().events
    for event in events:
        event["response"]["text"] = {
            "format": {
                "type": "json_schema",
                "name": "answer",
                "description": None,
                "schema": {"type": "object"},
                "strict": True,
            }
        }
    assert check(events, accent=accent) == []
    assert check(events) == [("snapshot.type", 0)]


def test_declared_tools_are_echoed_unchanged() -> None:
    events = lawful.nothing().events
    for event in events:
        event["response"]["tools"] = [{"type": "custom", "name": "apply_patch"}, {"type": "shell"}]
        event["response"]["tool_choice"] = {"type": "custom", "name": "apply_patch"}
    assert check(events) == []


def test_a_failed_response_may_have_incomplete_details() -> None:
    events = Broken(lawful.failed()).set(FAILED, "response.incomplete_details", INCOMPLETE_DETAILS).events
    assert check(events) == []


def test_a_field_missing_from_every_snapshot_is_reported_once() -> None:
    events = lawful.heartbeats().events
    for event in events:
        if "response" in event:
            del event["response"]["store"]
    assert check(events) == [("snapshot.missing", 0)]


@pytest.mark.parametrize("field", ["id", "status"])
def test_tolerant_mode_requires_the_id_and_the_status_of_a_snapshot(field: str) -> None:
    broken = Broken(lawful.nothing()).unset(CREATED, f"response.{field}")
    rule = {"id": "lifecycle.response-id", "status": "lifecycle.status"}[field]
    assert check(broken.events, tolerant=True) == [(rule, 0)]
    assert check(broken.events) == [("snapshot.missing", 0)]


def test_tolerant_mode_requires_the_output_of_the_terminal_snapshot() -> None:
    broken = Broken(lawful.text()).set(COMPLETED, "response", {"id": "resp_1", "status": "completed"})
    assert check(broken.events, tolerant=True) == [("terminal.output", LAST - 1)]
