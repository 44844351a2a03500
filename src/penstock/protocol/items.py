"""Items: the output of a response and the input of a request.

Both directions share one type. An item of a response always has `id` and `status`; an item of a request may
omit both, and also `type`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from penstock.protocol.content import ContentPart, JsonObject
from penstock.protocol.tools import Tool
from penstock.protocol.wire import Wire


class Message(Wire, kw_only=True):
    implied_by: ClassVar[str] = "role"

    type: str = "message"
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    role: str
    content: str | list[ContentPart] = []
    phase: str | UnsetType = UNSET


class AgentMessage(Wire):
    """A message from one agent to another; Codex gives a sub-agent its task this way (field F5)."""

    type: str = "agent_message"
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    author: str | UnsetType = UNSET
    recipient: str | UnsetType = UNSET
    content: str | list[ContentPart] = []


class FunctionCall(Wire, kw_only=True):
    type: str = "function_call"
    id: str | UnsetType = UNSET
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET
    arguments: str = ""
    status: str | UnsetType = UNSET


class FunctionCallOutput(Wire):
    """Without a `call_id`, its position says which call it belongs to (`penstock.protocol.call_outputs`)."""

    type: str = "function_call_output"
    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    output: str | list[ContentPart] = ""
    status: str | UnsetType = UNSET


class CustomToolCall(Wire, kw_only=True):
    type: str = "custom_tool_call"
    id: str | UnsetType = UNSET
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET
    input: str = ""
    status: str | UnsetType = UNSET


class CustomToolCallOutput(Wire):
    type: str = "custom_tool_call_output"
    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    output: str | list[ContentPart] = ""
    status: str | UnsetType = UNSET


class ReasoningItem(Wire):
    """`content` and `encrypted_content` are written only if set: the schema forbids null (spec S5)."""

    type: str = "reasoning"
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    summary: list[ContentPart] = []
    content: list[ContentPart] | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET


class Compaction(Wire, kw_only=True):
    type: str = "compaction"
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    encrypted_content: str
    created_by: str | UnsetType = UNSET


class ItemReference(Wire, kw_only=True):
    """Refers to an item of an earlier response. The AI SDK replays its history this way."""

    implied_by: ClassVar[str] = "id"

    type: str = "item_reference"
    id: str


class AdditionalTools(Wire):
    """Tools declared inside the input; Codex sends all of its tools this way for some models."""

    type: str = "additional_tools"
    id: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    tools: list[Tool] = []


class ToolSearchCall(Wire):
    """`arguments` is an object here, not a string."""

    type: str = "tool_search_call"
    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    execution: str | UnsetType = UNSET
    arguments: Any = UNSET
    status: str | UnsetType = UNSET


class ToolSearchOutput(Wire):
    type: str = "tool_search_output"
    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    execution: str | UnsetType = UNSET
    tools: list[Tool] = []
    status: str | UnsetType = UNSET


class LocalShellCall(Wire, kw_only=True):
    type: str = "local_shell_call"
    id: str | UnsetType = UNSET
    call_id: str
    action: JsonObject
    status: str | UnsetType = UNSET


class LocalShellCallOutput(Wire):
    type: str = "local_shell_call_output"
    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    output: str = ""
    status: str | UnsetType = UNSET


class ShellCall(Wire, kw_only=True):
    type: str = "shell_call"
    id: str | UnsetType = UNSET
    call_id: str
    action: JsonObject
    status: str | UnsetType = UNSET


class ShellCallOutput(Wire):
    type: str = "shell_call_output"
    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    output: list[JsonObject] = []
    max_output_length: int | UnsetType = UNSET
    status: str | UnsetType = UNSET


class ApplyPatchCall(Wire, kw_only=True):
    type: str = "apply_patch_call"
    id: str | UnsetType = UNSET
    call_id: str
    operation: JsonObject
    status: str | UnsetType = UNSET


class ApplyPatchCallOutput(Wire):
    type: str = "apply_patch_call_output"
    id: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    output: str | UnsetType = UNSET
    status: str | UnsetType = UNSET


class WebSearchCall(Wire):
    type: str = "web_search_call"
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    action: JsonObject | UnsetType = UNSET


class UnknownItem(Wire):
    """An item of an unknown type: all fields except these three are in `extra`."""

    catch_all: ClassVar[bool] = True

    type: str = ""
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET


Item = (
    Message
    | AgentMessage
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | ReasoningItem
    | Compaction
    | ItemReference
    | AdditionalTools
    | ToolSearchCall
    | ToolSearchOutput
    | LocalShellCall
    | LocalShellCallOutput
    | ShellCall
    | ShellCallOutput
    | ApplyPatchCall
    | ApplyPatchCallOutput
    | WebSearchCall
    | UnknownItem
)

ID_PREFIXES: dict[str, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "shell_call": "sh",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    "tool_search_call": "ts",
    "web_search_call": "ws",
    "compaction": "cmp",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
}
"""The prefix of an item's id by item type; any other type gets `item`."""

CLIENT_CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
        "computer_call",
    }
)
"""Items that a client acts on: they must never be delivered twice."""
