"""Events and items of a Responses stream, written by hand."""

from __future__ import annotations

from typing import Any

from penstock.dialects.envelope import unseal
from penstock.protocol.tools import CustomTool, FunctionTool, NamespaceTool, Tool

TOOLS: list[Tool] = [
    FunctionTool(name="get"),
    CustomTool(name="patch"),
    NamespaceTool(name="ns", tools=[FunctionTool(name="get")]),
]


def created(**fields: Any) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": "resp_u", "model": "gpt", **fields}}


def completed(*output: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": [*output], **fields}}


def added(index: int | None, item: dict[str, Any]) -> dict[str, Any]:
    return _at(index, {"type": "response.output_item.added", "item": item})


def done(index: int | None, item: dict[str, Any]) -> dict[str, Any]:
    return _at(index, {"type": "response.output_item.done", "item": item})


def inner(type: str, index: int | None, **fields: Any) -> dict[str, Any]:
    return _at(index, {"type": f"response.{type}", **fields})


def _at(index: int | None, event: dict[str, Any]) -> dict[str, Any]:
    return event if index is None else {**event, "output_index": index}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_u", "role": "assistant", "content": content, **fields}


def reasoning(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_u", "summary": [], **fields}


def call(arguments: Any = '{"a":1}', **fields: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_u",
        "call_id": "call_u",
        "name": "get",
        "arguments": arguments,
        **fields,
    }


def custom(input: Any = "text", **fields: Any) -> dict[str, Any]:
    return {
        "type": "custom_tool_call",
        "id": "c",
        "call_id": "call_u",
        "name": "patch",
        "input": input,
        **fields,
    }


def content_of(item: dict[str, Any]) -> Any:
    """Return the texts, arguments or input of an item."""
    if item["type"] == "message":
        return [part.get("text") or part.get("refusal") for part in item["content"]]
    if item["type"] == "reasoning":
        parts = [part["text"] for part in [*item["summary"], *item.get("content", [])]]
        return [*parts, unsealed(item)] if "encrypted_content" in item else parts
    return item.get("arguments", item.get("input"))


def unsealed(item: dict[str, Any]) -> Any:
    envelope = unseal(item["encrypted_content"])
    assert envelope is not None
    assert envelope.dialect == "responses"
    return envelope.payload["encrypted_content"]


DELTAS = [inner("output_text.delta", 0, delta="Hel"), inner("output_text.delta", 0, delta="lo")]


PIECES = [
    inner("function_call_arguments.delta", 0, delta='{"a"'),
    inner("function_call_arguments.delta", 0, delta=":1}"),
]


THOUGHT = [
    inner("reasoning_summary_text.delta", 0, summary_index=0, delta="A"),
    inner("reasoning_summary_text.delta", 0, summary_index=1, delta="B"),
]


def ended(status: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, "output": [], **fields}}
