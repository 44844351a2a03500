"""Short ways to write down the events of a stream, one by one, for tests that say what each of them makes."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]


def event(type: str, **fields: Any) -> JSON:
    return {"type": f"response.{type}", **fields}


# Items


def message(id: str, *texts: str, **fields: Any) -> JSON:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": id, "role": "assistant", "content": content, **fields}


def reasoning(id: str, content: str = "", summary: str = "", **fields: Any) -> JSON:
    item: JSON = {"type": "reasoning", "id": id, "summary": [], **fields}
    if summary:
        item["summary"] = [{"type": "summary_text", "text": summary}]
    if content:
        item["content"] = [{"type": "reasoning_text", "text": content}]
    return item


def call(id: str, name: str, arguments: Any = "", *, call_id: str = "", **fields: Any) -> JSON:
    """A function call. Its call id is that of the item behind `call_` unless another is given."""
    item = {"type": "function_call", "id": id, "call_id": call_id or f"call_{id}", "name": name}
    return {**item, "arguments": arguments, **fields}


def custom_call(id: str, name: str, input: Any = "", **fields: Any) -> JSON:
    item = {"type": "custom_tool_call", "id": id, "call_id": f"call_{id}", "name": name}
    return {**item, "input": input, **fields}


# Events


def added(item: JSON, index: int = 0) -> JSON:
    return event("output_item.added", output_index=index, item=item)


def done(item: JSON, index: int = 0) -> JSON:
    return event("output_item.done", output_index=index, item=item)


def said(id: str, delta: str, index: int = 0) -> JSON:
    return event("output_text.delta", item_id=id, output_index=index, content_index=0, delta=delta)


def all_said(id: str, text: str, index: int = 0) -> JSON:
    return event("output_text.done", item_id=id, output_index=index, content_index=0, text=text)


def argued(id: str, delta: str, index: int = 0) -> JSON:
    return event("function_call_arguments.delta", item_id=id, output_index=index, delta=delta)


def all_argued(id: str, arguments: Any, index: int = 0, **fields: Any) -> JSON:
    type = "function_call_arguments.done"
    return event(type, item_id=id, output_index=index, arguments=arguments, **fields)


def thought(id: str, delta: str, index: int = 0, spelling: str = "reasoning") -> JSON:
    number = {"summary_index" if "summary" in spelling else "content_index": 0}
    return event(f"{spelling}.delta", item_id=id, output_index=index, delta=delta, **number)


def cited(id: str, url: str, title: str = "", index: int = 0) -> JSON:
    annotation = {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": 0}
    return event("output_text.annotation.added", item_id=id, output_index=index, annotation=annotation)


def ended(status: str, output: list[JSON] | None = None, **fields: Any) -> JSON:
    """One of the three ends."""
    response = {"id": "resp_1", "model": "m", "status": status, "output": output or [], **fields}
    return event(status, response=response)


def completed(*output: JSON, **fields: Any) -> JSON:
    return ended("completed", list(output), **fields)


def failed(code: str, message: str) -> JSON:
    return ended("failed", error={"code": code, "message": message})


def incomplete(reason: str, *output: JSON) -> JSON:
    return ended("incomplete", list(output), incomplete_details={"reason": reason})
