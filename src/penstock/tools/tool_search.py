"""`tool_search` with `execution: client`: the client finds tools, which its output then declares.

Without it, a model cannot reach tools that the client loads on demand, such as those of MCP servers.
"""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.lenient import is_json
from penstock.protocol.events import Event
from penstock.protocol.items import ToolSearchCall, ToolSearchOutput
from penstock.protocol.tools import ToolSearchTool
from penstock.tools.family import (
    Declaration,
    Numbers,
    ToolFamily,
    TypedCallStream,
    UpstreamNames,
    fields_of,
    json_of,
)

CLIENT = "client"

_DESCRIPTION = "Search for more tools. The tools that are found can be called from then on."
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should be able to do."}},
    "required": ["query"],
}


class ToolSearchCallStream(TypedCallStream):
    item_type: ClassVar[str] = "tool_search_call"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._arguments: dict[str, Any] = {}
        """The arguments, once they are complete."""

    def _emit(self, fragment: str, number: Numbers) -> list[Event]:  # noqa: ARG002 - there are no events
        return []

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:  # noqa: ARG002
        text = self.received.strip()
        if complete and text:
            found = None if self.raw else fields_of(text)
            self._flaw = "the arguments are not a JSON object" if found is None else ""
            self._arguments = {"query": text} if found is None else found
        return []

    def item(self, status: str) -> ToolSearchCall:
        return ToolSearchCall(
            id=self.item_id, call_id=self.call_id, execution=CLIENT, arguments=self._arguments, status=status
        )

    @property
    def is_complete(self) -> bool:
        return self.raw or not self.received.strip() or is_json(self.received)


def _declare(tool: ToolSearchTool) -> Declaration:
    return Declaration(tool.description or _DESCRIPTION, tool.parameters or _PARAMETERS)


def _content(output: ToolSearchOutput, upstream_names: UpstreamNames) -> str:
    """Name the tools that were found. Their declarations are sent with the other tools."""
    names = upstream_names(output.tools)
    return "\n".join(["These tools can be called now:", *names]) if names else "No tools were found."


FAMILY = ToolFamily(
    type="tool_search",
    call=ToolSearchCall,
    output=ToolSearchOutput,
    stream=ToolSearchCallStream,
    declare=_declare,
    arguments=lambda call: json_of(call.arguments or {}),
    content=_content,
    runs_at_client=lambda tool: tool.execution == CLIENT,
)
