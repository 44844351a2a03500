"""The fields that the validators of the official compliance suite require (spec S6, spec S10).

The published schemas require most of them too. This list is written by hand and works without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

REQUIRED = (
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model"),
    *("previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation"),
    *("parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs"),
    *("temperature", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "store", "background"),
    *("service_tier", "metadata", "safety_identifier", "prompt_cache_key"),
)
"""The 31 fields of every snapshot."""

NEVER_NULL = (
    *("id", "object", "created_at", "status", "model", "output", "tools", "tool_choice", "truncation"),
    *("parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs"),
    *("temperature", "store", "background", "service_tier"),
)

VALUE_OR_NOTHING = ("encrypted_content", "logprobs", "phase", "annotations")
"""Fields that may be left out where they are optional, and are never null."""

USAGE = ("input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details")

TOOL = ("type", "name", "description", "parameters", "strict")


def faults(response: Json) -> list[str]:
    """The fields of a snapshot that the suite would reject."""
    found = [f"{name} is missing" for name in REQUIRED if name not in response]
    found += [f"{name} is null" for name in NEVER_NULL if response.get(name, "") is None]
    found += [f"{name} of a tool" for tool in response["tools"] for name in TOOL if name not in tool]
    found += [f"{name} of usage" for name in USAGE if response["usage"] and name not in response["usage"]]
    if response["status"] == "completed" and not isinstance(response["completed_at"], int):
        found.append("completed, and not said when")
    return [*found, *_faults_within(response["output"])]


def faults_in(events: list[Json]) -> list[str]:
    """The same for a stream: every event is numbered, and every snapshot is complete."""
    found = []
    for event in events:
        if not isinstance(event.get("sequence_number"), int):
            found.append(f"{event['type']} has no number")
        if ":" in event["type"] or event["type"].startswith("response.reasoning_text."):
            found.append(f"{event['type']} is none of the 24")
        found += faults(event["response"]) if "response" in event else _faults_within(event)
    return found


def _faults_within(value: Any) -> list[str]:
    found = []
    for each in _objects(value):
        found += [f"{name} is null" for name in VALUE_OR_NOTHING if each.get(name, "") is None]
        if each.get("type") == "output_text" and "annotations" not in each:
            found.append("text without annotations")
    return found


def _objects(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(each)
