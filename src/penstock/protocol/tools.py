"""Tools as declared in a request, and the tool choice."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from penstock.protocol.content import JsonObject
from penstock.protocol.wire import Wire


class FunctionTool(Wire, kw_only=True):
    type: str = "function"
    name: str
    description: str | UnsetType | None = UNSET
    parameters: JsonObject | UnsetType | None = UNSET
    strict: bool | UnsetType | None = UNSET

    def normalised(self) -> FunctionTool:
        """Return the tool as a response must echo it: optional fields present, null if not set (spec S6)."""
        if UNSET not in (self.description, self.parameters, self.strict):
            return self
        return replace(
            self,
            description=None if self.description is UNSET else self.description,
            parameters=None if self.parameters is UNSET else self.parameters,
            strict=None if self.strict is UNSET else self.strict,
        )


class CustomTool(Wire, kw_only=True):
    """A tool whose input is free text, with or without a grammar."""

    type: str = "custom"
    name: str
    description: str | UnsetType = UNSET
    format: JsonObject | UnsetType = UNSET


class LocalShellTool(Wire):
    type: str = "local_shell"


class ShellTool(Wire):
    type: str = "shell"
    environment: JsonObject | UnsetType = UNSET


class ApplyPatchTool(Wire):
    type: str = "apply_patch"


class NamespaceTool(Wire, kw_only=True):
    """A group of tools under one name; Codex declares each MCP server as one (client 1).

    `description` is always written: openai-python requires it in the echo.
    """

    type: str = "namespace"
    name: str
    description: str = ""
    tools: list[Tool] = []


class ToolSearchTool(Wire):
    type: str = "tool_search"
    execution: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    parameters: JsonObject | UnsetType = UNSET


class WebSearchTool(Wire):
    type: str = "web_search"
    external_web_access: bool | UnsetType = UNSET
    filters: JsonObject | UnsetType = UNSET
    search_context_size: str | UnsetType = UNSET
    user_location: JsonObject | UnsetType = UNSET


class UnknownTool(Wire):
    catch_all: ClassVar[bool] = True

    type: str = ""
    name: str | UnsetType = UNSET


Tool = (
    FunctionTool
    | CustomTool
    | LocalShellTool
    | ShellTool
    | ApplyPatchTool
    | NamespaceTool
    | ToolSearchTool
    | WebSearchTool
    | UnknownTool
)


SECRETS = ("authorization", "headers")
"""Fields of a hosted tool that hold the client's credentials for its own servers. They are sent only to the
upstream: no response echoes them, and nothing logs or stores them."""


def public_tools(tools: list[Tool]) -> list[Tool]:
    """Return the tools without the fields in `SECRETS`."""
    return [_public(tool) for tool in tools]


def _public(tool: Tool) -> Tool:
    if isinstance(tool, NamespaceTool):
        return replace(tool, tools=public_tools(tool.tools))
    if not isinstance(tool, UnknownTool) or not isinstance(tool.extra, dict):
        return tool
    fields = {name: value for name, value in tool.extra.items() if name not in SECRETS}
    if isinstance(address := fields.get("server_url"), str):
        fields["server_url"] = _public_address(address)
    return replace(tool, extra=fields)


def _public_address(address: str) -> str:
    """Return the URL without its user info and its query, which may contain a key."""
    scheme, slashes, rest = address.partition("//")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}".partition("?")[0]


class ToolReference(Wire):
    """Refers to a declared tool: `{"type": "function", "name": …}`, or a type alone if it has no name."""

    type: str = ""
    name: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET


class AllowedTools(Wire):
    type: str = "allowed_tools"
    tools: list[ToolReference] = []
    mode: str = "auto"


ToolChoice = str | ToolReference | AllowedTools
"""`none`, `auto`, `required`, one tool, or a set of tools."""
