"""`local_shell`: one program with its arguments, run by the client. There are no events for its arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.lenient import object_of
from penstock.protocol.events import Event
from penstock.protocol.items import LocalShellCall, LocalShellCallOutput
from penstock.tools.family import (
    Declaration,
    Numbers,
    ToolFamily,
    TypedCallStream,
    fields_of,
    json_of,
    positive,
)

_DESCRIPTION = (
    "Run one program on the user's computer and return its output. For pipes, redirections and several "
    'commands, run a shell: ["bash", "-lc", "..."].'
)
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The program and its arguments, one string each.",
        },
        "working_directory": {"type": "string", "description": "The folder to run it in."},
        "timeout_ms": {"type": "integer", "description": "Stop the program after this many milliseconds."},
    },
    "required": ["command"],
}


class LocalShellCallStream(TypedCallStream):
    item_type: ClassVar[str] = "local_shell_call"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._fields: dict[str, Any] = {}
        """The arguments, once they are complete."""

    def _emit(self, fragment: str, number: Numbers) -> list[Event]:  # noqa: ARG002 - there are no events
        return []

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:  # noqa: ARG002
        if complete and self.raw:
            self._fields = {"command": self.received}
        elif complete:
            self._fields = fields_of(self.received, "action") or {}
        if complete and not _is_words(self._fields.get("command")):
            self._flaw = "the arguments have no list of strings `command`"
        return []

    def item(self, status: str) -> LocalShellCall:
        fields = self._fields
        action: dict[str, Any] = {"type": "exec", "command": _command(fields), "env": _env(fields)}
        for name in ("working_directory", "user"):
            if isinstance(fields.get(name), str) and fields[name]:
                action[name] = fields[name]
        if timeout := positive(fields.get("timeout_ms")):
            action["timeout_ms"] = timeout
        return LocalShellCall(id=self.item_id, call_id=self.call_id, action=action, status=status)


def _is_words(command: Any) -> bool:
    return isinstance(command, list) and bool(command) and all(isinstance(word, str) for word in command)


def _command(fields: dict[str, Any]) -> list[str]:
    """Return the command. A command line, which models write too, is run by a shell."""
    command = fields.get("command", fields.get("cmd"))
    if isinstance(command, list):
        return [word if isinstance(word, str) else json_of(word) for word in command]
    return ["bash", "-lc", command] if isinstance(command, str) and command else []


def _env(fields: dict[str, Any]) -> dict[str, str]:
    env = object_of(fields.get("env"))
    return {name: value for name, value in env.items() if isinstance(value, str)}


def _arguments(call: LocalShellCall) -> str:
    return json_of({name: value for name, value in call.action.items() if name != "type" and value})


FAMILY = ToolFamily(
    type="local_shell",
    call=LocalShellCall,
    output=LocalShellCallOutput,
    stream=LocalShellCallStream,
    declare=lambda _: Declaration(_DESCRIPTION, _PARAMETERS),
    arguments=_arguments,
    content=lambda output, _: output.output,
    # In OpenAI's API, the `id` of an output is the id of the call.
    output_call_id=lambda output: output.call_id or output.id or "",
)
