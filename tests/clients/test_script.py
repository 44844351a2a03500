"""How a scripted model finds a tool and fills its arguments."""

from __future__ import annotations

import pytest

from tests.clients.script import (
    Call,
    Declared,
    Json,
    ScriptError,
    arguments_for,
    chosen,
    function,
    patch,
    shell,
    write,
)

TEXT = {"type": "string"}


def declared(name: str, *required: str, **properties: Json) -> Declared:
    return Declared(name, "", {"type": "object", "properties": properties, "required": list(required)})


OPERATION = {
    "anyOf": [
        {"type": "object", "properties": {"type": {"const": "delete_file"}, "path": TEXT}},
        {"type": "object", "properties": {"type": {"enum": ["create_file"]}, "path": TEXT, "diff": TEXT}},
    ]
}

CASES: dict[str, tuple[Call, Declared, Json]] = {
    "a command as a line": (shell("ls"), declared("exec", cmd=TEXT), {"cmd": "ls"}),
    "a command as words": (
        shell("ls"),
        declared("local_shell", command={"type": "array", "items": TEXT}),
        {"command": ["bash", "-lc", "ls"]},
    ),
    "a list of commands": (
        shell("ls"),
        declared("shell", commands={"type": "array", "items": TEXT}),
        {"commands": ["ls"]},
    ),
    "a nested command": (
        shell("ls"),
        declared("shell", "action", action={"type": "object", "properties": {"cmd": TEXT}}),
        {"action": {"cmd": "ls"}},
    ),
    "a whole patch": (patch("*** Begin"), declared("apply_patch", input=TEXT), {"input": "*** Begin"}),
    "a patch of one file": (
        write("a.txt", "x\n"),
        declared("apply_patch", "operation", operation=OPERATION),
        {"operation": {"type": "create_file", "path": "a.txt", "diff": "+x\n"}},
    ),
    "a function in a namespace": (
        function("add", a=1),
        declared("math__add", a={"type": "integer"}),
        {"a": 1},
    ),
    "a required argument without a value": (function("add"), declared("add", "why", why=TEXT), {"why": ""}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_call_follows_the_declared_schema(case: str) -> None:
    call, tool, arguments = CASES[case]
    assert chosen(call, [declared("other", x=TEXT), tool]) == (tool.name, arguments)


def test_a_tool_that_was_not_offered_is_an_error_that_lists_the_offers() -> None:
    with pytest.raises(ScriptError, match="wants to call add, but was offered other"):
        chosen(function("add"), [declared("other")])


def test_arguments_without_a_schema_are_an_empty_object() -> None:
    assert arguments_for({}, {"a": 1}) == {}
