"""Declared tools, and the secrets in them."""

from __future__ import annotations

import pytest

from penstock.errors import DecodeError
from penstock.protocol.items import (
    AdditionalTools,
    ToolSearchOutput,
)
from penstock.protocol.request import (
    CreateResponse,
)
from penstock.protocol.tools import (
    CustomTool,
    FunctionTool,
    NamespaceTool,
)
from penstock.protocol.wire import decode
from tests.protocol.reading import item, request


def nested(depth: int) -> bytes:
    opening = b'{"type":"namespace","name":"a","tools":['
    return b'{"tools":[' + opening * depth + b"]}" * depth + b"]}"


def test_tools_may_be_declared_inside_the_input() -> None:
    """Client 1: all tools of Codex for some models, and the result of a tool search."""
    function = {"type": "function", "name": "add"}
    space = {"type": "namespace", "name": "functions", "description": "", "tools": [function]}
    declared = item({"type": "additional_tools", "role": "developer", "tools": [space]})
    found = item({"type": "tool_search_output", "execution": "client", "tools": [function]})
    assert declared == AdditionalTools(
        role="developer", tools=[NamespaceTool(name="functions", tools=[FunctionTool(name="add")])]
    )
    assert found == ToolSearchOutput(execution="client", tools=[FunctionTool(name="add")])


def test_a_namespace_holds_any_tool_at_any_depth() -> None:
    inner = {"type": "namespace", "name": "b", "tools": [{"type": "custom", "name": "exec", "x": 1}]}
    tools = request(tools=[{"type": "namespace", "name": "a", "tools": [inner]}]).tools
    assert tools == [
        NamespaceTool(
            name="a", tools=[NamespaceTool(name="b", tools=[CustomTool(name="exec", extra={"x": 1})])]
        )
    ]


def test_tools_that_are_nested_too_deeply_are_a_decode_error() -> None:
    assert isinstance(decode(nested(20), CreateResponse), CreateResponse)
    for depth in (300, 100_000):
        with pytest.raises(DecodeError, match="nested too deeply"):
            decode(nested(depth), CreateResponse)
