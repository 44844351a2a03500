"""Map an editor's model options to the fields of a request.

Only options that are set are sent: there is no default temperature or limit (decision 29). Keys that start
with an underscore are private to the editor and never sent; its conversation id becomes the prompt cache key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.parts.parts import ChatTool
from penstock.protocol.request import CreateResponse, ReasoningConfig

CONVERSATION = "_conversationId"
"""VS Code's id of a conversation: the only private key that is used (editor 10)."""

_NUMBER = (int, float)

FIELDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "temperature": ("temperature", _NUMBER),
    "top_p": ("top_p", _NUMBER),
    "topP": ("top_p", _NUMBER),
    "presence_penalty": ("presence_penalty", _NUMBER),
    "frequency_penalty": ("frequency_penalty", _NUMBER),
    "max_output_tokens": ("max_output_tokens", int),
    "maxOutputTokens": ("max_output_tokens", int),
    "max_tokens": ("max_output_tokens", int),
    "parallel_tool_calls": ("parallel_tool_calls", bool),
    "service_tier": ("service_tier", str),
    "metadata": ("metadata", dict),
}
"""Options by the names in use: the field of the request, and its type."""

REASONING: dict[str, str] = {
    "reasoning_effort": "effort",
    "reasoningEffort": "effort",
    "reasoning_summary": "summary",
    "reasoningSummary": "summary",
}
TRANSLATED = ("system_prompt", "systemPrompt")
"""Options that `translate_messages` uses."""


class ResponseOptions(Struct, frozen=True):
    """The options and tools of a request. `tool_mode`: 1 or "auto", 2 or "required"."""

    model_options: Mapping[str, Any] = {}
    tools: Sequence[ChatTool] = ()
    tool_mode: int | str | None = None


def with_options(request: CreateResponse, options: Mapping[str, Any]) -> tuple[CreateResponse, list[str]]:
    """Return the request with the options, and a message for each option that was omitted."""
    fields: dict[str, Any] = {}
    reasoning: dict[str, Any] = {}
    omitted: list[str] = []
    nested = options.get("reasoning")
    for name, value in [*options.items(), *_reasoning_items(nested)]:
        if name in REASONING and isinstance(value, str):
            reasoning[REASONING[name]] = value
        elif name in FIELDS and _is_a(value, FIELDS[name][1]):
            fields[FIELDS[name][0]] = value
        elif name == CONVERSATION and isinstance(value, str) and value:
            fields["prompt_cache_key"] = value[:64]
        elif not name.startswith("_") and name not in (*TRANSLATED, "reasoning") and value is not None:
            flaw = "has the wrong type" if name in FIELDS or name in REASONING else "is unknown"
            omitted.append(f"the option {name!r} {flaw}; it was not sent")
    if reasoning:
        fields["reasoning"] = ReasoningConfig(**reasoning)
    return replace(request, **fields) if fields else request, omitted


def _reasoning_items(nested: Any) -> list[tuple[str, Any]]:
    """Return the options in `reasoning: {effort, summary}`, the format of a request."""
    known = {"effort": "reasoning_effort", "summary": "reasoning_summary"}
    return [(known[name], nested[name]) for name in known if isinstance(nested, Mapping) and name in nested]


def _is_a(value: Any, kind: type | tuple[type, ...]) -> bool:
    """Return whether a value has the type. In Python a boolean is a number; here it is not."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
