from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.content import ReasoningText, SummaryText
from penstock.protocol.items import ReasoningItem, ShellCall, ToolSearchCall, UnknownItem, WebSearchCall
from penstock.protocol.request import CreateResponse, JsonSchemaFormat, ReasoningConfig, TextConfig
from penstock.protocol.response import response_for
from penstock.protocol.wire import to_builtins
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    BlockEnd,
    Delta,
    EventDelta,
    FinishReason,
    ItemDelta,
    ReasoningDelta,
    SummaryDelta,
    TextDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from tests.stream.running import machine, of_type, violations


def converted(accent: str, deltas: list[Delta]) -> list[dict[str, Any]]:
    stream = machine()
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    convert = ACCENTS[accent]()
    return [to_builtins(convert(event)) for event in events + stream.finish(FinishReason.STOP)]


def test_reasoning_events_have_the_names_of_the_accent() -> None:
    deltas: list[Delta] = [ReasoningDelta("hm")]
    assert of_type(converted("openresponses", deltas), "reasoning.delta", "reasoning.done")
    assert len(of_type(converted("openai", deltas), "reasoning_text.delta", "reasoning_text.done")) == 2
    copilot = converted("copilot", deltas)
    assert of_type(copilot, "reasoning_summary_text.delta")[0]["delta"] == "hm"
    assert of_type(copilot, "reasoning_summary_text.done")[0]["text"] == "hm"
    assert of_type(copilot, "reasoning_summary_part.added")[0]["part"] == {"type": "summary_text", "text": ""}
    (item,) = copilot[-1]["response"]["output"]
    assert item["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert "content" not in item


def test_in_copilots_accent_summary_and_content_share_the_indexes_in_order_of_opening() -> None:
    events = converted(
        "copilot", [SummaryDelta("s0", part=0), ReasoningDelta("c0"), SummaryDelta("s1", part=1)]
    )
    deltas = of_type(events, "reasoning_summary_text.delta")
    assert [(event["summary_index"], event["delta"]) for event in deltas] == [(0, "s0"), (1, "c0"), (2, "s1")]
    (item,) = events[-1]["response"]["output"]
    assert [part["text"] for part in item["summary"]] == ["s0", "c0", "s1"]


def test_a_copilot_accent_that_joins_late_puts_the_summary_first() -> None:
    stream = machine()
    stream.start()
    stream.reasoning("raw")
    stream.summary("short")
    (end,) = stream.finish(FinishReason.STOP)[-1:]
    item = to_builtins(ACCENTS["copilot"]()(end))["response"]["output"][0]
    assert [part["text"] for part in item["summary"]] == ["short", "raw"]


def test_the_strict_accent_prefixes_types_outside_the_specification() -> None:
    deltas: list[Delta] = [
        ItemDelta(0, WebSearchCall(), done=False),
        EventDelta("response.web_search_call.searching", {}, key=0),
        ItemDelta(0, WebSearchCall(), done=True),
        ItemDelta(1, UnknownItem(type="acme:note"), done=True),
    ]
    strict = converted("openresponses", deltas)
    assert [item["type"] for item in strict[-1]["response"]["output"]] == [
        "openai:web_search_call",
        "acme:note",
    ]
    assert strict[3]["type"] == "openai:response.web_search_call.searching"
    for accent in ("openai", "copilot"):
        events = converted(accent, deltas)
        assert events[3]["type"] == "response.web_search_call.searching"
        assert events[-1]["response"]["output"][0]["type"] == "web_search_call"


def test_the_strict_accent_has_no_prefix_for_what_the_client_declared() -> None:
    shell = ShellCall(call_id="call_1", action={"commands": []})
    deltas: list[Delta] = [
        ItemDelta(0, shell, done=False),
        EventDelta("response.shell_call_command.added", {}, key=0),
        ItemDelta(0, shell, done=True),
        ItemDelta(1, ToolSearchCall(execution="client"), done=True),
        ItemDelta(2, ToolSearchCall(execution="server"), done=True),
    ]
    strict = converted("openresponses", deltas)
    assert strict[3]["type"] == "response.shell_call_command.added"
    assert [item["type"] for item in strict[-1]["response"]["output"]] == [
        "shell_call",
        "tool_search_call",
        "openai:tool_search_call",
    ]


ASKING = CreateResponse(model="m", reasoning=ReasoningConfig(summary="auto"))


def summarised(accent: str, deltas: list[Delta]) -> list[dict[str, Any]]:
    """Convert the stream of a request that asks for summaries; check that it is lawful."""
    stream = ResponseStreamStateMachine(response_for(ASKING, id="resp_1", created_at=1), clock=lambda: 1)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += stream.finish(FinishReason.STOP)
    assert violations(events, accent) == []
    convert = ACCENTS[accent]()
    return [to_builtins(convert(event)) for event in events]


@pytest.mark.parametrize("accent", list(ACCENTS))
def test_raw_reasoning_is_a_summary_if_the_request_asks_for_one(accent: str) -> None:  # field F2
    events = summarised(accent, [ReasoningDelta("a"), ReasoningDelta("b"), TextDelta("x")])
    assert [each["delta"] for each in of_type(events, "reasoning_summary_text.delta")] == ["a", "b"]
    assert not of_type(events, "reasoning.delta", "reasoning_text.delta")
    reasoning = events[-1]["response"]["output"][0]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "ab"}]
    assert "content" not in reasoning


@pytest.mark.parametrize(("accent", "name"), [("openresponses", "reasoning"), ("openai", "reasoning_text")])
def test_the_first_channel_of_an_item_decides_about_the_item(accent: str, name: str) -> None:
    deltas: list[Delta] = [
        *(SummaryDelta("short", block=0), ReasoningDelta("raw", block=0), BlockEnd(0)),
        *(ReasoningDelta("raw", block=1), SummaryDelta("short", block=1), BlockEnd(1)),
    ]
    events = summarised(accent, deltas)
    with_own_summary, moved = events[-1]["response"]["output"]
    assert [part["text"] for part in with_own_summary["summary"]] == ["short"]
    assert [part["text"] for part in with_own_summary["content"]] == ["raw"]
    assert [each["delta"] for each in of_type(events, f"{name}.delta")] == ["raw"]
    assert [part["text"] for part in moved["summary"]] == ["raw", "short"]
    indexes = [
        each["summary_index"]
        for each in of_type(events, "reasoning_summary_text.delta")
        if each["output_index"] == 1
    ]
    assert indexes == [0, 1]


def test_a_reader_that_starts_late_learns_from_the_response_that_summaries_were_asked_for() -> None:
    first = response_for(ASKING, id="resp_1", created_at=1)
    late = ACCENTS["openai"](first)
    assert late.needs_every_event
    raw = ReasoningItem(id="rs_1", content=[ReasoningText(text="raw")])
    both = ReasoningItem(id="rs_2", summary=[SummaryText(text="s")], content=[ReasoningText(text="raw")])
    assert to_builtins(late.item(raw))["summary"] == [{"type": "summary_text", "text": "raw"}]
    assert late.item(both) == both
    plain = ACCENTS["openai"](response_for(CreateResponse(model="m"), id="resp_1", created_at=1))
    assert not plain.needs_every_event
    assert plain.item(raw) == raw


def test_only_the_strict_accent_omits_the_json_schema_from_the_echo() -> None:
    format = JsonSchemaFormat(name="n", schema={"type": "object"})
    request = CreateResponse(model="m", text=TextConfig(format=format))
    stream = ResponseStreamStateMachine(response_for(request, id="resp_1", created_at=1), clock=lambda: 1)
    created = stream.start()[0]
    echoes = {name: to_builtins(accent()(created)) for name, accent in ACCENTS.items()}
    formats = {name: echo["response"]["text"]["format"] for name, echo in echoes.items()}
    assert formats["openresponses"]["schema"] is None
    assert formats["openai"]["schema"] == formats["copilot"]["schema"] == {"type": "object"}
