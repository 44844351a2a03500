"""The first snapshot of a response, and snapshots from vendors."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from penstock.protocol.content import (
    OutputText,
    Refusal,
)
from penstock.protocol.items import (
    Message,
    ReasoningItem,
)
from penstock.protocol.request import (
    CreateResponse,
    ReasoningConfig,
    TextFormat,
)
from penstock.protocol.response import ReasoningField, Response, echo_of, response_for
from penstock.protocol.wire import read
from tests.protocol.reading import back, request

# The first snapshot
DEFAULTS: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_760_000_000,
    "completed_at": None,
    "status": "in_progress",
    "incomplete_details": None,
    "model": "demo",
    "previous_response_id": None,
    "instructions": None,
    "output": [],
    "error": None,
    "tools": [],
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "top_p": 1,
    "temperature": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_logprobs": 0,
    "reasoning": {"effort": None, "summary": None},
    "usage": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": True,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""Spec S6."""


def snapshot(**fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = back(response_for(request(**fields), id="resp_1", created_at=1_760_000_000))
    return made


def test_an_empty_request_has_all_31_fields_in_its_snapshot() -> None:
    assert len(DEFAULTS) == 31
    assert snapshot(model="demo") == DEFAULTS


def test_nulls_in_a_request_leave_the_defaults() -> None:
    names = [name for name in CreateResponse.__struct_fields__ if name not in ("extra", "model")]
    assert snapshot(model="demo", **dict.fromkeys(names)) == DEFAULTS


ECHOED: dict[str, Any] = {
    "instructions": "Be brief.",
    "previous_response_id": "resp_0",
    "truncation": "auto",
    "parallel_tool_calls": False,
    "top_p": 0.5,
    "temperature": 0,
    "presence_penalty": 0.25,
    "frequency_penalty": -0.25,
    "top_logprobs": 2,
    "max_output_tokens": 64,
    "max_tool_calls": 1,
    "store": False,
    "background": True,
    "service_tier": "flex",
    "metadata": {"a": "b"},
    "safety_identifier": "user",
    "prompt_cache_key": "thread",
    "tool_choice": {"type": "function", "name": "add"},
}


@pytest.mark.parametrize("name", ECHOED)
def test_a_setting_is_echoed(name: str) -> None:
    assert snapshot(**{"model": "demo", name: ECHOED[name]}) == {**DEFAULTS, name: ECHOED[name]}


# Settings
@pytest.mark.parametrize(
    ("sent", "echoed"), [("0", UNSET), ("", UNSET), ("verbose", UNSET), ("low", "low"), ("high", "high")]
)
def test_a_verbosity_that_is_not_in_the_schema_is_not_echoed(sent: str, echoed: object) -> None:
    assert response_for(request(text={"verbosity": sent}), id="resp_1", created_at=0).text.verbosity == echoed


def test_minimal_effort_is_accepted_and_echoed_as_low() -> None:
    sent_request = request(reasoning={"effort": "minimal"})
    assert sent_request.reasoning == ReasoningConfig(effort="minimal")
    echo = response_for(sent_request, id="resp_1", created_at=0).reasoning
    assert echo is not None
    assert echo.effort == "low"


def test_an_empty_format_stays_empty_and_is_echoed_as_text() -> None:
    sent_request = request(text={"format": {}})
    assert back(sent_request) == {"text": {"format": {}}}
    assert response_for(sent_request, id="resp_1", created_at=0).text.format == TextFormat()


def test_the_model_of_the_response_may_differ_from_the_requested_one() -> None:
    made = response_for(request(model="requested"), id="resp_1", created_at=0, model="answers")
    assert made.model == "answers"
    assert response_for(request(), id="resp_1", created_at=0).model == ""


def test_a_function_is_echoed_unchanged_with_all_its_fields() -> None:
    bare = {"type": "function", "name": "add"}
    full = {**bare, "description": "", "parameters": {}, "strict": False, "defer_loading": True}
    custom = {"type": "custom", "name": "exec"}
    assert snapshot(tools=[bare, full, custom])["tools"] == [
        {**bare, "description": None, "parameters": None, "strict": None},
        full,
        custom,
    ]


def test_the_tools_of_input_items_are_echoed_after_the_declared_ones() -> None:
    more = {"type": "additional_tools", "tools": [{"type": "custom", "name": "patch"}]}
    found = {"type": "tool_search_output", "tools": [{"type": "custom", "name": "late"}]}
    echo = snapshot(tools=[{"type": "shell"}], input=[more, found])["tools"]
    assert [(tool["type"], tool.get("name")) for tool in echo] == [
        ("shell", None),
        ("custom", "patch"),
        ("custom", "late"),
    ]


@pytest.mark.parametrize(
    ("given", "echo"),
    [("auto", "auto"), ("concise", "concise"), ("loud", "auto"), ("none", None), (None, None)],
)
def test_every_request_for_a_summary_is_echoed_as_one(given: str | None, echo: str | None) -> None:
    assert snapshot(reasoning={"summary": given})["reasoning"]["summary"] == echo


def test_a_set_of_allowed_tools_is_echoed_with_its_mode() -> None:
    choice = {"type": "allowed_tools", "tools": [{"type": "function", "name": "add"}]}
    assert snapshot(tool_choice=choice)["tool_choice"] == {**choice, "mode": "auto"}


def test_a_json_schema_is_echoed_unchanged_with_all_its_fields() -> None:
    bare = {"type": "json_schema"}
    full = {**bare, "name": "a", "description": "", "schema": {}, "strict": True}
    assert snapshot(text={"format": bare, "verbosity": "low"})["text"] == {
        "format": {**bare, "name": "", "description": None, "schema": None, "strict": False},
        "verbosity": "low",
    }
    assert snapshot(text={"format": full})["text"] == {"format": full}


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_echoed_as_an_object(conversation: Any) -> None:
    assert snapshot(conversation=conversation)["conversation"] == {"id": "conv_1"}


def test_output_text_joins_the_text_of_all_messages() -> None:
    response = Response(
        id="resp_1",
        output=[
            Message(
                role="assistant", content=[OutputText(text="a"), Refusal(refusal="no"), OutputText(text="b")]
            ),
            ReasoningItem(),
            Message(role="assistant", content="not parts"),
            Message(role="assistant", content=[OutputText(text="c")]),
        ],
    )
    assert response.output_text == "abc"
    assert "output_text" not in back(Response(id="resp_1"))
    assert Response(id="resp_1").output_text == ""


def test_nulls_in_a_snapshot_become_defaults() -> None:
    fields = [name for name in Response.__struct_fields__ if name not in ("id", "extra")]
    snapshot = read({"id": "resp_1", **dict.fromkeys(fields)}, Response)
    assert snapshot == Response(id="resp_1", reasoning=None)


def test_instructions_of_a_vendors_snapshot_may_be_items() -> None:
    snapshot = read({"id": "resp_1", "instructions": [{"role": "system", "content": "Hi"}]}, Response)
    assert snapshot.instructions == [Message(role="system", content="Hi")]


# Numbers
@pytest.mark.parametrize("time", [1760000000, 1760000000.0, 1760000000.987])
def test_a_time_may_be_a_float(time: float) -> None:
    snapshot = read({"id": "resp_1", "created_at": time, "completed_at": time}, Response)
    assert (snapshot.created_at, snapshot.completed_at) == (1760000000, 1760000000)
    assert type(back(snapshot)["created_at"]) is int


@pytest.mark.parametrize(
    ("sent", "effort", "tier"),
    [
        ({}, "high", "flex"),
        ({"effort": None, "service_tier": None}, None, "default"),
        ({"effort": "low", "service_tier": "priority"}, "low", "priority"),
        ({"effort": "max"}, None, "flex"),  # the published schema has no word for it
    ],
)
def test_what_was_not_sent_is_not_echoed(sent: dict[str, str | None], effort: str | None, tier: str) -> None:
    """Field F16."""
    asked = request(reasoning={"effort": "high", "summary": "auto"}, service_tier="flex")
    assert echo_of(asked, sent) == {
        "reasoning": ReasoningField(effort=effort, summary="auto"),
        "service_tier": tier,
    }
    assert echo_of(request(), sent) == {}
