"""Fields of tools that only OpenAI's Responses have: dropped for other upstreams, with a diagnostic.

`async`, `defer_loading`, `allowed_callers` and `output_schema` change how OpenAI offers and runs a tool. To
any other upstream, a tool is declared at once, called by the model alone, and its output is text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.dialects.breakpoints import BREAKPOINT
from penstock.dialects.schemas import without
from penstock.protocol.tools import CustomTool, FunctionTool, NamespaceTool, Tool
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.identity import flat

ENCRYPTED = "encrypted"
"""The keyword with which Codex asks OpenAI to encrypt an argument (field F5)."""

_MARK = b'"encrypted":true'
_UNSET: tuple[Any, ...] = (None, False)
"""Values that ask for what any upstream does."""


def report_tool_fields(tools: Iterable[Tool], diagnostics: Diagnostics, *, has_encryption: bool) -> None:
    """Report every field of a tool that cannot be sent. A mark for the cache is left to the dialect.
    `has_encryption` is the result of `any_encryption`."""
    for name in sorted(_extra_fields(tools, has_encryption) - {BREAKPOINT}):
        diagnostics.report("field_dropped", f"`tools.{name}` cannot be sent to this upstream and was dropped")


def _extra_fields(tools: Iterable[Tool], has_encryption: bool) -> set[str]:
    found: set[str] = set()
    for tool in tools:
        if tool.extra and isinstance(tool, FunctionTool | CustomTool | NamespaceTool):
            found |= {name for name, value in tool.extra.items() if value not in _UNSET}
        if has_encryption and isinstance(tool, FunctionTool) and _is_marked(tool.parameters or {}):
            found.add(f"parameters.{ENCRYPTED}")
        if isinstance(tool, NamespaceTool):
            found |= _extra_fields(tool.tools, has_encryption)
    return found


def any_encryption(tools: Iterable[Tool]) -> bool:
    """Return whether any schema may contain `encrypted`. Looking at all of them at once is much cheaper than
    at each."""
    schemas = [getattr(tool, "parameters", None) or {} for _, tool in flat(tools)]
    try:
        return _MARK in msgspec.json.encode(schemas)
    except RecursionError:  # in one of them: look at each
        return True


def without_encryption(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without `encrypted`, at every level. The model then writes plain text, and Codex sends
    it back as it is; `agent_messages` reads it."""
    return without(schema, frozenset({ENCRYPTED})) if _is_marked(schema) else schema


def _is_marked(schema: dict[str, Any]) -> bool:
    try:
        return _MARK in msgspec.json.encode(schema)
    except RecursionError:  # nested too deeply to encode, and so to send
        return False
