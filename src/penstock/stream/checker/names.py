"""Which event and item types a stream may contain, and how they are spelled, by accent."""

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
"""Items of tools that a client can declare: they come back as declared, in every accent (decision 1,
decision 13)."""

DECLARED_EVENTS = frozenset(
    {
        "response.shell_call_command",
        "response.shell_call_output_content",
        "response.apply_patch_call_operation_diff",
    }
)
"""Families of events about declared tools whose text is not followed here; only the item is."""

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
"""Families of events about tools that OpenAI runs itself."""

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
"""Items that ask the client to act, and so carry a call id of their own."""

NAMED_CALLS = frozenset({"function_call", "custom_tool_call"})

_SLUGGED = re.compile(r"[A-Za-z0-9_.-]+:.+", re.DOTALL)

CANONICAL = {
    "response.reasoning_text.delta": "response.reasoning.delta",
    "response.reasoning_text.done": "response.reasoning.done",
    "response.reasoning_summary.delta": "response.reasoning_summary_text.delta",
    "response.reasoning_summary.done": "response.reasoning_summary_text.done",
    "response.output_text_annotation.added": "response.output_text.annotation.added",
}
"""Other spellings in the wild, and the specification's (spec S3, quirk R10, quirk R11, decision 20)."""

_REASONING_NAMES = {
    "openresponses": ("response.reasoning.delta", "response.reasoning.done"),
    "openai": ("response.reasoning_text.delta", "response.reasoning_text.done"),
    "copilot": (),
}
_REASONING_TEXT = frozenset({"response.reasoning.delta", "response.reasoning.done"})


def has_slug(name: str) -> bool:
    """True for `acme:trace`: an extension that says whose it is (spec N35, spec N58, spec N65)."""
    return _SLUGGED.fullmatch(name) is not None


class Names:
    """What one accent reads."""

    def __init__(self, accent: str) -> None:
        self._accent = accent
        self._reasoning = frozenset(_REASONING_NAMES[accent])

    @property
    def reads_reasoning_text(self) -> bool:
        """False where reasoning is shown as a summary only (decision 1)."""
        return bool(self._reasoning)

    @property
    def knows_openai(self) -> bool:
        """True for clients written against OpenAI's wire rather than the specification."""
        return self._accent != "openresponses"

    def spells(self, name: str, canonical: str) -> bool:
        """Is `name` how this accent spells the event `canonical`?"""
        if canonical in _REASONING_TEXT:
            return name in self._reasoning
        return name == canonical

    def allows_item(self, type: str) -> bool:
        """Clients of OpenAI's wire meet new types all the time, and pass over them."""
        return self.knows_openai or type in SPECIFIED_ITEMS or type in DECLARED_ITEMS or has_slug(type)

    def allows_event(self, type: str) -> bool:
        """For types that have no handler of their own: sub-events of tools, and extensions."""
        return self.knows_openai or type.rpartition(".")[0] in DECLARED_EVENTS or has_slug(type)


def is_tool_event(type: str) -> bool:
    """True for sub-events of a declared or hosted tool: they belong to an item."""
    family = type.rpartition(".")[0]
    return family in DECLARED_EVENTS or family in HOSTED_EVENTS
