"""Rendering tools as OpenAI's models get them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.parts.parts import ChatTool
from penstock.tokens.schemas import render_tools


def arguments(schema: Any) -> str:
    """Return the rendering of the only argument of a tool."""
    text = render_tools([ChatTool("t", "", {"type": "object", "properties": {"x": schema}})])
    return text.partition("(_: {\n")[2].partition("}) => any;")[0]


def test_tools_are_a_namespace_of_types() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [ChatTool("get_weather", "Get current weather.\nFor a city.", schema), ChatTool("stop")]
    assert render_tools(tools) == (
        "# Tools\n\n## functions\n\nnamespace functions {\n\n"
        "// Get current weather.\n// For a city.\ntype get_weather = (_: {\ncity: string,\n}) => any;\n\n"
        "type stop = () => any;\n\n"
        "} // namespace functions"
    )


def test_no_tools_are_an_empty_text() -> None:
    assert render_tools([]) == ""


def test_a_repeated_tool_name_is_rendered_once() -> None:
    assert render_tools([ChatTool("a", "one"), ChatTool("a", "two")]) == render_tools([ChatTool("a", "one")])


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer"}, "x?: number,\n"),
        ({"type": "string", "description": "Why"}, "// Why\nx?: string,\n"),
        ({"type": "boolean", "default": True}, "x?: boolean, // default: true\n"),
        ({"enum": ["a", 1, None]}, 'x?: "a" | 1 | null,\n'),
        ({"const": "only"}, 'x?: "only",\n'),
        ({"type": "array", "items": {"type": "string"}}, "x?: string[],\n"),
        ({"type": "array"}, "x?: any[],\n"),
        ({"type": ["string", "null", "string"]}, "x?: string | null,\n"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "x?: string | number,\n"),
        ({"oneOf": [{"type": "string"}]}, "x?: string,\n"),
        ({"properties": {"y": {}}, "required": ["y"]}, "x?: {\ny: any,\n},\n"),
        ({"enum": [{1, 2}]}, "x?: any,\n"),
        ({}, "x?: any,\n"),
        (True, "x?: any,\n"),
        (None, "x?: any,\n"),
    ],
)
def test_schemas_are_rendered_as_types(schema: Any, written: str) -> None:
    assert arguments(schema) == written


def test_a_recursive_schema_is_cut_off() -> None:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    assert arguments(schema).count("[]") == 12


def test_repeated_types_in_nested_schemas_do_not_multiply() -> None:
    schema: Any = {"type": "string"}
    for _ in range(11):
        schema = {"type": ["object", "object", "null", "string"] * 5, "properties": {"x": schema}}
    assert len(arguments(schema)) < 2000


words = st.sampled_from(["type", "properties", "items", "enum", "anyOf", "required", "object", "array", "x"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | words | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


@given(st.text(), st.text(), st.none() | st.dictionaries(words, junk, max_size=4))
def test_any_schema_can_be_rendered(name: str, description: str, schema: Any) -> None:
    assert name in render_tools([ChatTool(name, description, schema)])
