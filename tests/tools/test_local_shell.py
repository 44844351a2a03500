"""The local_shell tool: one program with its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.items import LocalShellCall, LocalShellCallOutput
from penstock.protocol.tools import LocalShellTool, Tool
from penstock.stream.deltas import FinishDelta, FinishReason
from penstock.tools.families import answered_call_id, content_of
from penstock.tools.local_shell import FAMILY
from tests.stream.running import call_in_pieces, codes, of_type, run

TOOLS: list[Tool] = [LocalShellTool()]


def made(arguments: str, **fields: Any) -> tuple[dict[str, Any], set[str]]:
    stream, events = run(call_in_pieces("local_shell", arguments, **fields), TOOLS)
    [added], [done] = of_type(events, "output_item.added"), of_type(events, "output_item.done")
    assert added["item"]["action"] == {"type": "exec", "command": [], "env": {}}
    assert done["item"]["type"] == "local_shell_call"
    action: dict[str, Any] = done["item"]["action"]
    return action, codes(stream)


def test_the_arguments_become_an_action() -> None:
    arguments = '{"command":["ls","-a"],"working_directory":"/src","timeout_ms":100,"env":{"A":"b","C":1}}'
    assert made(arguments) == (
        {
            "type": "exec",
            "command": ["ls", "-a"],
            "env": {"A": "b"},
            "working_directory": "/src",
            "timeout_ms": 100,
        },
        set(),
    )


@pytest.mark.parametrize(
    ("arguments", "fields", "command"),
    [
        ('{"command": "ls -a"}', {}, ["bash", "-lc", "ls -a"]),
        ('{"action": {"type": "exec", "cmd": ["ls", 5]}}', {}, ["ls", "5"]),
        ('{"command": []}', {}, []),
        ("{}", {}, []),
        ("ls -a", {"type": "custom"}, ["bash", "-lc", "ls -a"]),
    ],
)
def test_arguments_of_another_shape_still_run_and_are_reported(
    arguments: str, fields: dict[str, Any], command: list[str]
) -> None:
    action, diagnostics = made(arguments, **fields)
    assert action["command"] == command
    assert diagnostics == {"odd_arguments"}


def test_a_call_that_is_cut_off_has_no_command_to_run() -> None:
    call = call_in_pieces("local_shell", '{"command":["rm"]}')
    _, events = run([*call, FinishDelta(FinishReason.LENGTH)], TOOLS)
    [done] = of_type(events, "output_item.done")
    assert (done["item"]["status"], done["item"]["action"]["command"]) == ("incomplete", [])


def test_an_earlier_call_and_its_output_are_readable() -> None:
    call = LocalShellCall(call_id="a", action={"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5})
    assert FAMILY.arguments(call) == '{"command":["ls"],"timeout_ms":5}'
    output = LocalShellCallOutput(id="a", output="done")
    assert answered_call_id(output) == "a"
    assert content_of(output, lambda _: []) == "done"
