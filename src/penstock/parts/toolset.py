"""The tools that an editor offers, and whether one must be called, in the words of a request."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from penstock.parts.parts import ChatTool
from penstock.protocol.tools import FunctionTool, ToolChoice

_MODES: dict[int | str, str] = {1: "auto", "auto": "auto", 2: "required", "required": "required"}
"""The editor's two modes, as its numbers and by name."""


def translate_tools(tools: Sequence[ChatTool]) -> list[FunctionTool]:
    """Each tool as a function. Endpoints refuse a name that is declared twice: the first stands (asks B11).

    `strict` is said to be off: where nothing is said some endpoints take it as on, and then refuse schemas
    with optional properties, which editors' tools have (asks H2).
    """
    declared: dict[str, FunctionTool] = {}
    for tool in tools:
        if tool.name not in declared:
            declared[tool.name] = FunctionTool(
                name=tool.name,
                description=tool.description or UNSET,
                parameters=dict(tool.input_schema or {"type": "object", "properties": {}}),
                strict=False,
            )
    return list(declared.values())


def translate_tool_mode(mode: int | str | None, tools: Sequence[ChatTool]) -> ToolChoice | UnsetType:
    """The choice among the tools. Without tools there is none to make, and endpoints refuse one."""
    if not tools or mode is None:
        return UNSET
    return _MODES.get(mode, UNSET)
