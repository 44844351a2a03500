"""Forms of Chat Completions in a request for Responses: it is refused, with what to write instead.

If they were ignored, the model would answer another question than the client asked, or in another form. A
client that sends both forms, to work with both APIs, gets its answer: it says all that Responses needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from penstock.errors import DecodeError
from penstock.protocol.content import JsonObject

_SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
_CALL: JsonObject = {"type": "function", "name": "get_weather"}
_TOOL: JsonObject = {"tools": [{**_CALL, "parameters": _SCHEMA}]}
_CHOICE: JsonObject = {**_TOOL, "tool_choice": _CALL}
_CUSTOM_TOOL: JsonObject = {"tools": [{"type": "custom", "name": "run_sql"}]}
_ALLOWED: JsonObject = {**_TOOL, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [_CALL]}}
_FORMAT: JsonObject = {"text": {"format": {"type": "json_schema", "name": "answer", "schema": _SCHEMA}}}
_JSON: JsonObject = {"text": {"format": {"type": "json_object"}}}
_OUTPUT: JsonObject = {
    "input": [
        {"role": "user", "content": "How is the weather in Rome?"},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": '{"city": "Rome"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"},
    ]
}


def _with_part(part: JsonObject) -> JsonObject:
    return {"input": [{"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, part]}]}


_IMAGE = _with_part({"type": "input_image", "image_url": "https://example.com/cat.png"})
_FILE = _with_part(
    {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,SGVsbG8="}
)


class ChatForm(Struct, frozen=True):
    """Something that Chat Completions writes differently.

    `instead` is what to write in Responses. If the field `unless` is there too, or the value is one of
    `neutral`, the request is accepted. Each of the `examples` is part of a valid request.
    """

    instead: str
    examples: tuple[JsonObject, ...]
    unless: str = ""
    neutral: tuple[Any, ...] = ()
    """Values that ask for what Responses does by default."""


def _field(name: str, *examples: JsonObject, neutral: tuple[Any, ...] = ()) -> ChatForm:
    return ChatForm(f"`{name}`", examples, name, neutral)


FIELDS: dict[str, ChatForm] = {
    "messages": _field("input", {"input": [{"role": "user", "content": "Hello!"}]}, neutral=([],)),
    "max_tokens": _field("max_output_tokens", {"max_output_tokens": 1000}),
    "max_completion_tokens": _field("max_output_tokens", {"max_output_tokens": 1000}),
    "response_format": _field("text.format", _FORMAT, _JSON, neutral=({"type": "text"},)),
    "reasoning_effort": _field("reasoning.effort", {"reasoning": {"effort": "high"}}),
    "verbosity": _field("text.verbosity", {"text": {"verbosity": "low"}}),
    "functions": _field("tools", _TOOL, neutral=([],)),
    "function_call": _field("tool_choice", _CHOICE, neutral=("auto",)),
}
"""Fields of a request."""

NESTED: dict[str, ChatForm] = {
    "tools[].function": ChatForm("its fields directly into the tool", (_TOOL,), "name"),
    "tools[].custom": ChatForm("its fields directly into the tool", (_CUSTOM_TOOL,), "name"),
    "tool_choice.function": ChatForm("its fields directly into `tool_choice`", (_CHOICE,), "name"),
    "tool_choice.allowed_tools": ChatForm("its fields directly into `tool_choice`", (_ALLOWED,), "tools"),
    "text.format.json_schema": ChatForm("its fields directly into `text.format`", (_FORMAT,), "schema"),
}
"""Objects whose fields are one level higher in Responses; `unless` is such a field."""

ROLES: dict[str, ChatForm] = dict.fromkeys(
    ("tool", "function"), ChatForm("an item of the type `function_call_output`", (_OUTPUT,))
)
"""Roles of a message in the input."""

CALLS: dict[str, ChatForm] = dict.fromkeys(
    ("tool_calls", "function_call"), ChatForm("an item of the type `function_call` for each call", (_OUTPUT,))
)
"""Fields of a message in the input."""

PARTS: dict[str, ChatForm] = {
    "image_url": ChatForm("the type `input_image`, with the URL as a string", (_IMAGE,)),
    "file": ChatForm("the type `input_file`", (_FILE,)),
}
"""Types of content parts. The type `text` is in the specification of Responses, too."""

_MESSAGE = ("message", "", None)
"""The type of an item that is a message. It may be left out."""
_CHAT_ROLES = tuple(ROLES)
_CHAT_PARTS = (*PARTS, "input_image")
# Tuples, because JSON may have a list where a name is expected, and a list has no hash.

HINTS: dict[str, tuple[Any, str]] = {
    "n": (1, "a response has one answer: send the request again for another one"),
    "logprobs": (False, 'for log probabilities, write {"include": ["message.output_text.logprobs"]}'),
    "web_search_options": (None, 'for a web search, write {"tools": [{"type": "web_search"}]}'),
}
"""Fields that are ignored with a diagnostic, because the model can answer the question without them: the
value that means nothing, and what to do instead."""


def refuse_chat_request(raw: object) -> None:
    """Raise `DecodeError` if a request, as decoded JSON, has a form of Chat Completions."""
    if not isinstance(raw, dict):
        return
    for name, form in FIELDS.items():
        value = raw.get(name)
        if value is not None and value not in form.neutral and _at(raw, form.unless) is None:
            raise _refusal(form, name)
    for path, form in NESTED.items():
        outer, _, inner = path.rpartition(".")
        for index, value in enumerate(_objects(raw, outer)):
            if value.get(inner) is not None and value.get(form.unless) is None:
                raise _refusal(form, f"{outer.replace('[]', f'[{index}]')}.{inner}")
    refuse_chat_items(raw.get("input"), "input")


def refuse_chat_items(items: object, field: str) -> None:
    """Raise `DecodeError` if a list of items has a form of Chat Completions. `field` is its name."""
    if not isinstance(items, list):
        return
    for index, item in enumerate(items):  # there may be thousands: the paths are only made for an error
        if not isinstance(item, dict) or item.get("type", "message") not in _MESSAGE:
            continue
        if item.get("role") in _CHAT_ROLES:
            raise _refusal(ROLES[item["role"]], f"{field}[{index}].role")
        if "tool_calls" in item or "function_call" in item:
            for name, form in CALLS.items():
                if item.get(name):
                    raise _refusal(form, f"{field}[{index}].{name}")
        content = item.get("content")
        if isinstance(content, list):
            for place, part in enumerate(content):
                if isinstance(part, dict) and part.get("type") in _CHAT_PARTS:
                    _refuse_chat_part(part, f"{field}[{index}].content[{place}]")


def _refuse_chat_part(part: JsonObject, path: str) -> None:
    if part["type"] in PARTS:
        raise _refusal(PARTS[part["type"]], f"{path}.type")
    if isinstance(part.get("image_url"), dict):
        raise _refusal(PARTS["image_url"], f"{path}.image_url")


def ignored_chat_fields(fields: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield each field of Chat Completions that a request was accepted with, and what is said about it."""
    for name, value in fields.items():
        if value is None:
            continue
        if name in FIELDS and value not in FIELDS[name].neutral:
            yield name, f"`{name}` is a field of Chat Completions: {FIELDS[name].instead} is used"
        elif name in HINTS and value != HINTS[name][0]:
            yield name, f"`{name}` is a field of Chat Completions; {HINTS[name][1]}"


def as_markdown() -> str:
    """Return the table in `docs/fields.md`."""
    rows = {
        **{f"`{name}`": form for name, form in (FIELDS | NESTED).items()},
        **{f"a message with the role `{name}`": form for name, form in ROLES.items()},
        **{f"a message with `{name}`": form for name, form in CALLS.items()},
        **{f"a content part of the type `{name}`": form for name, form in PARTS.items()},
    }
    written = [f"| {name} | {form.instead} |" for name, form in rows.items()]
    return "\n".join(["| Chat Completions | in Responses, write |", "|---|---|", *written])


def _refusal(form: ChatForm, param: str) -> DecodeError:
    message = f"this belongs to Chat Completions; in Responses, write {form.instead}: {examples_of(form)}"
    return DecodeError(message, param)


def examples_of(form: ChatForm) -> str:
    """Return the examples as JSON."""
    return " or ".join(map(json.dumps, form.examples))


def _at(raw: JsonObject, path: str) -> Any:
    value: Any = raw
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _objects(raw: JsonObject, path: str) -> list[JsonObject]:
    """Return the objects at a path; those of a list, if it ends with `[]`. Anything else is an empty one."""
    value = _at(raw, path.removesuffix("[]"))
    found = (value if isinstance(value, list) else []) if path.endswith("[]") else [value]
    return [each if isinstance(each, dict) else {} for each in found]
