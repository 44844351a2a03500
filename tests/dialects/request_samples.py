"""A value for every field of a request."""

from __future__ import annotations

from typing import Any

SAMPLES: dict[str, Any] = {
    "model": "another-model",
    "input": "Something else.",
    "instructions": "Be brief.",
    "include": ["message.output_text.logprobs"],
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tool_calls": 3,
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    "reasoning": {"effort": "low"},
    "temperature": 0.5,
    "top_p": 0.5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "top_logprobs": 2,
    "max_output_tokens": 4321,
    "truncation": "auto",
    "service_tier": "flex",
    "safety_identifier": "someone",
    "prompt_cache_key": "a-key",
    "prompt_cache_retention": "24h",
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
    "user": "someone",
    "context_management": [{"type": "compaction", "compact_threshold": 100_000}],
    "moderation": {"model": "a-moderator"},
    "access_programs": ["a-program"],
    "image": {"detail": "high"},
    "extra": {"stop": ["END"]},
}
"""A value of each field that is not for the gateway; none is a default."""


FOR_THE_GATEWAY: dict[str, Any] = {
    "stream": False,
    "background": True,
    "store": True,
    "metadata": {"a": "b"},
    "client_metadata": {"a": "b"},
    "stream_options": {"include_obfuscation": True},
}
"""Fields for the gateway whose values are not strings."""


TOOLS = {"tool_choice", "parallel_tool_calls"}
"""Fields that have an effect only together with tools."""
