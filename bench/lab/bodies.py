"""Request bodies for the scripted models."""

from __future__ import annotations

import json
import re

SENTENCE = "Read the file before you change it, and run the tests of what you touched afterwards. "
CODEX_BYTES = 45_000
"""The size of a request of Codex: its instructions, its tools, and a short conversation."""


def number(spec: str, letter: str) -> int:
    """Return a number of a model's name: `c` in `fake-c256-d20` is 256."""
    found = re.search(rf"-{letter}(\d+)", spec)
    return int(found[1]) if found else 0


def chunks_of(spec: str) -> int:
    """Return how many chunks with content the model sends."""
    return number(spec, "c") + number(spec, "r")


def tools_for(spec: str) -> list[dict[str, object]]:
    """Return the tools that the model will call."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    functions = [
        {"type": "function", "name": f"tool_{place}", "parameters": schema, "strict": False}
        for place in range(number(spec, "t"))
    ]
    return functions + [{"type": "custom", "name": f"tool_{place}"} for place in range(number(spec, "k"))]


def body_for(spec: str, **fields: object) -> bytes:
    """Return a small request, with more fields."""
    body = {"model": spec, "input": "Say something.", "stream": True, **fields}
    if tools := tools_for(spec):
        body.setdefault("tools", tools)
    return json.dumps(body).encode()


def small() -> dict[str, object]:
    """Return the fields of a request of 1 KB."""
    return {"input": SENTENCE * 10}


def codex() -> dict[str, object]:
    """Return the fields of a request as large as one of Codex."""
    properties = {
        name: {"type": "string", "description": SENTENCE * 2} for name in ("command", "path", "reason")
    }
    schema = {"type": "object", "properties": properties, "required": ["command"]}
    tools = [
        {
            "type": "function",
            "name": f"action_{place}",
            "description": SENTENCE * 8,
            "parameters": schema,
            "strict": False,
        }
        for place in range(14)
    ]
    fields: dict[str, object] = {"tools": tools, "tool_choice": "auto", "parallel_tool_calls": True}
    fields["input"] = [message("developer", SENTENCE * 20), message("user", SENTENCE * 10)]
    missing = CODEX_BYTES - len(body_for("fake-c4", **fields))
    return {**fields, "instructions": SENTENCE * (missing // len(SENTENCE))}


def message(role: str, text: str) -> dict[str, object]:
    part = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": part, "text": text}]}


def history(items: int) -> list[dict[str, object]]:
    """Return the items of a long agent's session: questions, calls, their outputs, answers."""
    found: list[dict[str, object]] = []
    for turn in range(items // 4):
        id = f"call_{turn}"
        call: dict[str, object] = {
            "type": "function_call",
            "call_id": id,
            "name": "tool_0",
            "arguments": '{"text":"src"}',
        }
        output: dict[str, object] = {"type": "function_call_output", "call_id": id, "output": SENTENCE}
        found += [message("user", SENTENCE), call, output, message("assistant", SENTENCE)]
    return found
