from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from msgspec import UNSET

from penstock.parts.messages import translate_tool_mode, translate_tools
from penstock.parts.parts import ChatTool
from penstock.protocol.wire import to_builtins
from tests.protocol.schema import RELEASES, complaints

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path"],
}
READ = ChatTool("read_file", "Reads a file.", SCHEMA)


def declared(*tools: ChatTool) -> list[dict[str, Any]]:
    return [to_builtins(tool) for tool in translate_tools(tools)]


def test_a_tool_is_declared_with_its_own_schema_and_never_as_strict() -> None:
    assert declared(READ) == [
        {
            "type": "function",
            "name": "read_file",
            "description": "Reads a file.",
            "parameters": SCHEMA,
            "strict": False,
        }
    ]


@pytest.mark.parametrize("schema", [None, {}])
def test_a_tool_without_arguments_takes_an_empty_object(schema: Any) -> None:
    assert declared(ChatTool("now", "", schema)) == [
        {
            "type": "function",
            "name": "now",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        }
    ]


def test_a_name_is_declared_once_and_the_order_is_the_editors() -> None:
    tools = [READ, ChatTool("b"), ChatTool("read_file", "Another."), ChatTool("a"), ChatTool("b")]
    assert [(tool["name"], tool.get("description")) for tool in declared(*tools)] == [
        ("read_file", "Reads a file."),
        ("b", None),
        ("a", None),
    ]
    assert declared() == []


def test_a_schema_that_cannot_be_written_to_is_read_all_the_same() -> None:
    (tool,) = translate_tools([ChatTool("read_file", "", MappingProxyType(SCHEMA))])
    assert tool.parameters == SCHEMA


def test_nothing_is_shared_between_two_translations() -> None:
    one, other = translate_tools([ChatTool("a"), ChatTool("b")])
    assert one.parameters == other.parameters
    assert one.parameters is not other.parameters
    (mine,) = translate_tools([READ])
    assert mine.parameters is not SCHEMA


@pytest.mark.parametrize(
    ("mode", "choice"),
    [
        (1, "auto"),
        ("auto", "auto"),
        (2, "required"),
        ("required", "required"),
        (None, UNSET),
        (9, UNSET),
        ("whatever", UNSET),
    ],
)
def test_the_mode_is_the_choice_when_there_are_tools(mode: Any, choice: Any) -> None:
    assert translate_tool_mode(mode, [READ]) == choice
    assert translate_tool_mode(mode, []) is UNSET


@pytest.mark.parametrize("release", RELEASES)
def test_tools_and_choice_are_what_the_specification_allows(release: str) -> None:
    tools = [READ, ChatTool("now")]
    body = {
        "model": "m",
        "input": "hi",
        "tools": declared(*tools),
        "tool_choice": translate_tool_mode(2, tools),
    }
    assert complaints(release, "CreateResponseBody", body) == []
