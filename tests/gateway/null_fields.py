"""An independent check of every answer: fields that clients dereference are present and never null.

Ask A7: a null or a missing list has broken whole communities of clients. The schemas require the same in the
strict accent; this check works for every accent and needs no schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

LISTS: dict[str, tuple[str, ...]] = {
    "output_text": ("annotations", "logprobs"),
    "message": ("content",),
    "reasoning": ("summary",),
    "response.output_text.delta": ("logprobs",),
    "response.output_text.done": ("logprobs",),
}
"""Fields that are lists, by the type of the object."""

TEXTS: dict[str, tuple[str, ...]] = {
    "output_text": ("text",),
    "refusal": ("refusal",),
    "message": ("id", "role", "status"),
    "reasoning": ("id",),
    "function_call": ("id", "call_id", "name", "arguments", "status"),
    "custom_tool_call": ("id", "call_id", "name", "input"),
    "error": ("message", "code"),
}

INDEXES = ("output_index", "content_index", "summary_index", "annotation_index", "sequence_number")
"""Fields that are always numbers."""

PLACES: dict[str, tuple[str, ...]] = {
    "response.output_item.": ("output_index",),
    "response.content_part.": ("output_index", "content_index", "item_id", "part"),
    "response.output_text.": ("output_index", "content_index", "item_id"),
    "response.refusal.": ("output_index", "content_index", "item_id"),
    "response.reasoning.": ("output_index", "content_index", "item_id"),
    "response.reasoning_text.": ("output_index", "content_index", "item_id"),
    "response.function_call_arguments.": ("output_index", "item_id"),
    "response.custom_tool_call_input.": ("output_index", "item_id"),
}
"""The index fields that every event must have, by the beginning of its type."""

RESPONSE: dict[str, type] = {
    "id": str,
    "output": list,
    "tools": list,
    "tool_choice": object,
    "metadata": dict,
    "text": dict,
    "parallel_tool_calls": bool,
    "status": str,
    "model": str,
    "created_at": int,
}


def holes(value: Any, path: str = "") -> list[str]:
    """The paths of required fields that are missing or null."""
    return list(_holes(value, path))


def _holes(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _holes(each, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    yield from _holes_of(value, path)
    for name, each in value.items():
        if name not in ("parameters", "schema"):  # a schema of the client may contain anything
            yield from _holes(each, f"{path}.{name}")


def _holes_of(value: Json, path: str) -> Iterator[str]:
    named = value.get("type")
    type_name: str = named if isinstance(named, str) else ""
    for name in LISTS.get(type_name, ()):
        if not isinstance(value.get(name), list):
            yield f"{path}.{name} of {type_name} is not a list"
    for name in TEXTS.get(type_name, ()):
        if not isinstance(value.get(name), str):
            yield f"{path}.{name} of {type_name} is no text"
    for beginning, names in PLACES.items():
        if type_name.startswith(beginning):
            yield from (
                f"{path}.{name} of {type_name} is missing" for name in names if value.get(name) is None
            )
    for name in INDEXES:
        if name in value and type(value[name]) is not int:
            yield f"{path}.{name} is not a number"
    if value.get("object") == "response":
        yield from _holes_of_response(value, path)


def _holes_of_response(response: Json, path: str) -> Iterator[str]:
    for name, kind in RESPONSE.items():
        if response.get(name) is None or not isinstance(response[name], kind):
            yield f"{path}.{name} is no {kind.__name__}"
    for name in ("error", "incomplete_details", "usage", "instructions", "reasoning"):
        if name not in response:
            yield f"{path}.{name} is missing"
    usage = response.get("usage")
    if usage is not None:
        counts = (usage, "input_tokens"), (usage, "output_tokens"), (usage, "total_tokens")
        details = (
            (usage.get("input_tokens_details") or {}, "cached_tokens"),
            (usage.get("output_tokens_details") or {}, "reasoning_tokens"),
        )
        for holder, name in (*counts, *details):
            if type(holder.get(name)) is not int:
                yield f"{path}.usage: {name} is not a number"
