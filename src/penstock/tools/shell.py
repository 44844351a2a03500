"""`shell`: command lines, run by the client. Each is streamed as the model writes it."""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from penstock.lenient import object_of, text_of
from penstock.protocol.content import JsonObject
from penstock.protocol.events import Event, ShellCommandEvent
from penstock.protocol.items import ShellCall, ShellCallOutput
from penstock.protocol.tools import ShellTool
from penstock.tools.family import (
    Declaration,
    Numbers,
    ToolFamily,
    TypedCallStream,
    fields_of,
    json_of,
    positive,
)
from penstock.tools.jsontext import StringValues

_DESCRIPTION = (
    "Run command lines in a shell on the user's computer, one after the other, and return their output."
)
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "commands": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The command lines, in the order to run them.",
        },
        "timeout_ms": {"type": "integer", "description": "Stop each command after this many milliseconds."},
        "max_output_length": {
            "type": "integer",
            "description": "Return at most this many characters of the output.",
        },
    },
    "required": ["commands"],
}
_WRAPPER = "action"
_COMMAND_FIELDS = ("commands", "command", "cmd", "input")
_LIMITS = ("max_output_length", "timeout_ms")


class ShellCallStream(TypedCallStream):
    item_type: ClassVar[str] = "shell_call"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._strings = StringValues()
        self._commands: list[list[str]] = []
        """The pieces of each command."""
        self._in_command = False
        self._limits: dict[str, int | None] = dict.fromkeys(_LIMITS)

    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        events: list[Event] = []
        for piece in [] if self.raw else self._strings.feed(fragment):
            path = piece.path[1:] if piece.path[:1] == (_WRAPPER,) else piece.path
            if path[:1] == ("commands",) and len(path) == 2:
                events += self._add(piece.text, number, ended=piece.ended)
        return events

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        events: list[Event] = []
        if complete:
            fields = None if self.raw else fields_of(self.received, _WRAPPER)
            self._limits = {name: positive((fields or {}).get(name)) for name in _LIMITS}
            commands = (fields or {}).get("commands")
            if not self._commands:
                events = self._odd_commands(fields, number)
            elif isinstance(commands, list) and len(commands) != len(self._commands):
                self._flaw = "`commands` has values that are not strings; they were dropped"
        if self._in_command:
            events += self._add("", number, ended=True)
        return events

    def item(self, status: str) -> ShellCall:
        commands = ["".join(pieces) for pieces in self._commands]
        action = {"commands": commands, **self._limits}
        return ShellCall(id=self.item_id, call_id=self.call_id, action=action, status=status)

    def _add(self, text: str, number: Numbers, *, ended: bool) -> list[Event]:
        """Add text to the open command, or open one; return the events."""
        events: list[Event] = []
        if not self._in_command:
            self._commands.append([])
            self._in_command = True
            events.append(self._event("added", number, command=""))
        pieces = self._commands[-1]
        if text:
            pieces.append(text)
            events.append(self._event("delta", number, delta=text))
        if ended:
            self._in_command = False
            events.append(self._event("done", number, command="".join(pieces)))
        return events

    def _event(
        self, step: str, number: Numbers, *, command: str | UnsetType = UNSET, delta: str | UnsetType = UNSET
    ) -> Event:
        return ShellCommandEvent(
            type=f"response.shell_call_command.{step}",
            sequence_number=number(),
            output_index=self.output_index,
            command_index=len(self._commands) - 1,
            command=command,
            delta=delta,
        )

    def _odd_commands(self, fields: JsonObject | None, number: Numbers) -> list[Event]:
        """Return the events for commands of another shape: models do not always follow the schema."""
        self._flaw = "the arguments have no list of strings `commands`"
        if self.raw or fields is None:
            return self._add(self.received, number, ended=True) if self.received.strip() else []
        commands = fields.get("commands")
        found = commands if isinstance(commands, list) else [fields]
        lines = [line for command in found if (line := _command_line(command))]
        return [event for line in lines for event in self._add(line, number, ended=True)]


def _command_line(command: Any) -> str:
    """Return a command line from what a model wrote in its place: a text, words, or an object with either."""
    if isinstance(command, dict):
        command = next((command[name] for name in _COMMAND_FIELDS if name in command), "")
    if isinstance(command, list):
        return shlex.join(word if isinstance(word, str) else json_of(word) for word in command)
    return command if isinstance(command, str) else ""


def _arguments(call: ShellCall) -> str:
    return json_of({name: value for name, value in call.action.items() if value is not None})


def _content(output: ShellCallOutput, _: Any) -> str:
    """Return what each command printed, and how it ended."""
    many = len(output.output) > 1
    return "\n\n".join(
        _result(result, f"Command {place}: " if many else "") for place, result in enumerate(output.output, 1)
    )


def _result(result: JsonObject, title: str) -> str:
    outcome = object_of(result.get("outcome"))
    code = outcome.get("exit_code")
    ended = (
        "timed out"
        if outcome.get("type") == "timeout"
        else f"exit code {'unknown' if code is None else code}"
    )
    printed = [(name, text_of(result.get(name))) for name in ("stdout", "stderr")]
    return "\n".join([f"{title}{ended}", *(f"{name}:\n{text}" for name, text in printed if text)])


def _runs_at_client(tool: ShellTool) -> bool:
    """Return whether the client runs the commands; in a container, the provider does."""
    place = object_of(tool.environment).get("type", "local")
    return bool(place == "local")


FAMILY = ToolFamily(
    type="shell",
    call=ShellCall,
    output=ShellCallOutput,
    stream=ShellCallStream,
    declare=lambda _: Declaration(_DESCRIPTION, _PARAMETERS),
    arguments=_arguments,
    content=_content,
    runs_at_client=_runs_at_client,
)
