"""The families of tools, by declared type. A new family is a new file and a row here."""

from __future__ import annotations

from penstock.protocol.items import Item
from penstock.protocol.tools import Tool
from penstock.tools import apply_patch, custom, function, local_shell, shell, tool_search
from penstock.tools.family import Content, ToolFamily, UpstreamNames

_ALL = (
    function.FAMILY,
    custom.FAMILY,
    local_shell.FAMILY,
    shell.FAMILY,
    apply_patch.FAMILY,
    tool_search.FAMILY,
)
FAMILIES: dict[str, ToolFamily] = {family.type: family for family in _ALL}
_BY_CALL: dict[type, ToolFamily] = {family.call: family for family in _ALL}
_BY_OUTPUT: dict[type, ToolFamily] = {family.output: family for family in _ALL}


def family_of(tool: Tool) -> ToolFamily | None:
    """Return the family of a declared tool; None if the client does not run its calls."""
    family = FAMILIES.get(tool.type)
    return family if family is not None and family.runs_at_client(tool) else None


def family_of_call(item: Item) -> ToolFamily | None:
    return _BY_CALL.get(type(item))


def call_id_of(item: Item) -> str:
    """Return the id of a call; an empty string for any other item.

    A call without a name, which some clients leave at the end of a history, is a placeholder and not a call.
    """
    family = _BY_CALL.get(type(item))
    return (getattr(item, "call_id", "") or "") if family is not None and family.name(item) else ""


def arguments_of(call: Item) -> str:
    """Return the arguments of a call as JSON text, as an upstream that knows only functions has sent them."""
    return _BY_CALL[type(call)].arguments(call)


def answered_call_id(item: Item) -> str:
    """Return the id of the call that an output answers; an empty string for any other item."""
    family = _BY_OUTPUT.get(type(item))
    return "" if family is None else family.output_call_id(item)


def content_of(output: Item, upstream_names: UpstreamNames) -> Content:
    """Return the content of an output."""
    return _BY_OUTPUT[type(output)].content(output, upstream_names)
