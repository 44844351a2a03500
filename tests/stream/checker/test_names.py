"""Event and item types, and their names, by accent."""

from __future__ import annotations

import json

import pytest

from penstock.stream.checker.names import Names, is_tool_event
from tests.stream import lawful
from tests.stream.checker.broken_streams import (
    Broken,
    Case,
    assert_found_once,
    assert_tolerated_as_documented,
    check,
)
from tests.stream.checker.fault_cases import NAME_CASES
from tests.stream.lawful import renumber


@pytest.mark.parametrize("case", NAME_CASES, ids=lambda case: case.id)
def test_a_fault_in_names_is_found_once_under_its_rule(case: Case) -> None:
    assert_found_once(case)


@pytest.mark.parametrize("case", NAME_CASES, ids=lambda case: case.id)
def test_tolerant_mode_ignores_faults_in_names_as_documented(case: Case) -> None:
    assert_tolerated_as_documented(case)


@pytest.mark.parametrize("accent", ["openai", "copilot"])
@pytest.mark.parametrize("name", ["ping", "keepalive", "response.rate_limits.updated", "anything"])
def test_clients_of_openai_s_wire_format_may_get_events_of_any_type(accent: str, name: str) -> None:
    events = Broken(lawful.text()).insert(4, {"type": name}).events
    assert check(events, accent=accent) == []
    assert check(events) == [("name.event", 4)]


def test_tolerant_mode_accepts_every_spelling() -> None:
    spellings = {
        "response.reasoning.": "response.reasoning_text.",
        "response.reasoning_summary_text.": "response.reasoning_summary.",
        "response.output_text.annotation.": "response.output_text_annotation.",
    }
    for stream in (lawful.reasoning(), lawful.annotated_text()):
        text = json.dumps(stream.events)
        for old, new in spellings.items():
            text = text.replace(f'"{old}', f'"{new}')
        assert check(json.loads(text), tolerant=True) == []
        assert {rule for rule, _ in check(json.loads(text))} == {"name.accent"}
        lost = [event for event in json.loads(text) if not event["type"].endswith(".delta")]
        assert "part.text-differs" in {rule for rule, _ in check(renumber(lost), tolerant=True)}


@pytest.mark.parametrize(
    ("accent", "spelling"),
    [
        ("openresponses", "response.reasoning.delta"),
        ("openai", "response.reasoning_text.delta"),
        ("copilot", None),
    ],
)
def test_each_accent_reads_raw_reasoning_under_one_name_or_none(accent: str, spelling: str | None) -> None:
    names = Names(accent)
    spellings = ("response.reasoning.delta", "response.reasoning_text.delta")
    assert [name for name in spellings if names.spells(name, spellings[0])] == (
        [spelling] if spelling else []
    )
    assert names.reads_reasoning_text == (spelling is not None)


@pytest.mark.parametrize(
    ("type", "strict"),
    [
        ("message", True),
        ("shell_call", True),
        ("acme:search_call", True),
        ("web_search_call", False),
        (":search_call", False),
        ("acme:", False),
    ],
)
def test_only_clients_of_openai_s_wire_format_get_unknown_item_types(type: str, strict: bool) -> None:
    assert Names("openresponses").allows_item(type) == strict
    assert Names("openai").allows_item(type)
    assert Names("copilot").allows_item(type)


@pytest.mark.parametrize(
    ("type", "belongs"),
    [
        ("response.shell_call_command.delta", True),
        ("response.web_search_call.searching", True),
        ("response.mcp_call_arguments.done", True),
        ("response.output_text.delta", False),
        ("response.web_search_call", False),
    ],
)
def test_sub_events_of_tools_belong_to_an_item(type: str, belongs: bool) -> None:
    assert is_tool_event(type) == belongs
