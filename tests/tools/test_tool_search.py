"""The tool_search tool that the client runs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.items import ToolSearchCall, ToolSearchOutput
from penstock.protocol.tools import FunctionTool, NamespaceTool, Tool, ToolSearchTool, WebSearchTool
from penstock.tools.families import content_of, family_of
from penstock.tools.identity import ToolIdentityMap
from penstock.tools.tool_search import FAMILY
from tests.stream.running import call_in_pieces, codes, of_type, run

TOOLS: list[Tool] = [ToolSearchTool(execution="client")]


@pytest.mark.parametrize(
    ("arguments", "fields", "expected", "diagnostics"),
    [
        ('{"query": "maps", "limit": 3}', {}, {"query": "maps", "limit": 3}, set()),
        ("", {}, {}, set()),
        ('["maps"]', {}, {"query": '["maps"]'}, {"odd_arguments"}),
        ("maps", {"type": "custom"}, {"query": "maps"}, {"odd_arguments"}),
    ],
)
def test_a_call_has_its_arguments_as_an_object(
    arguments: str, fields: dict[str, Any], expected: dict[str, Any], diagnostics: set[str]
) -> None:
    stream, events = run(call_in_pieces("tool_search", arguments, **fields), TOOLS)
    [added], [done] = of_type(events, "output_item.added"), of_type(events, "output_item.done")
    assert (added["item"]["type"], added["item"]["arguments"]) == ("tool_search_call", {})
    assert done["item"]["arguments"] == expected
    assert (done["item"]["execution"], done["item"]["call_id"]) == ("client", "a")
    assert codes(stream) == diagnostics


def test_a_search_that_the_provider_runs_has_no_family() -> None:
    assert family_of(ToolSearchTool(execution="client")) is FAMILY
    assert family_of(ToolSearchTool(execution="server")) is None
    assert family_of(ToolSearchTool()) is None


def test_the_clients_own_description_and_schema_are_declared() -> None:
    schema = {"type": "object", "properties": {"goal": {"type": "string"}}}
    declared = FAMILY.declare(ToolSearchTool(execution="client", description="Finds.", parameters=schema))
    assert (declared.description, declared.parameters) == ("Finds.", schema)
    assert FAMILY.declare(TOOLS[0]).parameters["required"] == ["query"]


def test_an_output_names_the_tools_as_the_upstream_knows_them() -> None:
    found: list[Tool] = [NamespaceTool(name="maps", tools=[FunctionTool(name="route to")]), WebSearchTool()]
    names = ToolIdentityMap([*TOOLS, *found]).upstream_names
    output = ToolSearchOutput(call_id="a", tools=found)
    assert content_of(output, names) == "These tools can be called now:\nmaps__route_to"
    assert content_of(ToolSearchOutput(call_id="a"), names) == "No tools were found."
    assert FAMILY.arguments(ToolSearchCall(call_id="a", arguments={"query": "x"})) == '{"query":"x"}'
