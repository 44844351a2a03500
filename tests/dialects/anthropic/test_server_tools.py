"""Server tools of Anthropic become items."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.anthropic import DIALECT
from penstock.dialects.anthropic.server_tools import AnthropicServerTools
from penstock.protocol.items import WebSearchCall
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ItemDelta,
    ToolCallDelta,
)
from tests.dialects.anthropic.streams import call, deltas_of, finish, output, result, server_tool, start, text
from tests.dialects.recording_checks import response

WEB = [{"type": "web_search_result", "url": "https://e.org", "title": "E", "encrypted_content": "x"}]


RUN = {"type": "bash_code_execution_result", "stdout": "1\n", "stderr": "", "content": [{"file_id": "f"}]}


MCP = [{"type": "text", "text": "yes"}]


SERVER_TOOLS: list[tuple[str, str, Any, str, Any, dict[str, Any]]] = [
    (
        *("server_tool_use", "web_search", {"query": "q"}, "web_search", WEB),
        {
            "type": "web_search_call",
            "action": {
                "type": "search",
                "query": "q",
                "sources": [{"type": "url", "url": "https://e.org", "title": "E"}],
            },
        },
    ),
    (
        *("server_tool_use", "web_search", {"query": "q"}, "web_search", {"error_code": "unavailable"}),
        {"type": "web_search_call", "action": {"type": "search", "query": "q"}, "status": "failed"},
    ),
    (
        *(
            "server_tool_use",
            "web_fetch",
            {"url": "https://e.org"},
            "web_fetch",
            {"type": "web_fetch_result"},
        ),
        {"type": "web_search_call", "action": {"type": "open_page", "url": "https://e.org"}},
    ),
    (
        *("server_tool_use", "bash_code_execution", {"command": "ls"}, "bash_code_execution", RUN),
        {
            "type": "code_interpreter_call",
            "code": "ls",
            "container_id": "container_1",
            "outputs": [{"type": "logs", "logs": "1\n"}],
            "files": ["f"],
        },
    ),
    (
        *("server_tool_use", "code_execution", {"code": "1"}, "code_execution", {"error_code": "too_many"}),
        {"code": "1", "outputs": [{"type": "logs", "logs": "too_many"}], "status": "failed"},
    ),
    (
        *("server_tool_use", "text_editor_code_execution", {"command": "create"}),
        *("text_editor_code_execution", {"type": "x", "is_file_update": False}),
        {"code": '{"command":"create"}', "outputs": [{"type": "logs", "logs": '{"is_file_update":false}'}]},
    ),
    (
        *("mcp_tool_use", "ask", {"a": 1}, "mcp", MCP),
        {
            "type": "mcp_call",
            "server_label": "docs",
            "name": "ask",
            "arguments": '{"a":1}',
            "output": "yes",
            "error": None,
        },
    ),
]


@pytest.mark.parametrize(("kind", "name", "input", "result_kind", "content", "expected"), SERVER_TOOLS)
def test_a_server_tool_is_an_item_and_not_a_call(
    kind: str, name: str, input: Any, result_kind: str, content: Any, expected: dict[str, Any]
) -> None:
    container = {"container": {"id": "container_1"}}
    use, tool_result = server_tool(0, name, input, kind), result(1, 0, result_kind, content)
    chunks = [start(**container), *use, *tool_result, *text(2, "A"), *finish()]
    tool, message = response(DIALECT, chunks)["output"]
    assert tool == {"status": "completed", **tool, **expected}
    assert message["type"] == "message"
    assert not any(isinstance(delta, ToolCallDelta) for delta in deltas_of(chunks))


def test_a_failed_mcp_call_has_its_error() -> None:
    tool_result = result(1, 0, "mcp", "no such thing", is_error=True)
    (item,) = output(server_tool(0, "ask", {}, "mcp_tool_use"), tool_result, finish())
    assert (item["status"], item["output"], item["error"]) == ("failed", None, "no such thing")


def test_a_server_tool_without_a_result_keeps_its_input() -> None:
    use = server_tool(0, "web_search", {"query": "q"})
    item, sealed = output(use, finish("pause_turn"), status="incomplete")
    assert sealed["type"] == "reasoning"
    assert (item["status"], item["action"]["query"]) == ("incomplete", "q")
    (item,) = response(DIALECT, [start(), *server_tool(0, "web_search", {"query": "q"})])["output"]
    assert (item["status"], item["action"]["query"]) == ("incomplete", "q")


def test_a_server_tool_that_waits_for_a_client_call_is_completed() -> None:
    waiting = server_tool(0, "code_execution", {"code": "1"})
    items = output(waiting, call(1, '{"a":1}'), finish("tool_use"))
    assert [(item["type"], item["status"]) for item in items] == [
        ("code_interpreter_call", "completed"),
        ("reasoning", "completed"),
        ("function_call", "completed"),
    ]


def test_a_result_may_belong_to_an_earlier_message() -> None:
    tool_result = result(0, 9, "code_execution", {"stdout": "1", "stderr": "2"})
    item, sealed = output(tool_result, finish())
    assert sealed["type"] == "reasoning"
    assert (item["type"], item["code"]) == ("code_interpreter_call", "")
    assert item["outputs"] == [{"type": "logs", "logs": "12"}]


def test_a_server_tool_without_an_item_type_is_reported() -> None:
    found = {"type": "tool_search_tool_search_result"}
    use, tool_result = server_tool(0, "tool_search_tool_regex", {}), result(1, 0, "tool_search", found)
    assert output(use, tool_result, finish()) == []
    diagnostics = [
        delta
        for delta in deltas_of([start(), *use, *tool_result, *finish()])
        if isinstance(delta, DiagnosticDelta)
    ]
    assert [each.code for each in diagnostics] == ["server_tool_left_out"]
    alone = deltas_of([start(), *tool_result, *finish()])
    assert any(isinstance(delta, DiagnosticDelta) and "'tool_search'" in delta.message for delta in alone)


def test_a_repeated_server_tool_is_sent_once() -> None:
    use, tool_result = server_tool(0, "web_search", {"query": "q"}), result(1, 0, "web_search", WEB)
    deltas = deltas_of([start(), *use, *use, *tool_result, *tool_result, *finish()])
    items = [delta for delta in deltas if isinstance(delta, ItemDelta)]
    assert [each.done for each in items] == [False, True]
    (item,) = output(use, use, tool_result, tool_result, finish())
    assert item["action"]["query"] == "q"


def items_of(deltas: list[Delta]) -> list[tuple[Any, str, bool]]:
    found = (delta for delta in deltas if isinstance(delta, ItemDelta))
    return [(delta.key, getattr(delta.item, "status", ""), delta.done) for delta in found]


def test_close_completes_only_the_tools_without_a_result() -> None:
    tools = AnthropicServerTools()
    for number in (1, 2):
        tools.start(number, {"type": "server_tool_use", "id": f"t{number}", "name": "web_search"})
    finished = {"type": "web_search_tool_result", "tool_use_id": "t1", "content": []}
    assert items_of(tools.result(3, finished)) == [("t1", "completed", True)]
    assert items_of(tools.close("incomplete")) == [("t2", "incomplete", True)]
    assert tools.close("incomplete") == []


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ({"content": []}, "completed"),
        ({"content": {"error_code": "unavailable"}}, "failed"),
        ({"content": [], "is_error": True}, "failed"),
        ({"content": [], "is_error": "yes"}, "completed"),
        ({}, "completed"),
    ],
)
def test_a_result_fails_by_its_flag_or_its_error_code(result: dict[str, Any], status: str) -> None:
    block = {"type": "web_search_tool_result", "tool_use_id": "t", **result}
    assert items_of(AnthropicServerTools().result(0, block)) == [("t", status, True)]


@pytest.mark.parametrize("fragments", [[], ["{"], ["[1]"], ["[" * 100_000]])
def test_input_that_cannot_be_parsed_is_empty(fragments: list[str]) -> None:
    tools = AnthropicServerTools()
    tools.start(0, {"type": "server_tool_use", "id": "t", "name": "web_search"})
    for fragment in fragments:
        tools.feed(0, fragment)
    tools.feed(9, "of an unknown block")
    (delta,) = tools.close("completed")
    assert isinstance(delta, ItemDelta)
    assert isinstance(delta.item, WebSearchCall)
    assert delta.item.action == {"type": "search", "query": ""}
