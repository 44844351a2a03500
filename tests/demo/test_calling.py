"""Which tools the demo model calls, and with which arguments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.demo.asking import (
    CLOCK,
    DOCS,
    PATCH,
    WEATHER,
    after_call,
    ask,
    user,
)


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("What is the weather in Ulm?", ["get_weather"]),
        ("Please call get_weather.", ["get_weather"]),
        ("Use the get weather tool", ["get_weather"]),
        ("What does the clock of this city say?", ["get_time"]),
        ("The time and the weather in Ulm, please", ["get_time", "get_weather"]),
        ("Do you know my grandmother?", []),
        ("What can you get me?", []),
    ],
)
def test_a_tool_is_called_when_the_prompt_calls_for_it(prompt: str, names: list[str]) -> None:
    result = ask(prompt, tools=[WEATHER, CLOCK])
    assert [item["name"] for item in result.items("function_call")] == names
    assert bool(result.text) is not bool(names)


def test_of_many_tools_only_one_that_is_named_is_called() -> None:
    """An editor's agent declares forty tools, so a single common word must not match."""
    many = [WEATHER, CLOCK, *({"type": "function", "name": f"do_{n}"} for n in range(30))]
    assert ask("What is the weather in Ulm?", tools=many).items("function_call") == []
    result = ask("Call get_weather for Ulm.", tools=many)
    assert [item["name"] for item in result.items("function_call")] == ["get_weather"]


def test_arguments_come_from_the_prompt_in_fragments() -> None:
    result = ask("The weather in San Francisco, CA for 3 days in celsius: unit?", tools=[WEATHER])
    assert result.arguments == [{"city": "San Francisco, CA", "days": 3, "unit": "celsius"}]
    deltas = [event for event in result.events if event["type"].endswith("arguments.delta")]
    assert len(deltas) > 5


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", []),
        ("none", []),
        ("required", ["get_weather"]),
        ({"type": "function", "name": "get_time"}, ["get_time"]),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "get_time"}],
            },
            ["get_time"],
        ),
    ],
)
def test_tool_choice_is_honoured(choice: Any, names: list[str]) -> None:
    result = ask("Hello.", tools=[WEATHER, CLOCK], tool_choice=choice)
    assert [item["name"] for item in result.items("function_call")] == names


def test_no_tool_is_called_under_none() -> None:
    assert not ask("The weather in Ulm?", tools=[WEATHER], tool_choice="none").items("function_call")


def test_a_tool_that_is_not_allowed_is_not_called() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]}
    result = ask("The weather and the time in Ulm?", tools=[WEATHER, CLOCK], tool_choice=allowed)
    assert [item["name"] for item in result.items("function_call")] == ["get_time"]
    assert "diagnostics" not in result.response


@pytest.mark.parametrize("limit", [{"parallel_tool_calls": False}, {"max_tool_calls": 1}], ids=str)
def test_parallel_calls_can_be_disabled(limit: dict[str, Any]) -> None:
    result = ask("The weather and the time in Ulm?", tools=[WEATHER, CLOCK], **limit)
    assert [item["name"] for item in result.items("function_call")] == ["get_weather"]


def test_a_custom_tool_gets_raw_text() -> None:
    result = ask('apply_patch with `*** Begin\\n"x"`', tools=[PATCH])
    (call,) = result.output
    assert (call["type"], call["input"]) == ("custom_tool_call", '*** Begin\\n"x"')
    assert "diagnostics" not in result.response


def test_a_tool_in_a_namespace_comes_back_in_it() -> None:
    (call,) = ask("search in Ulm", tools=[DOCS]).output
    assert (call["name"], call["namespace"]) == ("search", "mcp__docs")


def test_tools_that_come_with_the_input_are_called_too() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [WEATHER]}
    (call,) = ask({"input": [added, user("The weather in Ulm?")]}).output
    assert call["name"] == "get_weather"


def test_a_new_question_is_a_new_call_under_a_new_id() -> None:
    first = ask("The weather in Ulm?", tools=[WEATHER])
    given = [*after_call(first, "rain"), user("The weather in Ulm?")]
    second = ask({"input": given}, tools=[WEATHER])
    assert second.output[0]["name"] == "get_weather"
    assert second.output[0]["call_id"] != first.output[0]["call_id"]


def test_arguments_that_may_not_match_are_reported() -> None:
    schema = {"type": "object", "properties": {"a": False}, "required": ["a"]}
    result = ask("call it", tools=[{**WEATHER, "parameters": schema}], tool_choice="required")
    assert [each["code"] for each in result.response["diagnostics"]] == ["schema_not_kept"]


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "string"}, {"anyOf": []}])
def test_odd_parameters_still_get_an_object(parameters: Any) -> None:
    result = ask("call it", tools=[{**WEATHER, "parameters": parameters}], tool_choice="required")
    assert isinstance(result.arguments[0], dict)


@pytest.mark.parametrize(
    ("prompt", "tool", "type", "fields"),
    [
        ("Use the shell to run `ls -a`", {"type": "shell"}, "shell_call", {"commands": ["ls -a"]}),
        ("Use the local shell: `ls`", {"type": "local_shell"}, "local_shell_call", {"command": ["ls"]}),
        (
            'Apply a patch: create_file notes.txt with "hello"',
            {"type": "apply_patch"},
            "apply_patch_call",
            {"type": "create_file", "path": "notes.txt", "diff": "+hello"},
        ),
        (
            "Apply a patch: delete the file notes.txt",
            {"type": "apply_patch"},
            "apply_patch_call",
            {"type": "delete_file", "path": "notes.txt"},
        ),
        (
            'Do a tool search for "maps"',
            {"type": "tool_search", "execution": "client"},
            "tool_search_call",
            {"query": "maps"},
        ),
    ],
)
def test_a_typed_tool_is_called_as_its_own_item(
    prompt: str, tool: dict[str, Any], type: str, fields: dict[str, Any]
) -> None:
    [item] = ask(prompt, tools=[tool]).items(type)
    made = item.get("action") or item.get("operation") or item["arguments"]
    assert {name: made[name] for name in fields} == fields


def test_a_hosted_tool_is_not_called() -> None:
    result = ask("Do a web search for maps", tools=[{"type": "web_search"}])
    assert result.text
