"""Declared tools, and the secrets in them."""

from __future__ import annotations

import json
from typing import Any

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
    public_tools,
)
from penstock.protocol.wire import decode
from tests.protocol.reading import back, item, request


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


def test_credentials_of_hosted_tools_are_not_public() -> None:
    mcp: dict[str, Any] = {
        "type": "mcp",
        "server_label": "docs",
        "server_url": "https://user:secret@mcp.example.com/path?key=secret#top",
        "authorization": "secret",
        "headers": {"X-Key": "secret"},
    }
    tools = request(tools=[{"type": "namespace", "name": "n", "tools": [mcp]}, mcp]).tools
    assert isinstance(tools, list)
    public = [back(tool) for tool in public_tools(tools)]
    assert "secret" not in json.dumps(public)
    assert public[1] == {"type": "mcp", "server_label": "docs", "server_url": "https://mcp.example.com/path"}
    assert public[0]["tools"] == [public[1]]
    assert back(tools[1]) == mcp, "the upstream still gets them"


@pytest.mark.parametrize("url", ["mcp.example.com", "", "https://mcp.example.com", 5])
def test_a_server_url_without_credentials_stays_unchanged(url: object) -> None:
    tools = request(tools=[{"type": "mcp", "server_url": url}]).tools
    assert isinstance(tools, list)
    assert back(public_tools(tools)[0])["server_url"] == url


def test_a_function_may_have_a_parameter_called_like_a_secret() -> None:
    function = {"type": "function", "name": "f", "parameters": {"headers": {}}, "headers": {}}
    tools = request(tools=[function]).tools
    assert isinstance(tools, list)
    assert public_tools(tools) == tools


def test_a_function_is_normalised_with_nulls_for_absent_fields() -> None:
    assert back(FunctionTool(name="f", strict=False).normalised()) == {
        "type": "function",
        "name": "f",
        "description": None,
        "parameters": None,
        "strict": False,
    }
