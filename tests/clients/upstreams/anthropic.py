"""A strict Anthropic Messages upstream, for a model that thinks with a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import msgspec

from tests.client.server import Asked
from tests.clients.script import Declared, Entry, Json, Seen, encode
from tests.clients.upstreams.base import USUAL_OUTPUT, StrictUpstream, Voice, repeated

FIELDS = {
    "cache_control", "max_tokens", "messages", "metadata", "model", "output_config", "service_tier",
    "stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p",
}  # fmt: skip
BLOCKS = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}
NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
ID = re.compile(r"[A-Za-z0-9_-]+")
MOST_MARKS = 4
LEAST_BUDGET = 1024


class StrictAnthropic(StrictUpstream):
    dialect = "anthropic"

    def __init__(self) -> None:
        super().__init__()
        self._signatures: dict[str, str] = {}
        """The thinking that was sent, by its signature."""
        self._numbers = count(1)

    def faults(self, asked: Asked) -> list[str]:
        body: Json = asked.json
        found = [f"{name}: extra inputs are not permitted" for name in body.keys() - FIELDS]
        if not asked.target.startswith("/v1/messages"):
            found.append(f"no such path: {asked.target}")
        if "anthropic-version" not in asked.headers:
            found.append("anthropic-version: header is required")
        if not isinstance(body.get("max_tokens"), int):
            found.append("max_tokens: field required")
        found += [*_tool_faults(body), *_thinking_faults(body), *_order_faults(body.get("messages") or [])]
        for index, message in enumerate(body.get("messages") or []):
            found += [f"messages.{index}: {fault}" for fault in self._content_faults(message)]
        if str(body).count("'cache_control'") > MOST_MARKS:
            found.append(f"a maximum of {MOST_MARKS} blocks with cache_control may be provided")
        return found

    def _content_faults(self, message: Json) -> Iterator[str]:
        role = message.get("role")
        if role not in BLOCKS:
            yield f"role: unexpected role {role!r}"
            return
        blocks = _blocks(message)
        if not blocks:
            yield "content is empty"
        for block in blocks:
            kind = block.get("type")
            if kind not in BLOCKS[role]:
                yield f"{kind} blocks are not allowed in {role} messages"
            elif kind == "text" and not block["text"].strip():
                yield "text content blocks must contain non-whitespace text"
            elif kind == "thinking" and self._signatures.get(block.get("signature", "")) != block["thinking"]:
                yield "invalid signature in thinking block"
            elif kind == "tool_use" and not (ID.fullmatch(block["id"]) and isinstance(block["input"], dict)):
                yield "tool_use: invalid id or input"
            elif kind == "tool_result" and block.get("content") == []:
                yield "tool_result: content is empty"

    def read(self, body: Json) -> Seen:
        declared = [
            Declared(each["name"], each.get("description", ""), each["input_schema"])
            for each in body.get("tools", [])
        ]
        system = body.get("system", "")
        texts = [system] if isinstance(system, str) else [each["text"] for each in system]
        entries = [Entry("system", text) for text in texts if text]
        for message in body["messages"]:
            entries += [entry for block in _blocks(message) for entry in _entries(message["role"], block)]
        return Seen(declared, entries)

    def voice(self, body: Json) -> Voice:
        thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
        return AnthropicVoice(body["model"], self._signatures, self._numbers, thinks=thinks)

    def error(self, status: int, message: str) -> Json:
        kinds = {400: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _tool_faults(body: Json) -> Iterator[str]:
    names = [each.get("name", "") for each in body.get("tools", [])]
    yield from (f"tools: invalid name {name!r}" for name in names if not NAME.fullmatch(name))
    yield from (f"tools: names must be unique: {name!r}" for name in repeated(names))
    for tool in body.get("tools", []):
        if tool.get("input_schema", {}).get("type") != "object":
            yield f"tools.{tool.get('name')}.input_schema.type: must be object"
    if "tool_choice" in body and not names:
        yield "tool_choice may only be specified while providing tools"
    used = any(
        block.get("type") == "tool_use" for each in body.get("messages", []) for block in _blocks(each)
    )
    if used and not names:
        yield "tools must be defined when messages contain tool_use blocks"


def _thinking_faults(body: Json) -> Iterator[str]:
    thinking = body.get("thinking", {})
    if thinking.get("type") not in (None, "enabled", "disabled"):
        yield f"thinking.type: {thinking['type']!r} is not supported by this model"
    if thinking.get("type") != "enabled":
        return
    if not LEAST_BUDGET <= thinking.get("budget_tokens", 0) < body.get("max_tokens", 0):
        yield "thinking.budget_tokens: must be at least 1024 and less than max_tokens"
    if body.get("temperature", 1) != 1 or "top_k" in body:
        yield "temperature may only be set to 1 when thinking is enabled"
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "thinking may not be enabled when tool_choice forces tool use"
    for message in _current_loop(body["messages"]):
        blocks = _blocks(message)
        if any(block["type"] == "tool_use" for block in blocks) and "thinking" not in blocks[0]["type"]:
            yield f"expected thinking or redacted_thinking, but found {blocks[0]['type']}"


def _current_loop(messages: list[Json]) -> list[Json]:
    """Return the first assistant message since the last prompt: it must begin with thinking."""
    last_prompt = max(
        (
            index
            for index, each in enumerate(messages)
            if each["role"] == "user" and not any(block["type"] == "tool_result" for block in _blocks(each))
        ),
        default=-1,
    )
    return [each for each in messages[last_prompt + 1 :] if each["role"] == "assistant"][:1]


def _order_faults(messages: list[Json]) -> Iterator[str]:
    if not messages or messages[0].get("role") != "user":
        yield "messages: the first message must use the user role"
    ids: list[str] = []
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        blocks = _blocks(message)
        results = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        if missing := waiting - set(results):
            yield f"messages.{index}: tool_use ids without tool_result: {', '.join(sorted(missing))}"
        if unknown := set(results) - waiting:
            yield f"messages.{index}: unexpected tool_use_id in tool_result: {', '.join(sorted(unknown))}"
        if repeated(results):
            yield f"messages.{index}: each tool_use must have a single result"
        if results and blocks[0].get("type") != "tool_result":
            yield f"messages.{index}: tool_result blocks must come first"
        waiting = {block["id"] for block in blocks if block.get("type") == "tool_use"}
        ids += [block["id"] for block in blocks if block.get("type") == "tool_use"]
    if waiting:
        yield f"tool_use ids without tool_result: {', '.join(sorted(waiting))}"
    yield from (f"tool_use ids must be unique: {id!r}" for id in repeated(ids))


def _entries(role: str, block: Json) -> Iterator[Entry]:
    kind = block["type"]
    if kind == "tool_result":
        content = block.get("content", "")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [part["text"] for part in parts if part["type"] == "text"]
        yield Entry("output", "\n".join(texts), block["tool_use_id"])
        yield from (_image(part) for part in parts if part["type"] == "image")
    elif kind == "image":
        yield _image(block)
    elif kind == "tool_use":
        yield Entry("call", encode(block["input"]), block["name"])
    elif kind == "thinking":
        yield Entry("reasoning", block["thinking"])
    elif kind == "text":
        yield Entry(role, block["text"])


def _image(block: Json) -> Entry:
    source = block["source"]
    data = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
    return Entry("image", data)


class AnthropicVoice(Voice):
    def __init__(self, model: str, signatures: dict[str, str], numbers: count[int], *, thinks: bool) -> None:
        self._model, self._signatures, self._numbers, self._thinks = model, signatures, numbers, thinks
        self._index = 0
        self._has_calls = False

    def begin(self) -> bytes:
        usage = {"input_tokens": self.input_tokens, "output_tokens": 1}
        message = {"id": f"msg_{next(self._numbers)}", "type": "message", "role": "assistant"}
        message |= {"model": self._model, "content": [], "stop_reason": None, "usage": usage}  # type: ignore[dict-item]
        return _frame("message_start", message=message)

    def say(self, text: str) -> bytes:
        return self._block({"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    def think(self, text: str) -> bytes:
        """Think aloud only if the request allows it, as the vendor does."""
        if not self._thinks:
            return b""
        signature = f"signed{next(self._numbers)}=="
        self._signatures[signature] = text
        return self._block(
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": text},
            {"type": "signature_delta", "signature": signature},
        )

    def call(self, name: str, arguments: Json) -> bytes:
        thought = self.think("I need a tool.") if self._thinks and not self._index else b""
        self._has_calls = True
        data = encode(arguments)
        middle = len(data) // 2
        return thought + self._block(
            {"type": "tool_use", "id": f"toolu_{next(self._numbers)}", "name": name, "input": {}},
            {"type": "input_json_delta", "partial_json": data[:middle]},
            {"type": "input_json_delta", "partial_json": data[middle:]},
        )

    def end(self, *, is_truncated: bool) -> bytes:
        reason = "max_tokens" if is_truncated else "tool_use" if self._has_calls else "end_turn"
        delta = {"stop_reason": reason, "stop_sequence": None}
        ended = _frame("message_delta", delta=delta, usage={"output_tokens": USUAL_OUTPUT})
        return ended + _frame("message_stop")

    def _block(self, block: Json, *deltas: Json) -> bytes:
        index = self._index
        self._index += 1
        return b"".join(
            [
                _frame("content_block_start", index=index, content_block=block),
                *(_frame("content_block_delta", index=index, delta=delta) for delta in deltas),
                _frame("content_block_stop", index=index),
            ]
        )


def _frame(kind: str, **fields: object) -> bytes:
    data = msgspec.json.encode({"type": kind, **fields})
    return f"event: {kind}\ndata: ".encode() + data + b"\n\n"
