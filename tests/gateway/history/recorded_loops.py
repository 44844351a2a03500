"""Recorded answers with reasoning, played by upstreams in this process, and what to send back of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.dialects.plan import Target, UpstreamRequest
from penstock.dialects.presets import target_for
from penstock.net.source import UpstreamSource
from penstock.sse import Frame
from penstock.upstream.keys import KeyRing
from tests.dialects.recordings import frames
from tests.gateway.fake_upstreams import FakeUpstream

Json = dict[str, Any]
Reasoning = list[Any]
"""Everything that must be sent back of an answer, in order, in the shape of its dialect."""


class Loop(Struct, frozen=True, kw_only=True):
    """A recorded answer of a model. `received` reads its reasoning from the recorded chunks, and `sent` from
    the request for the next turn: both without the code that is tested."""

    files: tuple[str, ...]
    dialect: str
    vendor: str
    model: str
    received: Callable[[list[Json]], Reasoning]
    sent: Callable[[Json], Reasoning]

    def frames(self) -> list[Frame]:
        if len(self.files) == 1:
            return frames(self.files[0])
        thinking, calling = map(frames, self.files)
        return [frame for frame in thinking if _is_reasoning(frame)] + calling

    def chunks(self) -> list[Json]:
        return [json.loads(frame.data) for frame in self.frames() if frame.data.startswith("{")]

    def stream(self) -> bytes:
        return b"".join(_encoded(frame) for frame in self.frames())


def _is_reasoning(frame: Frame) -> bool:
    choices = json.loads(frame.data)["choices"]
    return bool(choices) and bool(choices[0]["delta"].get("reasoning_content"))


def _encoded(frame: Frame) -> bytes:
    event = f"event: {frame.event}\n" if frame.event else ""
    return f"{event}data: {frame.data}\n\n".encode()


class PlayingUpstream(FakeUpstream):
    """Plays one recording for every request, with the quirks of its vendor. It notes which key was used."""

    def __init__(self, name: str, loop: Loop, keys: Sequence[str] = ("k1",)) -> None:
        super().__init__(name, [loop.stream()], dialect=loop.dialect)
        self.keys = KeyRing(keys, clock=time.monotonic, spread=False)
        self.used: list[str] = []
        self.failures: list[Exception] = []
        """Raised for the next requests, one each."""
        self._loop = loop

    def target(self, model: str, key: str) -> Target:
        del model  # the recorded one decides about the family
        return target_for(self._loop.model, self._loop.vendor, dialect=self._loop.dialect, key=key)

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        if self.failures:
            raise self.failures.pop(0)
        self.used.append(key)
        return await super().send(request, key=key, headers=headers)


# What an answer contains


def _deltas(chunks: list[Json]) -> Iterator[Json]:
    for chunk in chunks:
        for choice in chunk.get("choices") or []:
            yield choice["delta"]


def plain(field: str) -> Callable[[list[Json]], Reasoning]:
    """The text of one field of Chat Completions."""
    return lambda chunks: ["".join(delta.get(field) or "" for delta in _deltas(chunks))]


def details(chunks: list[Json]) -> Reasoning:
    """OpenRouter's details, joined by index and type as its documentation describes."""
    joined: list[Json] = []
    for delta in _deltas(chunks):
        for piece in delta.get("reasoning_details") or []:
            key = [piece.get(name) for name in ("type", "index", "id")]
            last = joined[-1] if joined else {}
            text = next((name for name in ("text", "summary") if piece.get(name)), "")
            is_same = all(
                last.get(name) in (None, value) or value is None
                for name, value in zip(("type", "index", "id"), key, strict=True)
            )
            if joined and is_same and not (last.get("signature") or last.get("data")):
                if text:
                    last[text] = last.get(text, "") + piece[text]
                rest = {name: piece[name] for name in piece.keys() - {"text", "summary"}}
                last |= {name: value for name, value in rest.items() if value is not None}
            else:
                joined.append(dict(piece))
    return joined


def signed_calls(chunks: list[Json]) -> Reasoning:
    """Google's signatures on the calls of its compatible endpoint."""
    calls = [call for delta in _deltas(chunks) for call in delta.get("tool_calls") or []]
    return [call["extra_content"] for call in calls if call.get("extra_content")]


def thinking_blocks(chunks: list[Json]) -> Reasoning:
    blocks: dict[int, Json] = {}
    for chunk in chunks:
        if chunk["type"] == "content_block_start" and "thinking" in chunk["content_block"]["type"]:
            blocks[chunk["index"]] = dict(chunk["content_block"])
        for name, value in chunk.get("delta", {}).items() if chunk.get("index") in blocks else ():
            if name in ("thinking", "signature"):
                blocks[chunk["index"]][name] = blocks[chunk["index"]].get(name, "") + value
    return list(blocks.values())


def signatures(chunks: list[Json]) -> Reasoning:
    """Gemini's signatures, each with the kind of its part."""
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.get("candidates") or []
        for part in (candidate.get("content") or {}).get("parts") or []
    ]
    return _signatures(parts)


def _signatures(parts: list[Json]) -> Reasoning:
    return [
        ("functionCall" if "functionCall" in part else "text", part["thoughtSignature"])
        for part in parts
        if part.get("thoughtSignature")
    ]


def reasoning_items(chunks: list[Json]) -> Reasoning:
    items = [chunk["item"] for chunk in chunks if chunk["type"] == "response.output_item.done"]
    return [_item(item) for item in items if item["type"] == "reasoning"]


def _item(item: Json) -> Any:
    """The encrypted content of an item, or else its texts and summaries."""
    texts = [[part["text"] for part in item.get(name) or []] for name in ("content", "summary")]
    return item.get("encrypted_content") or texts


# What the next request contains


def _assistant(body: Json) -> Json:
    (message,) = [each for each in body["messages"] if each["role"] == "assistant"]
    found: Json = message
    return found


SENT: dict[str, Callable[[Json], Reasoning]] = {
    "reasoning_content": lambda body: [_assistant(body).get("reasoning_content")],
    "reasoning": lambda body: [_assistant(body).get("reasoning")],
    "details": lambda body: _assistant(body).get("reasoning_details", []),
    "signed_calls": lambda body: [
        call["extra_content"] for call in _assistant(body)["tool_calls"] if "extra_content" in call
    ],
    "thinking": lambda body: [block for block in _assistant(body)["content"] if "thinking" in block["type"]],
    "signatures": lambda body: _signatures(
        [part for content in body["contents"] if content["role"] == "model" for part in content["parts"]]
    ),
    "items": lambda body: [_item(item) for item in body["input"] if item["type"] == "reasoning"],
}


def _chat(vendor: str, model: str, kind: str, *files: str) -> Loop:
    received = {"details": details, "signed_calls": signed_calls}.get(kind) or plain(kind)
    return Loop(
        files=tuple(f"chat-completions/{file}" for file in files),
        dialect="chat",
        vendor=vendor,
        model=model,
        received=received,
        sent=SENT[kind],
    )


def _anthropic(file: str) -> Loop:
    return Loop(
        files=(f"anthropic-messages/anthropic.{file}",),
        dialect="anthropic",
        vendor="anthropic",
        model="claude-sonnet-4-5",
        received=thinking_blocks,
        sent=SENT["thinking"],
    )


def _gemini(model: str, file: str) -> Loop:
    return Loop(
        files=(f"gemini/google.{file}",),
        dialect="gemini",
        vendor="gemini",
        model=model,
        received=signatures,
        sent=SENT["signatures"],
    )


def _responses(vendor: str, model: str, file: str) -> Loop:
    return Loop(
        files=(f"openai-responses/{file}",),
        dialect="responses",
        vendor=vendor,
        model=model,
        received=reasoning_items,
        sent=SENT["items"],
    )


LOOPS: dict[str, Loop] = {
    "DeepSeek": _chat(  # its reasoning and its calls are in two recordings
        *("deepseek", "deepseek-v4-pro", "reasoning_content"),
        "deepseek.ai.deepseek-deepseek-reasoning.0.jsonl",
        "deepseek.prism.deepseek-stream-with-tools-1.0.sse",
    ),
    "Kimi": _chat(
        *("moonshot", "kimi-k2.6", "reasoning_content"), "avian.fantasy.avian-kimi-tool-streaming.0.sse"
    ),
    "GLM": _chat(
        *("zai", "glm-4.7-flash", "reasoning_content"),
        "zai.fantasy.zai-glm-4-7-flash-multi-tool-streaming.0.sse",
    ),
    "Grok": _chat(
        *("xai", "grok-code-fast-1", "reasoning_content"),
        "xai.fantasy.xai-grok-code-fast-tool-streaming.0.sse",
    ),
    "Ollama": _chat(
        *("ollama", "qwen3", "reasoning"),
        "ollama.ruby_llm.chat-function-calling-ollama-qwen3-can-use-tools-with-multi-turn-streaming-conve.0.sse",
    ),
    "OpenRouter, text": _chat(
        *("openrouter", "moonshotai/kimi-k2.5", "details"),
        "openrouter.fantasy.kimi-multi-tool-streaming.0.sse",
    ),
    "OpenRouter, encrypted": _chat(
        *("openrouter", "google/gemini-2.5-pro", "details"),
        "openrouter.fantasy.gemini-multi-tool-streaming.0.sse",
    ),
    "OpenRouter, summary and encrypted": _chat(
        *("openrouter", "x-ai/grok-4", "details"), "openrouter.fantasy.grok-multi-tool-streaming.0.sse"
    ),
    "Vercel, signed": _chat(
        *("vercel", "anthropic/claude-sonnet-4", "details"),
        "vercel-gateway.fantasy.claude-sonnet-4-thinking-streaming.0.sse",
    ),
    "Gemini's compatible endpoint": _chat(
        *("", "gemini-3-pro", "signed_calls"),
        "openai-compatible.ai.should-stream-parallel-tool-calls-with-signature-only-on-first-call.8.sse",
    ),
    "Claude, signed": _anthropic("fantasy.claude-sonnet-4-thinking-streaming.0.sse"),
    "Claude, redacted": _anthropic("langchain.anthropic-test-redacted-thinking.1.sse"),
    "Gemini 2.5": _gemini("gemini-2.5-pro", "fantasy.gemini-2-5-pro-thinking-streaming.0.sse"),
    "Gemini 3, parallel calls": _gemini(
        "gemini-3-pro-preview", "fantasy.gemini-3-pro-preview-multi-tool-streaming.0.sse"
    ),
    "Gemini 3, text": _gemini(
        "gemini-3-pro-preview", "fantasy.gemini-3-pro-preview-simple-object-streaming.0.sse"
    ),
    "OpenAI": _responses("openai", "gpt-5", "openai.fantasy.openai-gpt-5-thinking-streaming.0.sse"),
    "OpenAI, without output at the end": _responses(
        "openai", "gpt-5.5", "openai.opencode.session-native-openai-oauth-tool-loop.0.sse"
    ),
    "xAI, Responses": _responses(
        *("xai", "grok-4-1-fast"),
        "xai.ruby_llm.chat-function-calling-xai-grok-4-1-fast-non-reasoning-can-use-tools-with-multi-t.0.sse",
    ),
    "DeepSeek, Responses": _responses(
        *("deepseek", "deepseek-v4-pro"),
        "deepseek.pydantic-ai.test-deepseek-responses-test-deepseek-responses-function-tool-stream.0.sse",
    ),
    "LM Studio, Responses": _responses(
        *("lmstudio", "gpt-oss-20b"), "lmstudio.ai.open-responses-lmstudio-tool-call-1.0.jsonl"
    ),
}
"""One row for each form in which reasoning must be sent back."""

PAUSED = _anthropic("pydantic-ai.test-anthropic-test-pause-turn-web-search-streaming-vcr.0.sse")
"""A turn that Anthropic paused in the middle of its own searches."""
