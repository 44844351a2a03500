"""Tools that the provider runs: items, never calls of the client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.dialects.ai_sdk import DIALECT
from penstock.dialects.ai_sdk.hosted import HostedTools
from penstock.protocol.items import UnknownItem, WebSearchCall
from penstock.stream.deltas import Delta, ItemDelta
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.ai_sdk.stream_parts import CALLS, FINISH, call, delta, end, start

HOSTED = {"providerExecuted": True}


RESULT = {"type": "tool-result", "toolCallId": "s1"}


def hosted(name: str, input: Any, result: Any, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"type": "tool-input-start", "id": "s1", "toolName": name, **HOSTED},
        delta("{", "s1"),
        end("s1"),
        {"type": "tool-call", "toolCallId": "s1", "toolName": name, "input": json.dumps(input), **HOSTED},
        {**RESULT, "toolName": name, "result": "not yet", "preliminary": True},
        {**RESULT, "toolName": name, "result": result, **fields},
        FINISH,
    ]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            hosted("web_search", {"query": "q"}, [{"url": "https://a", "title": "A"}, {}]),
            {
                "type": "web_search_call",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "q",
                    "sources": [{"type": "url", "url": "https://a", "title": "A"}],
                },
            },
        ),
        (
            hosted("web_search", {}, {"action": {"type": "search", "query": "q"}}),
            {"action": {"type": "search", "query": "q"}},
        ),
        (
            hosted("web_fetch", {"url": "https://a"}, {}),
            {"action": {"type": "open_page", "url": "https://a"}},
        ),
        (
            hosted("code_execution", {"code": "1"}, {"stdout": "a", "stderr": "b"}, isError=True),
            {"type": "code_interpreter_call", "status": "failed", "code": "1"},
        ),
        (
            hosted("code_interpreter", {"x": 1}, {"type": "r", "value": 1}),
            {"code": '{"x":1}', "outputs": [{"type": "logs", "logs": '{"value":1}'}]},
        ),
        (
            hosted("file_search", {}, {"queries": ["q"], "results": [{"fileId": "f"}]}),
            {"type": "file_search_call", "queries": ["q"], "results": [{"fileId": "f"}]},
        ),
        (
            hosted("image_generation", {}, {"result": "aGk="}),
            {"type": "image_generation_call", "result": "aGk="},
        ),
        (
            hosted("mcp.ask", {"a": 1}, {"serverLabel": "wiki", "output": "yes"}),
            {
                "type": "mcp_call",
                "name": "ask",
                "server_label": "wiki",
                "arguments": '{"a":1}',
                "output": "yes",
            },
        ),
        (
            hosted("mcp.ask", {}, [{"type": "text", "text": "no"}], isError=True),
            {"type": "mcp_call", "status": "failed", "error": "no", "output": None},
        ),
    ],
)
def test_a_tool_of_the_provider_is_an_item_and_not_a_call(parts: list[Any], expected: dict[str, Any]) -> None:
    [item] = checks.answer(DIALECT, parts)["output"]
    assert {name: item.get(name) for name in expected} == expected


def test_a_tool_of_the_provider_without_an_item_is_left_out_with_a_diagnostic() -> None:
    response = checks.answer(DIALECT, hosted("advisor", {}, {"text": "x"}))
    assert response["output"] == []
    assert [each["code"] for each in response["diagnostics"]] == ["server_tool_left_out"]


@pytest.mark.parametrize(
    ("parts", "types"),
    [
        ([{**call(id="s1"), "toolName": "web_search", **HOSTED}, FINISH], ["web_search_call"]),
        ([{**RESULT, "toolName": "web_search", "result": []}, FINISH], ["web_search_call"]),
        (
            [delta("{}", "s1"), {**call(id="s1"), "toolName": "web_search", **HOSTED}, FINISH],
            ["web_search_call"],
        ),
        ([start("s1", toolName="web_search", **HOSTED), call(id="s1"), FINISH], ["web_search_call"]),
        ([call(id="s1"), {**RESULT, "toolName": "get_weather", "result": 1}, CALLS], ["function_call"]),
    ],
)
def test_the_owner_of_a_call_does_not_depend_on_which_parts_arrived(
    parts: list[Any], types: list[str]
) -> None:
    response = checks.answer(DIALECT, parts)
    assert [item["type"] for item in response["output"]] == types
    assert response["status"] == "completed"


# The calls, directly


def search(**fields: Any) -> dict[str, Any]:
    return {"toolName": "web_search", **fields}


def statuses(deltas: list[Delta]) -> list[tuple[bool, str | None]]:
    return [(each.done, getattr(each.item, "status", None)) for each in deltas if isinstance(each, ItemDelta)]


def test_a_call_is_announced_once_and_done_with_its_result() -> None:
    tools = HostedTools()
    assert "s1" not in tools
    first = tools.start("s1", search())
    assert "s1" in tools
    assert [each.done for each in first if isinstance(each, ItemDelta)] == [False]
    assert tools.start("s1", search(input='{"query": "q"}')) == []
    [done] = tools.result("s1", {"result": []})
    assert isinstance(done, ItemDelta)
    assert isinstance(done.item, WebSearchCall)
    assert (done.done, done.item.status, done.item.action) == (
        True,
        "completed",
        {"type": "search", "query": "q"},
    )
    assert tools.result("s1", {"result": []}) == tools.close() == []


def test_a_result_without_a_call_announces_it_first() -> None:
    """The call may be in an earlier answer."""
    assert statuses(HostedTools().result("s1", search(result=[], isError=True)))[-1] == (True, "failed")
    assert len(HostedTools().result("s1", search(result=[]))) == 2


def test_a_call_without_a_result_is_ended_at_the_close() -> None:
    tools = HostedTools()
    tools.start("s1", search())
    tools.start("s2", {"toolName": "unknown"})
    assert statuses(tools.close()) == [(True, "completed")]


def test_a_server_in_the_metadata_makes_any_tool_an_mcp_call() -> None:
    tools = HostedTools()
    metadata = {"anthropic": {"serverName": "wiki"}}
    [start] = tools.start("s1", {"toolName": "web_search", "providerMetadata": metadata})
    assert isinstance(start, ItemDelta)
    assert start.item.type == "mcp_call"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ('{"code": "1"}', "1"),
        ({"code": "1"}, "1"),  # some producers send the object itself
        ("not JSON", ""),
        ("[" * 100_000, ""),
    ],
)
def test_input_is_json_in_text_form_or_an_object(value: Any, code: str) -> None:
    [start] = HostedTools().start("s1", {"toolName": "code_execution", "input": value})
    assert isinstance(start, ItemDelta)
    assert isinstance(start.item, UnknownItem)
    assert isinstance(start.item.extra, dict)
    assert start.item.extra["code"] == code
