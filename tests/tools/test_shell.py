"""The shell tool: command lines as their own item, with their own events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.items import ShellCall, ShellCallOutput
from penstock.protocol.tools import ShellTool, Tool
from penstock.stream.deltas import FinishDelta, FinishReason
from penstock.tools.families import family_of
from penstock.tools.shell import FAMILY
from tests.stream.running import call_in_pieces, codes, of_type, run

TOOLS: list[Tool] = [ShellTool()]


def made(arguments: str, *, size: int = 1, **fields: Any) -> tuple[dict[str, Any], list[Any], set[str]]:
    """Return the done item, the events and the diagnostics of a call whose arguments arrive in pieces."""
    stream, events = run(call_in_pieces("shell", arguments, size, **fields), TOOLS)
    [done] = of_type(events, "output_item.done")
    return done["item"], events, codes(stream)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=3), st.integers(1, 9))
def test_commands_stream_and_end_as_the_model_wrote_them(commands: list[str], size: int) -> None:
    item, events, diagnostics = made(json.dumps({"commands": commands, "timeout_ms": 5}), size=size)
    assert item["type"] == "shell_call"
    assert item["action"] == {"commands": commands, "max_output_length": None, "timeout_ms": 5}
    [added] = of_type(events, "output_item.added")
    assert added["item"]["action"] == {"commands": [], "max_output_length": None, "timeout_ms": None}
    assert [event["command"] for event in of_type(events, "shell_call_command.added")] == [""] * len(commands)
    streamed = [""] * len(commands)
    for event in of_type(events, "shell_call_command.delta"):
        streamed[event["command_index"]] += event["delta"]
    assert streamed == commands
    assert [event["command"] for event in of_type(events, "shell_call_command.done")] == commands
    assert diagnostics == set()


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        ('{"command": "ls -a"}', ["ls -a"]),
        ('{"commands": "ls -a"}', ["ls -a"]),
        ('{"cmd": ["echo", "a b"]}', ["echo 'a b'"]),
        ('{"action": {"command": ["ls", 1]}}', ["ls 1"]),
        ('{"commands": [["ls", "-a"], ["pwd"]]}', ["ls -a", "pwd"]),
        ('{"commands": [{"command": "ls -a"}, {"cmd": ["pwd"]}]}', ["ls -a", "pwd"]),
        ('{"commands": ["ls -a", 5]}', ["ls -a"]),
        ("{}", []),
        ("5", ["5"]),
    ],
)
def test_arguments_of_another_shape_still_run_and_are_reported(arguments: str, commands: list[str]) -> None:
    item, events, diagnostics = made(arguments)
    assert item["action"]["commands"] == commands
    assert [event["command"] for event in of_type(events, "shell_call_command.done")] == commands
    assert diagnostics == {"odd_arguments"}


def test_commands_in_the_form_of_the_item_stream_one_by_one() -> None:
    item, events, diagnostics = made('{"action": {"commands": ["ls -la", "echo hi > x"], "timeout_ms": 5}}')
    assert item["action"]["commands"] == ["ls -la", "echo hi > x"]
    assert item["action"]["timeout_ms"] == 5
    assert len(of_type(events, "shell_call_command.delta")) > 10
    assert diagnostics == set()


def test_text_without_json_is_one_command() -> None:
    item, _, diagnostics = made("ls -a", type="custom")
    assert item["action"]["commands"] == ["ls -a"]
    assert diagnostics == {"odd_arguments"}


def test_a_call_that_is_cut_off_keeps_what_was_streamed_and_is_incomplete() -> None:
    call = call_in_pieces("shell", '{"commands":["ls","rm')
    _, events = run([*call, FinishDelta(FinishReason.LENGTH)], TOOLS)
    [done] = of_type(events, "output_item.done")
    assert (done["item"]["status"], done["item"]["action"]["commands"]) == ("incomplete", ["ls", "rm"])
    assert [event["command"] for event in of_type(events, "shell_call_command.done")] == ["ls", "rm"]


def test_an_earlier_call_and_its_output_are_readable() -> None:
    call = ShellCall(call_id="a", action={"commands": ["ls"], "timeout_ms": None, "max_output_length": 9})
    assert FAMILY.arguments(call) == '{"commands":["ls"],"max_output_length":9}'
    results: list[dict[str, Any]] = [
        {"stdout": "x\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "", "stderr": "slow", "outcome": {"type": "timeout"}},
        {"outcome": {"type": "exit", "exit_code": 2}},
    ]
    one, every = (ShellCallOutput(call_id="a", output=given) for given in (results[:1], results))
    assert FAMILY.content(one, lambda _: []) == "exit code 0\nstdout:\nx\n"
    assert FAMILY.content(every, lambda _: []) == (
        "Command 1: exit code 0\nstdout:\nx\n\n\n"
        "Command 2: timed out\nstderr:\nslow\n\n"
        "Command 3: exit code 2"
    )


def test_a_shell_in_a_container_is_the_providers() -> None:
    assert family_of(ShellTool()) is family_of(ShellTool(environment={"type": "local"})) is FAMILY
    assert family_of(ShellTool(environment={"type": "container_auto"})) is None
