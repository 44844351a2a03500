"""The tools of a request, for upstreams that support only functions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.dialects.toolset import UpstreamToolChoice, choice_of, declared_tools, tools_of
from penstock.errors import DecodeError
from penstock.tools.identity import ToolIdentityMap
from tests.dialects.render_cases import (
    EVERY_ITEM,
    EVERY_TOOL,
    EVERY_TOOL_NAMES,
    PATCH,
    SEARCH,
    WEATHER,
    plan_for,
    user,
)


def names(request: dict[str, Any], *, allowed_only: bool = True) -> list[str]:
    return [spec.name for spec in tools_of(plan_for(request), allowed_only=allowed_only)[0]]


def test_tools_come_in_the_order_of_their_declaration_under_their_upstream_names() -> None:
    dotted = {**WEATHER, "name": "a.b"}
    assert names({"tools": [dotted, SEARCH, PATCH]}) == ["a_b", "mcp__docs__search", "apply_patch"]


def test_tools_of_items_are_appended_after_the_declared_ones() -> None:
    first = {"tools": [WEATHER], "input": [user("x")]}
    found = {"type": "tool_search_output", "call_id": "c", "tools": [SEARCH]}
    brought = {"type": "additional_tools", "tools": [PATCH, WEATHER]}
    later = {**first, "input": [user("x"), found, user("y"), brought]}
    assert names(later)[: len(names(first))] == names(first)
    assert names(later) == ["weather", "mcp__docs__search", "apply_patch"]


def test_tools_of_items_have_names_even_if_the_plan_does_not_know_them() -> None:
    plan = plan_for({"tools": [WEATHER], "input": EVERY_ITEM})
    plan = replace(plan, tools=ToolIdentityMap(plan.request.tools or ()))
    specs, _ = tools_of(plan)
    assert [spec.name for spec in specs] == ["weather", "mcp__docs__search", "apply_patch"]


def test_a_custom_tool_has_a_text_argument_and_describes_its_grammar() -> None:
    [spec], diagnostics = tools_of(plan_for({"tools": [PATCH]}))
    assert spec.type == "custom"
    assert spec.parameters["properties"]["input"]["type"] == "string"
    assert spec.parameters["required"] == ["input"]
    assert spec.description == "Changes files.\n\n`input` must match this lark grammar:\nstart: /.+/"
    assert diagnostics == []


@pytest.mark.parametrize(
    ("format", "description"),
    [
        ({"type": "text"}, "D"),
        ({"type": "grammar", "definition": "x"}, "D\n\n`input` must match this grammar:\nx"),
        ({"type": "grammar", "definition": 7}, "D"),
    ],
)
def test_formats_without_a_grammar_add_nothing(format: dict[str, Any], description: str) -> None:
    [spec], _ = tools_of(plan_for({"tools": [{**PATCH, "description": "D", "format": format}]}))
    assert spec.description == description


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"properties": {}, "type": "object"}),
        ({"anyOf": [{}]}, {"type": "object", "anyOf": [{}]}),
        ({"type": "object", "$ref": "#/$defs/A"}, {"type": "object", "$ref": "#/$defs/A"}),
        (WEATHER["parameters"], WEATHER["parameters"]),
    ],
)
def test_parameters_are_always_the_schema_of_an_object(given: Any, expected: dict[str, Any]) -> None:
    [spec], _ = tools_of(plan_for({"tools": [{**WEATHER, "parameters": given}]}))
    assert spec.parameters == expected


def test_strict_is_sent_only_if_the_client_set_it() -> None:
    given = [
        {**WEATHER, "name": name, "strict": strict}
        for name, strict in [("a", True), ("b", False), ("c", None)]
    ]
    specs, _ = tools_of(plan_for({"tools": [*given, WEATHER]}))
    assert [spec.strict for spec in specs] == [True, False, None, None]


def test_other_tools_are_dropped_and_named() -> None:
    specs, diagnostics = tools_of(plan_for({"tools": EVERY_TOOL}))
    assert [spec.name for spec in specs] == EVERY_TOOL_NAMES
    assert {each.code for each in diagnostics} == {"tool_dropped"}
    assert len(diagnostics) == 2
    for type in ("web_search", "image_generation"):
        assert any(repr(type) in each.message for each in diagnostics)


def test_a_tool_declared_twice_is_sent_once_and_a_difference_is_reported() -> None:
    assert tools_of(plan_for({"tools": [WEATHER, WEATHER]}))[1] == []
    specs, diagnostics = tools_of(plan_for({"tools": [WEATHER, {**WEATHER, "description": "Other."}]}))
    assert [spec.description for spec in specs] == ["Tells the weather."]
    assert [each.code for each in diagnostics] == ["repeated_tool"]


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


def test_only_allowed_tools_are_declared_on_request() -> None:
    request = {
        "tools": [WEATHER, PATCH, SEARCH],
        "tool_choice": allowed(
            "auto", {"type": "custom", "name": "apply_patch"}, {"type": "function", "name": "search"}
        ),
    }
    assert names(request) == ["apply_patch", "mcp__docs__search"]
    assert names(request, allowed_only=False) == ["weather", "apply_patch", "mcp__docs__search"]


def test_tools_stay_declared_when_none_may_be_called() -> None:
    assert names({"tools": [WEATHER], "tool_choice": "none"}) == ["weather"]
    assert names({"tools": [WEATHER], "tool_choice": allowed("none")}) == ["weather"]


def test_allowing_only_unsupported_tools_is_reported() -> None:
    specs, diagnostics = tools_of(
        plan_for({"tools": [WEATHER], "tool_choice": allowed("auto", {"type": "web_search"})})
    )
    assert specs == []
    assert "allowed" in diagnostics[-1].message


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, UpstreamToolChoice()),
        ("auto", UpstreamToolChoice("auto")),
        ("none", UpstreamToolChoice("none")),
        ("required", UpstreamToolChoice("required")),
        (allowed("required", {"type": "function", "name": "weather"}), UpstreamToolChoice("required")),
        ({"type": "function", "name": "weather"}, UpstreamToolChoice("tool", "weather")),
        ({"type": "custom", "name": "apply_patch"}, UpstreamToolChoice("tool", "apply_patch")),
        ({"type": "function", "name": "search"}, UpstreamToolChoice("tool", "mcp__docs__search")),
        (
            {"type": "function", "name": "search", "namespace": "mcp__docs"},
            UpstreamToolChoice("tool", "mcp__docs__search"),
        ),
    ],
)
def test_tool_choices_have_upstream_names(choice: Any, expected: UpstreamToolChoice) -> None:
    plan = plan_for({"tools": [WEATHER, PATCH, SEARCH], "tool_choice": choice})
    assert choice_of(plan, tools_of(plan)[0]) == expected


@pytest.mark.parametrize(
    ("tools", "choice", "named"),
    [
        ([{"type": "web_search"}], "required", "web_search"),
        ([], "required", "no tool is declared"),
        ([WEATHER], {"type": "web_search"}, "web_search"),
        ([WEATHER], {"type": "function", "name": "other"}, "other"),
        ([SEARCH], {"type": "function", "name": "search", "namespace": "mcp__git"}, "search"),
        ([WEATHER], "whatever", "whatever"),
        ([WEATHER], allowed("required", {"type": "web_search"}), "weather"),
    ],
)
def test_a_choice_that_cannot_be_honoured_is_refused_with_the_reason(
    tools: list[Any], choice: Any, named: str
) -> None:
    plan = plan_for({"tools": tools, "tool_choice": choice})
    with pytest.raises(DecodeError, match=named) as refused:
        choice_of(plan, tools_of(plan)[0])
    assert refused.value.param == "tool_choice"


def test_a_request_with_text_input_declares_only_its_tools() -> None:
    assert [tool.type for tool in declared_tools(plan_for({"tools": EVERY_TOOL}).request)] == [
        tool["type"] for tool in EVERY_TOOL
    ]
