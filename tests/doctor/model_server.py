"""A server with a Chat Completions API whose model has the abilities that a test gives it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.client.server import Asked, Connection, Script, Server, Step, answer, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.scripts import STOP, TOOL_CALLS, call, calls
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, frames

Json = dict[str, Any]

ALL = frozenset({"streaming", "tools", "usage", "reasoning", "schema"})


class ModelServer(Server):
    """`abilities` are some of `ALL`; `key` is required if it is given. `pace` are the seconds between two
    chunks: with 0, the reader on the same event loop still gets each by itself."""

    def __init__(
        self,
        abilities: frozenset[str] = ALL,
        *,
        key: str = "",
        models: tuple[str, ...] | None = ("m-chat",),
        pace: float = 0.0,
    ) -> None:
        super().__init__()
        self._abilities, self._key, self._models, self._pace = abilities, key, models, pace

    def script_for(self, asked: Asked) -> Script:
        if self._key and asked.headers.get("authorization") != f"Bearer {self._key}":
            return [answer(401, {"error": {"message": "bad key", "code": "invalid_api_key"}})]
        if asked.target == "/v1/models" and self._models is not None:
            return [answer(200, {"object": "list", "data": [{"id": name} for name in self._models]})]
        if asked.target != "/v1/chat/completions":
            return [answer(404, {"error": {"message": f"there is nothing at {asked.target}"}})]
        return self._answer(asked.json)

    def _answer(self, body: Json) -> Script:
        has = self._abilities
        if body.get("tools") and "tools" not in has:
            return [answer(400, {"error": {"message": "tools are not supported"}})]
        if body.get("tools") and not any(each["role"] == "tool" for each in body["messages"]):
            arguments = ['{"city": ', '"Oslo"}']
            opening = calls(call(0, "call_1", "get_temperature", ""))
            return self._streamed(
                opening, *(calls(call(0, arguments=each)) for each in arguments), TOOL_CALLS
            )
        if body.get("response_format"):
            value = {"settlement_label": "Oslo", "is_seat_of_government": True}
            return self._streamed(*_text(json.dumps(value if "schema" in has else {"city": "Oslo"})), STOP)
        if body.get("reasoning_effort") and "reasoning" in has:
            return self._streamed(chat_chunk({"reasoning_content": "hm"}), *_text("205"), STOP)
        return self._streamed(*_text("one two three four five"), STOP)

    def _streamed(self, *chunks: Json) -> Script:
        if "streaming" not in self._abilities:
            return [answer(200, _whole(chunks, has_usage="usage" in self._abilities))]
        sent = [*chunks, _USAGE] if "usage" in self._abilities else [*chunks]
        steps = [
            step for each in sent for step in (send(chunk(frames(each, done=False))), _pause(self._pace))
        ]
        return [send(SSE_HEAD), *steps, send(chunk(frames()) + LAST_CHUNK)]


_USAGE: Json = {
    **USAGE,
    "usage": {name: value for name, value in USAGE["usage"].items() if not name.endswith("_details")},  # type: ignore[attr-defined]
}
"""Without reasoning tokens: those of a test come from its chunks."""


def _text(text: str) -> list[Json]:
    return [chat_chunk({"content": text[at : at + 6]}) for at in range(0, len(text), 6)]


def _whole(chunks: tuple[Json, ...], *, has_usage: bool) -> Json:
    """The same answer as one JSON document."""
    message: Json = {"role": "assistant", "content": ""}
    for each in chunks:
        delta = each["choices"][0]["delta"]
        message["content"] += delta.get("content", "")
        if "reasoning_content" in delta:
            message["reasoning_content"] = delta["reasoning_content"]
        for entry in delta.get("tool_calls", ()):
            known = message.setdefault("tool_calls", [entry])[0]
            if known is not entry:
                known["function"]["arguments"] += entry["function"]["arguments"]
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"choices": [choice], **({"usage": _USAGE["usage"]} if has_usage else {})}


def _pause(seconds: float) -> Step:
    async def step(_: Connection) -> None:
        for _turn in range(5):
            await asyncio.sleep(0)
        await asyncio.sleep(seconds)

    return step
