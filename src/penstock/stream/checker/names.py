"""Event and item types that a stream may contain, and their names, by accent."""

from __future__ import annotations

import re

SPECIFIED_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning", "compaction"})

DECLARED_ITEMS = frozenset(
    {
        "custom_tool_call",
        "custom_tool_call_output",
        "shell_call",
        "shell_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "tool_search_call",
        "tool_search_output",
    }
)
"""Items of tools that a client can declare: they have the declared type in every accent (decision 1,
decision 13)."""

DECLARED_EVENTS = frozenset(
    {
        "response.shell_call_command",
        "response.shell_call_output_content",
        "response.apply_patch_call_operation_diff",
    }
)
"""Families of events of declared tools. Only their item is checked, not their text."""

HOSTED_EVENTS = frozenset(
    {
        "response.web_search_call",
        "response.file_search_call",
        "response.code_interpreter_call",
        "response.code_interpreter_call_code",
        "response.image_generation_call",
        "response.computer_call",
        "response.mcp_call",
        "response.mcp_call_arguments",
        "response.mcp_list_tools",
        "response.mcp_approval_request",
    }
)
"""Families of events of tools that OpenAI runs itself."""

CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "tool_search_call",
        "computer_call",
        "openai:computer_call",
    }
)
"""Items that a client acts on; each has a call id."""

NAMED_CALLS = frozenset({"function_call", "custom_tool_call"})

_SLUGGED = re.compile(r"[A-Za-z0-9_.-]+:.+", re.DOTALL)

CANONICAL = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
    "response.reasoning_summary.delta": "response.reasoning_summary_text.delta",
    "response.reasoning_summary.done": "response.reasoning_summary_text.done",
    "response.output_text_annotation.added": "response.output_text.annotation.added",
}
"""Other spellings in use, and the specification's (spec S3, quirk R10, quirk R11, decision 20)."""

_REASONING_NAMES = {
    "openresponses": ("response.reasoning.delta", "response.reasoning.done"),
    "openai": ("response.reasoning_text.delta", "response.reasoning_text.done"),
    "copilot": (),
}
_REASONING_TEXT = frozenset({"response.reasoning.delta", "response.reasoning.done"})


def has_slug(name: str) -> bool:
    """Return whether a type has a vendor prefix, like `acme:trace` (spec N35, spec N58, spec N65)."""
    return _SLUGGED.fullmatch(name) is not None


class Names:
    """The event and item types that one accent allows."""

    def __init__(self, accent: str) -> None:
        self.accent = accent
        self._reasoning = frozenset(_REASONING_NAMES[accent])

    @property
    def reads_reasoning_text(self) -> bool:
        """False if reasoning is sent only as a summary (decision 1)."""
        return bool(self._reasoning)

    @property
    def knows_openai(self) -> bool:
        """True for clients written for OpenAI's wire format rather than the specification."""
        return self.accent != "openresponses"

    def spells(self, name: str, canonical: str) -> bool:
        """Return whether `name` is this accent's name for the event `canonical`."""
        if canonical in _REASONING_TEXT:
            return name in self._reasoning
        return name == canonical

    def allows_item(self, type: str) -> bool:
        """Return whether the item type is allowed. Clients of OpenAI's wire format ignore unknown types."""
        return self.knows_openai or type in SPECIFIED_ITEMS or type in DECLARED_ITEMS or has_slug(type)

    def allows_event(self, type: str) -> bool:
        """Return whether an event type without a check of its own is allowed: tool sub-events, extensions."""
        return self.knows_openai or type.rpartition(".")[0] in DECLARED_EVENTS or has_slug(type)


def is_tool_event(type: str) -> bool:
    """Return whether this is a sub-event of a declared or hosted tool, which belongs to an item."""
    family = type.rpartition(".")[0]
    return family in DECLARED_EVENTS or family in HOSTED_EVENTS
