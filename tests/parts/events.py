"""Short constructors for the events and items of a stream."""

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
    """Return a function call. Its call id defaults to `call_` and the id of the item."""
    item = {"type": "function_call", "id": id, "call_id": call_id or f"call_{id}", "name": name}
    return {**item, "arguments": arguments, **fields}


def custom_call(id: str, name: str, input: Any = "", **fields: Any) -> JSON:
    item = {"type": "custom_tool_call", "id": id, "call_id": f"call_{id}", "name": name}
    return {**item, "input": input, **fields}


# Events


def item_added(item: JSON, index: int = 0) -> JSON:
    return event("output_item.added", output_index=index, item=item)


def item_done(item: JSON, index: int = 0) -> JSON:
    return event("output_item.done", output_index=index, item=item)


def text_delta(id: str, delta: str, index: int = 0) -> JSON:
    return event("output_text.delta", item_id=id, output_index=index, content_index=0, delta=delta)


def text_done(id: str, text: str, index: int = 0) -> JSON:
    return event("output_text.done", item_id=id, output_index=index, content_index=0, text=text)


def arguments_delta(id: str, delta: str, index: int = 0) -> JSON:
    return event("function_call_arguments.delta", item_id=id, output_index=index, delta=delta)


def arguments_done(id: str, arguments: Any, index: int = 0, **fields: Any) -> JSON:
    type = "function_call_arguments.done"
    return event(type, item_id=id, output_index=index, arguments=arguments, **fields)


def reasoning_delta(id: str, delta: str, index: int = 0, name: str = "reasoning") -> JSON:
    number = {"summary_index" if "summary" in name else "content_index": 0}
    return event(f"{name}.delta", item_id=id, output_index=index, delta=delta, **number)


def citation_added(id: str, url: str, title: str = "", index: int = 0) -> JSON:
    annotation = {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": 0}
    return event("output_text.annotation.added", item_id=id, output_index=index, annotation=annotation)


def response_ended(status: str, output: list[JSON] | None = None, **fields: Any) -> JSON:
    """Return a terminal event."""
    response = {"id": "resp_1", "model": "m", "status": status, "output": output or [], **fields}
    return event(status, response=response)


def completed(*output: JSON, **fields: Any) -> JSON:
    return response_ended("completed", list(output), **fields)


def failed(code: str, message: str) -> JSON:
    return response_ended("failed", error={"code": code, "message": message})


def incomplete(reason: str, *output: JSON) -> JSON:
    return response_ended("incomplete", list(output), incomplete_details={"reason": reason})
