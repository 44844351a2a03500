from __future__ import annotations

from typing import Any

from penstock.protocol.content import FileCitation, UnknownAnnotation, UrlCitation
from penstock.protocol.items import UnknownItem, WebSearchCall
from penstock.protocol.request import CreateResponse, JsonSchemaFormat, TextConfig
from penstock.protocol.response import response_for
from penstock.protocol.wire import to_builtins
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    AnnotationDelta,
    Delta,
    EventDelta,
    FinishReason,
    ItemDelta,
    ReasoningDelta,
    SummaryDelta,
    TextDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from tests.stream.running import machine, of_type


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


def test_in_the_strict_accent_citations_are_url_citations_or_null() -> None:
    deltas: list[Delta] = [
        TextDelta("x"),
        AnnotationDelta(FileCitation(file_id="f")),
        AnnotationDelta(UnknownAnnotation(type="page", extra={"url": "https://example.com", "title": 1})),
        AnnotationDelta(UrlCitation(url="https://example.com/2")),
    ]
    strict = converted("openresponses", deltas)
    added = [event["annotation"] for event in of_type(strict, "output_text.annotation.added")]
    assert added[0] is None
    assert [each["url"] for each in added[1:]] == ["https://example.com", "https://example.com/2"]
    closed = of_type(strict, "content_part.done")[0]["part"]["annotations"]
    assert closed == added[1:] == strict[-1]["response"]["output"][0]["content"][0]["annotations"]
    (item,) = converted("openai", deltas)[-1]["response"]["output"]
    assert [each["type"] for each in item["content"][0]["annotations"]] == [
        "file_citation",
        "page",
        "url_citation",
    ]


def test_only_the_strict_accent_omits_the_json_schema_from_the_echo() -> None:
    format = JsonSchemaFormat(name="n", schema={"type": "object"})
    request = CreateResponse(model="m", text=TextConfig(format=format))
    stream = ResponseStreamStateMachine(response_for(request, id="resp_1", created_at=1), clock=lambda: 1)
    created = stream.start()[0]
    echoes = {name: to_builtins(accent()(created)) for name, accent in ACCENTS.items()}
    formats = {name: echo["response"]["text"]["format"] for name, echo in echoes.items()}
    assert formats["openresponses"]["schema"] is None
    assert formats["openai"]["schema"] == formats["copilot"]["schema"] == {"type": "object"}
