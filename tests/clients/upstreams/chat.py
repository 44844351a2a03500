"""A strict Chat Completions upstream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.client.server import Asked
from tests.clients.script import Declared, Entry, Json, Seen, encode
from tests.clients.upstreams.base import USUAL_OUTPUT, StrictUpstream, Voice, repeated

FIELDS = {
    "frequency_penalty", "logprobs", "max_completion_tokens", "max_tokens", "messages", "metadata", "model",
    "n",    "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
    "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store",
    "stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user",
    "verbosity",
}  # fmt: skip
"""The fields of a request. Others are refused as unknown."""

ROLES = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}
"""The fields of each kind of message."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
PARTS = {"user": {"text", "image_url", "input_audio", "file"}, "assistant": {"text", "refusal"}}


class StrictChat(StrictUpstream):
    dialect = "chat"

    def faults(self, asked: Asked) -> list[str]:
        body: Json = asked.json
        found = [f"unknown parameter: {name}" for name in body.keys() - FIELDS]
        if not asked.target.startswith("/v1/chat/completions"):
            found.append(f"no such path: {asked.target}")
        if "stream_options" in body and not body.get("stream"):
            found.append("stream_options is only allowed with stream")
        return [*found, *_tool_faults(body), *_message_faults(body.get("messages") or [])]

    def read(self, body: Json) -> Seen:
        tools = [each["function"] for each in body.get("tools", [])]
        declared = [
            Declared(each["name"], each.get("description", ""), each.get("parameters", {})) for each in tools
        ]
        return Seen(declared, [entry for each in body["messages"] for entry in _entries(each)])

    def voice(self, body: Json) -> Voice:
        return ChatVoice(body["messages"])

    def error(self, status: int, message: str) -> Json:
        kind = "rate_limit_exceeded" if status == 429 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def _tool_faults(body: Json) -> Iterator[str]:
    names = [each.get("function", {}).get("name", "") for each in body.get("tools", [])]
    yield from (f"invalid tool name {name!r}" for name in names if not NAME.fullmatch(name))
    yield from (f"tool {name!r} is declared twice" for name in repeated(names))
    for tool in body.get("tools", []):
        if tool.get("type") != "function":
            yield f"invalid tool type {tool.get('type')!r}"
        elif tool["function"].get("parameters", {"type": "object"}).get("type") != "object":
            yield f"the schema of {tool['function']['name']!r} is not an object"
    if "tools" in body and not body["tools"]:
        yield "tools is an empty list"
    if "tools" not in body and ("tool_choice" in body or "parallel_tool_calls" in body):
        yield "tool_choice and parallel_tool_calls are only allowed with tools"
    choice = body.get("tool_choice")
    if (
        isinstance(choice, dict)
        and choice.get("type") == "function"
        and choice["function"]["name"] not in names
    ):
        yield f"tool_choice names {choice['function']['name']!r}, which is not in tools"


def _message_faults(messages: list[Json]) -> Iterator[str]:
    if not messages:
        yield "messages is empty"
    open_calls: list[str] = []
    ids: list[str] = []
    has_begun = False
    for index, message in enumerate(messages):
        role = message.get("role", "")
        if role not in ROLES:
            yield f"messages[{index}]: invalid role {role!r}"
            continue
        yield from (f"messages[{index}]: unknown field {name}" for name in message.keys() - ROLES[role])
        if role in ("system", "developer"):
            if has_begun:
                yield f"messages[{index}]: a system message must be at the beginning"
        else:
            has_begun = True
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield f"messages[{index}]: a tool message must follow a message with its tool call"
            else:
                open_calls.remove(message["tool_call_id"])
        elif open_calls:
            yield f"messages[{index}]: these tool calls have no output: {', '.join(open_calls)}"
            open_calls = []
        yield from (f"messages[{index}]: {fault}" for fault in _content_faults(message))
        calls = message.get("tool_calls") or []
        open_calls += [each["id"] for each in calls]
        ids += [each["id"] for each in calls]
        yield from (f"messages[{index}]: {fault}" for each in calls for fault in _call_faults(each))
    if open_calls:
        yield f"these tool calls have no output: {', '.join(open_calls)}"
    yield from (f"the tool call id {id!r} is used twice" for id in repeated(ids))


def _content_faults(message: Json) -> Iterator[str]:
    role, content = message["role"], message.get("content")
    if content is None:
        if role != "assistant" or not message.get("tool_calls"):
            yield "content is missing"
    elif isinstance(content, str):
        if not content and role != "tool":
            yield "content is empty"
    elif not content:
        yield "content is an empty list"
    else:
        allowed = PARTS.get(role, {"text"})
        yield from (
            f"a {role} message cannot contain {part.get('type')!r}"
            for part in content
            if part.get("type") not in allowed
        )
        yield from (
            "a text part is empty" for part in content if part.get("type") == "text" and not part["text"]
        )
    if "tool_calls" in message and not message["tool_calls"]:
        yield "tool_calls is empty"


def _call_faults(call: Json) -> Iterator[str]:
    function = call.get("function", {})
    if call.get("type") != "function" or not call.get("id"):
        yield "a tool call needs an id and the type function"
    if len(call.get("id", "")) > 64:
        yield "a tool call id is longer than 64 characters"
    if not NAME.fullmatch(function.get("name", "")):
        yield f"invalid tool name {function.get('name')!r}"
    try:
        arguments = json.loads(function.get("arguments", ""))
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        yield f"the arguments of {function.get('name')!r} are not a JSON object"


def _entries(message: Json) -> Iterator[Entry]:
    role: str = message["role"]
    content = message.get("content")
    kind = {"tool": "output", "developer": "system"}.get(role, role)
    if message.get("reasoning_content"):
        yield Entry("reasoning", message["reasoning_content"])
    parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    for part in parts:
        if part["type"] == "image_url":
            yield Entry("image", part["image_url"]["url"])
        else:
            yield Entry(kind, part.get("text", ""), message.get("tool_call_id", ""))
    for call in message.get("tool_calls") or []:
        yield Entry("call", call["function"]["arguments"], call["function"]["name"])


class ChatVoice(Voice):
    """Call ids are numbered over the whole conversation, because this vendor refuses repeated ones."""

    def __init__(self, messages: list[Json]) -> None:
        self._earlier = sum(len(each.get("tool_calls") or []) for each in messages)
        self._calls = 0

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def say(self, text: str) -> bytes:
        middle = len(text) // 2
        return self._chunk({"content": text[:middle]}) + self._chunk({"content": text[middle:]})

    def think(self, text: str) -> bytes:
        return self._chunk({"reasoning_content": text})

    def call(self, name: str, arguments: Json) -> bytes:
        index, data = self._calls, encode(arguments)
        self._calls += 1
        call: Json = {"index": index, "id": f"call_{self._earlier + index}", "type": "function"}
        middle = len(data) // 2
        first = {**call, "function": {"name": name, "arguments": data[:middle]}}
        rest = {"index": index, "function": {"arguments": data[middle:]}}
        return self._chunk({"tool_calls": [first]}) + self._chunk({"tool_calls": [rest]})

    def end(self, *, is_truncated: bool) -> bytes:
        reason = "length" if is_truncated else "tool_calls" if self._calls else "stop"
        usage = {"prompt_tokens": self.input_tokens, "completion_tokens": USUAL_OUTPUT}
        usage["total_tokens"] = self.input_tokens + USUAL_OUTPUT
        return (
            self._chunk({}, reason)
            + _frame({"object": "chat.completion.chunk", "choices": [], "usage": usage})
            + b"data: [DONE]\n\n"
        )

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        return _frame({**head, "choices": [choice]})


def _frame(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
