"""Every field of a request that can hold a URL.

They are read from the types of the protocol, so that a new field is not forgotten. Those of vendors, which
the protocol passes on unread, are in a table.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, UNSET, Struct, UnsetType
from msgspec.structs import fields

from penstock.protocol.content import ContentPart, JsonValue
from penstock.protocol.items import Item
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import Tool
from penstock.protocol.wire import Wire

Json = dict[str, Any]

WORDS = frozenset(
    {"type", "role", "status", "model", "stream", "background", "previous_response_id", "conversation"}
)
"""Fields whose text selects something of the gateway: tests/hardening/test_url_fields.py names why not."""


class UrlCase(Struct, frozen=True):
    """A request with a URL in one field. `is_media`: the model needs it, so it must not be lost silently."""

    name: str
    body: Json
    is_media: bool = False


def cases(url: str) -> Iterator[UrlCase]:
    """Yield a request for every field."""
    for name in _text_fields(CreateResponse):
        yield UrlCase(name, {"input": "x", name: _value(CreateResponse, name, url)})
    for part, field in _pairs(ContentPart):
        made = _made(part, field, url)
        is_media = field in ("image_url", "file_url", "video_url")
        for place, items in _places_of_parts(made).items():
            yield UrlCase(f"{place}.{part.__name__}.{field}", {"input": items}, is_media and place == "user")
    for item, field in _pairs(Item):
        yield UrlCase(f"{item.__name__}.{field}", {"input": [_user("x"), _made(item, field, url)]})
    for tool, field in _pairs(Tool):
        yield UrlCase(f"{tool.__name__}.{field}", {"input": "x", "tools": [_made(tool, field, url)]})
    for name, body in _of_vendors(url).items():
        yield UrlCase(f"vendor.{name}", body)


def media_cases(url: str) -> Iterator[UrlCase]:
    """Yield only those that an upstream opens."""
    return (case for case in cases(url) if case.is_media)


def _user(content: Any) -> Json:
    return {"role": "user", "content": content}


def _places_of_parts(part: Json) -> dict[str, list[Json]]:
    call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": [part]}
    custom = {"type": "custom_tool_call", "call_id": "call_1", "name": "look", "input": "x"}
    return {
        "user": [_user([{"type": "input_text", "text": "x"}, part])],
        "system": [{"role": "system", "content": [part]}, _user("x")],
        "assistant": [_user("x"), {"role": "assistant", "content": [part]}, _user("x")],
        "output": [_user("x"), call, output],
        "custom_output": [_user("x"), custom, {**output, "type": "custom_tool_call_output"}],
        "agent": [_user("x"), {"type": "agent_message", "content": [part]}],
        "reasoning": [_user("x"), {"type": "reasoning", "summary": [part], "content": [part]}, _user("x")],
    }


def _pairs(union: Any) -> Iterator[tuple[type[Wire], str]]:
    for kind in get_args(union):
        yield from ((kind, name) for name in _text_fields(kind))


def _text_fields(kind: type[Wire]) -> list[str]:
    """Return the fields that can hold text, at any depth. `extra` stands for any field of an unknown type."""
    hints = get_type_hints(kind)
    known = [name for name in kind.__struct_fields__ if name not in WORDS and name != "extra"]
    found = [name for name in known if _can_hold_text(hints[name])]
    return [*found, "server_url"] if kind.catch_all else found


def _can_hold_text(hint: Any) -> bool:
    if hint in (str, object, Any):
        return True
    arguments = [each for each in get_args(hint) if each is not UnsetType]
    if get_origin(hint) in (Union, types.UnionType, list, dict):
        return any(map(_can_hold_text, arguments))
    return False


def _value(kind: type[Wire], name: str, url: str) -> Any:
    hint = get_type_hints(kind).get(name, str)
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if str in options:
        return url
    for option in options:
        if get_origin(option) is list:
            return [url]
        if get_origin(option) is dict or option in (JsonValue, Any):
            return {"url": url, "image_url": {"url": url}, "file": url, "nested": [{"file_url": url}]}
    raise AssertionError(f"{kind.__name__}.{name} can hold text, but this test does not know how: {hint}")


def _made(kind: type[Wire], name: str, url: str) -> Json:
    """Return the smallest value of a type, with a URL in one field."""
    made: Json = {}
    for field in fields(kind):
        if field.name == "type":
            made["type"] = field.default or "computer_screenshot"
        elif field.required and field.default is NODEFAULT and field.name != name:
            made[field.name] = {"role": "user"}.get(field.name) or _value(kind, field.name, "x")
    if made.get("type") in (UNSET, None):
        made.pop("type", None)
    return {**made, name: _value(kind, name, url)}


def _of_vendors(url: str) -> dict[str, Json]:
    """Fields of vendors that hold URLs, and that the protocol does not declare."""
    image = {"type": "input_image", "image_url": {"url": url}}
    screenshot = {"type": "computer_screenshot", "image_url": url}
    tools: dict[str, Json] = {
        "mcp": {"type": "mcp", "server_label": "s", "server_url": url, "require_approval": "never"},
        "connector": {"type": "mcp", "server_label": "s", "connector_id": url, "authorization": "x"},
        "tunnel": {"type": "mcp", "server_label": "s", "server_url": url, "headers": {"x": url}},
        "image_mask": {"type": "image_generation", "input_image_mask": {"image_url": url}},
        "container": {"type": "code_interpreter", "container": {"type": "auto", "file_ids": [url]}},
        "web_search": {"type": "web_search", "filters": {"allowed_domains": [url]}},
        "file_search": {"type": "file_search", "vector_store_ids": [url]},
        "grammar": {"type": "custom", "name": "t", "format": {"type": "grammar", "definition": url}},
        "schema": {
            "type": "function",
            "name": "t",
            "parameters": {"type": "object", "properties": {"a": {"$ref": url}}, "$schema": url},
        },
    }
    parts: dict[str, Json] = {
        "chat_image": {"type": "image_url", "image_url": {"url": url}},
        "image_object": image,
        "audio": {"type": "input_audio", "input_audio": {"data": url, "url": url, "format": "wav"}},
        "audio_url": {"type": "audio_url", "audio_url": {"url": url}},
        "document": {"type": "document", "source": {"type": "url", "url": url}},
        "file_data": {"type": "input_file", "filename": url, "file_data": f"data:text/html;base64,{url}"},
        "gemini_file": {"type": "input_file", "fileData": {"fileUri": url}},
        "data_url": {"type": "input_image", "image_url": f"data:text/uri-list,{url}"},
    }
    items: dict[str, Json] = {
        "screenshot": {"type": "computer_call_output", "call_id": "c", "output": screenshot},
        "mcp_call": {
            "type": "mcp_call",
            "server_label": "s",
            "server_url": url,
            "name": "t",
            "arguments": "{}",
        },
        "mcp_list": {"type": "mcp_list_tools", "server_label": "s", "server_url": url, "tools": []},
        "image_result": {"type": "image_generation_call", "result": url},
        "search": {"type": "web_search_call", "action": {"type": "open_page", "url": url}},
        "shell": {"type": "shell_call", "call_id": "c", "action": {"commands": [f"curl {url}"]}},
    }
    schema = {"type": "object", "properties": {"a": {"$ref": url}}}
    text = {"format": {"type": "json_schema", "name": "s", "schema": schema}}
    return {
        **{f"tool.{name}": {"input": "x", "tools": [tool]} for name, tool in tools.items()},
        **{f"part.{name}": {"input": [_user([part])]} for name, part in parts.items()},
        **{f"item.{name}": {"input": [_user("x"), item]} for name, item in items.items()},
        "text": {"input": "x", "text": text},
        "unknown": {
            "input": "x",
            "webhook_url": url,
            "callback": {"url": url},
            "base_url": url,
            "api_base": url,
        },
        "model": {"input": "x", "model": url},
        "previous": {"input": "x", "previous_response_id": url},
        "conversation": {"input": "x", "conversation": url},
    }
