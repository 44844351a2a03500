"""The types of events and items that the adapter reads."""

from __future__ import annotations

from penstock.lenient import text_of
from penstock.parts.calls import CALL_TYPES, CUSTOM, FUNCTION
from penstock.parts.item_parts import DATA_PARTS
from penstock.parts.items import CALL, CONTENT, MESSAGE, REASONING, REFUSAL, SUMMARY, TEXT
from penstock.protocol.content import JsonObject
from penstock.protocol.events import ENDS, EVENTS

CHANNELS: dict[str, tuple[str, str, str, str]] = {
    f"response.{name}.{step}": row
    for name, row in {
        "output_text": (MESSAGE, TEXT, "content_index", "text"),
        "refusal": (MESSAGE, REFUSAL, "content_index", "refusal"),
        "reasoning": (REASONING, CONTENT, "content_index", "text"),
        "reasoning_text": (REASONING, CONTENT, "content_index", "text"),
        "reasoning_summary": (REASONING, SUMMARY, "summary_index", "text"),
        "reasoning_summary_text": (REASONING, SUMMARY, "summary_index", "text"),
    }.items()
    for step in ("delta", "done")
}
"""Events with text: kind of item, channel, field with the index of the part, field with the full text."""

ARGUMENTS = {
    f"response.{name}.{step}": type
    for name, type in {"function_call_arguments": FUNCTION, "custom_tool_call_input": CUSTOM}.items()
    for step in ("delta", "done")
}
"""Events with the arguments of a call, and the type of the call."""

MESSAGE_PARTS = frozenset(("output_text", "refusal", *DATA_PARTS))
"""Content parts that only a message has."""

PARTS_DONE = ("content_part", "reasoning_part", "reasoning_text_part", "reasoning_summary_part")
"""Parts of items that end with an event of their own."""

FILE = "response.file"

KNOWN_EVENTS = frozenset((*EVENTS, *ENDS, FILE))
"""The types of all events that the protocol or the adapter has."""


def item_type(raw: JsonObject) -> str:
    return text_of(raw.get("type")).removeprefix("openai:")


def kind_of(type: str) -> str:
    """Return the kind of item, or "" if the adapter does not handle it."""
    return type if type in (MESSAGE, REASONING) else CALL if type in CALL_TYPES else ""
