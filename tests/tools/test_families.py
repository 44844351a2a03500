"""The table of families: every type of call is known by its declaration, its item and its output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.protocol.items import CLIENT_CALLS, ID_PREFIXES, Message
from penstock.protocol.tools import (
    ApplyPatchTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    ShellTool,
    Tool,
    ToolSearchTool,
    WebSearchTool,
)
from penstock.stream.deltas import Delta, ToolCallDelta
from penstock.tools.families import (
    FAMILIES,
    answered_call_id,
    arguments_of,
    call_id_of,
    family_of,
    family_of_call,
)
from penstock.tools.family import ToolFamily
from tests.stream.running import of_type, run

TOOLS: dict[str, Tool] = {
    "function": FunctionTool(name="look"),
    "custom": CustomTool(name="note"),
    "local_shell": LocalShellTool(),
    "shell": ShellTool(),
    "apply_patch": ApplyPatchTool(),
    "tool_search": ToolSearchTool(execution="client"),
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "function": {"at": "sea"},
    "custom": {"input": "a"},
    "local_shell": {"command": ["ls"]},
    "shell": {"commands": ["ls"]},
    "apply_patch": {"type": "create_file", "path": "a", "diff": "+b"},
    "tool_search": {"query": "maps"},
}


@pytest.mark.parametrize("type", FAMILIES)
def test_the_types_of_a_family_belong_together(type: str) -> None:
    family = FAMILIES[type]
    item_type = family.stream.item_type
    assert family_of(TOOLS[type]) is family
    assert item_type in CLIENT_CALLS
    assert item_type in ID_PREFIXES


@pytest.mark.parametrize("type", FAMILIES)
def test_the_declared_schema_accepts_what_the_family_reads(type: str) -> None:
    """The arguments survive the way to the client and back into the history, without a diagnostic."""
    family: ToolFamily = FAMILIES[type]
    tool, arguments = TOOLS[type], ARGUMENTS[type]
    declared = family.declare(tool)
    assert declared.parameters["type"] == "object"
    if type != "function":
        fields, required = declared.parameters["properties"], declared.parameters["required"]
        assert fields.keys() >= arguments.keys() >= {*required}
    deltas: list[Delta] = [ToolCallDelta(key=0, id="call_1", name=family.name(tool), arguments=arguments)]
    stream, events = run(deltas, [tool])
    assert stream.diagnostics == []
    [done] = of_type(events, "output_item.done")
    assert done["item"]["id"].startswith(f"{ID_PREFIXES[family.stream.item_type]}_")
    [call] = stream.snapshot.output
    assert family_of_call(call) is family
    assert call_id_of(call) == "call_1"
    assert json.loads(arguments_of(call)) == arguments


def test_other_items_and_tools_have_no_family() -> None:
    message = Message(role="user", content="call_1")
    assert family_of(WebSearchTool()) is None
    assert family_of_call(message) is None
    assert call_id_of(message) == answered_call_id(message) == ""


def test_a_call_to_a_declared_hosted_tool_is_not_sent_to_the_client() -> None:
    deltas: list[Delta] = [ToolCallDelta(key=0, id="a", name="web_search", arguments="{}")]
    stream, events = run(deltas, [WebSearchTool()])
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "tool_not_allowed"
    assert [each.code for each in stream.diagnostics] == ["hosted_tool_called"]
    assert not of_type(events, "output_item.added")


def test_a_call_to_a_tool_that_is_not_declared_is_passed_on() -> None:
    deltas: list[Delta] = [ToolCallDelta(key=0, id="a", name="web_search", arguments="{}")]
    stream, events = run(deltas, [ShellTool()])
    [done] = of_type(events, "output_item.done")
    assert (done["item"]["type"], done["item"]["name"]) == ("function_call", "web_search")
    assert [each.code for each in stream.diagnostics] == ["undeclared_tool"]
