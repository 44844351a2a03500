"""What a scripted model does, independent of any vendor's wire format.

A script is a list of answers, one per request; an answer is a tuple of steps. Like a real model, it finds a
tool among those that were declared to it, and follows the declared schema: scripts never contain upstream
names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

Json = dict[str, Any]


class Declared(Struct, frozen=True):
    """A tool as an upstream sees it."""

    name: str
    description: str
    schema: Json


class Entry(Struct, frozen=True):
    """One piece of a conversation as an upstream sees it. `kind` is `system`, `user`, `assistant`,
    `reasoning`, `call`, `output` or `image`."""

    kind: str
    text: str
    name: str = ""


class Seen(Struct, frozen=True):
    """A request, read independently of its wire format."""

    tools: list[Declared]
    entries: list[Entry]

    def texts(self, kind: str) -> list[str]:
        return [entry.text for entry in self.entries if entry.kind == kind]

    @property
    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.entries]


# Steps


class Say(Struct, frozen=True):
    text: str


class Think(Struct, frozen=True):
    text: str


class Call(Struct, frozen=True):
    """Call the declared tool that `matches`, with the arguments of `hints` that its schema asks for."""

    matches: Callable[[Declared], bool]
    hints: Mapping[str, Any]
    wanted: str
    """For the message if there is no such tool."""


class Refuse(Struct, frozen=True):
    """Answer with an error status."""

    status: int
    message: str
    headers: Mapping[str, str] = {}


class Cut(Struct, frozen=True):
    """Close the connection in the middle of the answer."""


class Silence(Struct, frozen=True):
    """Send nothing for some time."""

    seconds: float


class Hang(Struct, frozen=True):
    """Send nothing until the gateway disconnects, and record that it did."""


class Stop(Struct, frozen=True):
    """End because the token limit is reached."""


class Used(Struct, frozen=True):
    """The number of input tokens to report."""

    input_tokens: int


Step = Say | Think | Call | Refuse | Cut | Silence | Hang | Stop | Used
Answer = tuple[Step, ...]
Reply = Answer | Callable[[Seen], Answer]
"""What a request is answered with. A function decides by what the request contains."""


class Repeat(Struct, frozen=True):
    """Answer this request and all that follow, if there are any, in the same way."""

    reply: Reply


class ScriptError(AssertionError):
    """The script cannot be played: for example, no declared tool matches."""


# Tools


def function(name: str, /, **arguments: Any) -> Call:
    """Call a function by the name that its author gave it. Upstream, the name may have a prefix."""
    return Call(lambda tool: tool.name == name or tool.name.endswith(f"_{name}"), arguments, name)


def shell(command: str) -> Call:
    """Run a command with whatever tool runs commands."""
    hints = {"cmd": command, "command": ["bash", "-lc", command], "commands": [command]}
    return Call(_runs_commands, hints, "a tool that runs commands")


def write(path: str, text: str) -> Call:
    """Create a file with whatever tool applies patches."""
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    whole = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
    return patch(whole, type="create_file", path=path, diff=lines)


def patch(whole: str, **operation: str) -> Call:
    """Apply a patch. `operation` is the same for tools that take one file at a time."""
    hints = {"input": whole, "patch": whole, "patchText": whole, **operation}
    return Call(_applies_patches, hints, "a tool that applies patches")


def _runs_commands(tool: Declared) -> bool:
    return bool(_property_names(tool.schema) & {"cmd", "command", "commands"})


def _applies_patches(tool: Declared) -> bool:
    return "patch" in tool.name


def _property_names(schema: Json) -> set[str]:
    properties = schema.get("properties", {})
    nested = [_property_names(each) for each in properties.values() if isinstance(each, dict)]
    return set(properties).union(*nested)


def chosen(call: Call, tools: Sequence[Declared]) -> tuple[str, Json]:
    """Return the name and the arguments of a call, for a model that was offered `tools`."""
    for tool in tools:
        if call.matches(tool):
            return tool.name, arguments_for(tool.schema, call.hints)
    offered = ", ".join(tool.name for tool in tools) or "nothing"
    raise ScriptError(f"the model wants to call {call.wanted}, but was offered {offered}")


def arguments_for(schema: Json, hints: Mapping[str, Any]) -> Json:
    """Return an object that matches a tool's schema, with the values of `hints`."""
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        schema = next((each for each in branches if _is_branch(each, hints)), branches[0])
    required = schema.get("required", [])
    properties: Json = schema.get("properties", {})
    found = {}
    for name, described in properties.items():
        if name in hints:
            found[name] = _as_declared(described, hints[name])
        elif "properties" in described or (
            name in required and ("anyOf" in described or "oneOf" in described)
        ):
            nested = arguments_for(described, hints)
            if nested or name in required:
                found[name] = nested
        elif name in required:
            found[name] = _smallest(described)
    return found


def _is_branch(schema: Json, hints: Mapping[str, Any]) -> bool:
    """Whether the constants of a branch agree with the hints."""
    for name, described in schema.get("properties", {}).items():
        allowed = [described["const"]] if "const" in described else described.get("enum")
        if allowed and name in hints and hints[name] not in allowed:
            return False
    return True


def _as_declared(described: Json, value: Any) -> Any:
    """A command is a list of words for some tools and a line for others."""
    if described.get("type") in ("string", "STRING") and isinstance(value, list):
        return value[-1]
    return value


def _smallest(described: Json) -> Any:
    if described.get("enum"):
        return described["enum"][0]
    kind = str(described.get("type", "string")).lower()
    return {"string": "", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}.get(kind)


def encode(arguments: Json) -> str:
    return msgspec.json.encode(arguments).decode()
