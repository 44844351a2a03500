"""Server tools of Bedrock become items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.dialects.bedrock import DIALECT
from penstock.dialects.bedrock.server_tools import BedrockServerTools
from penstock.stream.deltas import (
    ItemDelta,
    ToolCallDelta,
)
from tests.dialects.bedrock.streams import RAN, START, Chunk, block, deltas_of, finish, output, text
from tests.dialects.recording_checks import response


def server_tool(index: int, name: str, input: Any) -> list[Chunk]:
    begin = {"toolUse": {"toolUseId": f"srv_{index}", "name": name, "type": "server_tool_use"}}
    return block(index, {"toolUse": {"input": json.dumps(input)}}, start=begin)


def result(index: int, of: int, name: str, *content: Chunk, status: str = "success") -> list[Chunk]:
    begin = {"toolResult": {"toolUseId": f"srv_{of}", "type": f"{name}_result", "status": status}}
    return block(index, {"toolResult": list(content)}, start=begin)


FOUND = {"json": {"results": [{"url": "https://e.org"}]}}


SERVER_TOOLS: list[tuple[str, Any, Chunk, dict[str, Any]]] = [
    (
        *("nova_code_interpreter", {"snippet": "1"}, RAN),
        {"type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs", "logs": "1\n"}]},
    ),
    (
        *("nova_code_interpreter", {"snippet": "1"}, {"json": {"isError": True}}),
        {"outputs": [{"type": "logs", "logs": '{"isError":true}'}]},
    ),
    (
        *("nova_grounding", {"query": "q"}, FOUND),
        {
            "type": "web_search_call",
            "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://e.org"}]},
        },
    ),
    (*("nova_grounding", "no object", {"text": "x"}), {"action": {"type": "search", "query": ""}}),
]


@pytest.mark.parametrize(("name", "input", "content", "expected"), SERVER_TOOLS)
def test_a_server_tool_is_an_item_and_not_a_call(
    name: str, input: Any, content: Chunk, expected: dict[str, Any]
) -> None:
    chunks = [START, *server_tool(0, name, input), *result(1, 0, name, content), *text(2, "A"), *finish()]
    tool, message = response(DIALECT, chunks)["output"]
    assert tool == {**tool, "status": "completed", **expected}
    assert message["type"] == "message"
    assert not any(isinstance(delta, ToolCallDelta) for delta in deltas_of(chunks))


def test_a_server_tool_may_fail_or_be_from_an_earlier_answer() -> None:
    (item,) = output(result(0, 9, "nova_code_interpreter", {"text": "no"}, status="error"), finish())
    assert (item["status"], item["outputs"]) == ("failed", [{"type": "logs", "logs": "no"}])


def test_a_server_tool_without_a_result_keeps_its_input() -> None:
    use = server_tool(0, "nova_grounding", {"query": "q"})
    (item,) = output(use, use, finish("max_tokens"), status="incomplete")
    assert (item["status"], item["action"]["query"]) == ("incomplete", "q")


def test_a_repeated_server_tool_is_sent_once() -> None:
    use, tool_result = server_tool(0, "nova_grounding", {"query": "q"}), result(1, 0, "nova_grounding", FOUND)
    deltas = deltas_of([START, *use, *use, *tool_result, *tool_result, *finish()])
    assert [delta.done for delta in deltas if isinstance(delta, ItemDelta)] == [False, True]


def test_a_server_tool_without_an_item_type_is_reported() -> None:
    use, tool_result = server_tool(1, "nova_dream", {}), result(2, 1, "nova_dream", {"text": "x"})
    snapshot = response(DIALECT, [START, *text(0, "A"), *use, *tool_result, *text(3, "B"), *finish()])
    assert [item["content"][0]["text"] for item in snapshot["output"]] == ["AB"]
    assert [each["code"] for each in snapshot["diagnostics"]] == ["server_tool_left_out"]


def test_close_completes_only_the_tools_without_a_result() -> None:
    tools = BedrockServerTools()
    for number in (1, 2):
        tools.start(number, {"toolUseId": f"t{number}", "name": "nova_grounding"})
    tools.start_result(3, {"toolUseId": "t1", "status": "error"})
    (done,) = tools.end_result(3)
    assert isinstance(done, ItemDelta)
    assert (done.key, getattr(done.item, "status", ""), done.done) == ("t1", "failed", True)
    (closed,) = tools.close("incomplete")
    assert isinstance(closed, ItemDelta)
    assert (closed.key, getattr(closed.item, "status", "")) == ("t2", "incomplete")
    assert tools.close("incomplete") == []


def test_events_of_an_unknown_block_are_ignored() -> None:
    tools = BedrockServerTools()
    tools.feed(0, "{}")
    tools.feed_result(0, [{"text": "x"}])
    assert tools.end_result(0) == []
    assert tools.close("completed") == []


@pytest.mark.parametrize(
    ("content", "logs"),
    [
        ([RAN, {"json": {"stdErr": "oops"}}], "1\noops"),
        ([{"text": "plain"}], "plain"),
        ([{"json": {"stdOut": 3}}], ""),
        ([{"image": "x"}], '{"image":"x"}'),
    ],
)
def test_the_logs_of_code_are_its_output_or_its_content(content: list[Chunk], logs: str) -> None:
    tools = BedrockServerTools()
    tools.start_result(0, {"toolUseId": "t", "type": "nova_code_interpreter_result"})
    tools.feed_result(0, content)
    (delta,) = tools.end_result(0)
    assert isinstance(delta, ItemDelta)
    assert (delta.item.extra or {})["outputs"] == ([{"type": "logs", "logs": logs}] if logs else None)
