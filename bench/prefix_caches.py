"""Upstreams with prompt caches, for `bench.routing`: what they have read before, they report as cached.

Each server has a cache for each key, like the vendors. A prompt is divided into blocks: the tools, the system
prompt, each message. The tokens of the longest run of blocks from the beginning that is in the cache are
cached. Chat Completions caches every prompt; Anthropic caches up to the marks in the request.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any

Json = dict[str, Any]

LEAST_TOKENS = 1024
"""Shorter prefixes are not cached, as at OpenAI and Anthropic."""
_BYTES_PER_TOKEN = 4
_MARK = "cache_control"
_ANSWER = "The change is small. " * 40


class Block:
    """A part of a prompt, and the hash of everything up to its end."""

    def __init__(self, data: Any, before: bytes) -> None:
        text = json.dumps(_without_marks(data), sort_keys=True).encode()
        self.hash = sha256(before + text).digest()
        self.tokens = len(text) // _BYTES_PER_TOKEN
        self.is_marked = f'"{_MARK}"' in json.dumps(data)


def _without_marks(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_marks(each) for name, each in data.items() if name != _MARK}
    return [_without_marks(each) for each in data] if isinstance(data, list) else data


def blocks_of(body: Json) -> list[Block]:
    parts = [body.get("tools"), body.get("system"), *body["messages"]]
    blocks: list[Block] = []
    for part in parts:
        if part:
            blocks.append(Block(part, blocks[-1].hash if blocks else b""))
    return blocks


class CachingUpstream:
    """A server of one dialect. `requests` counts those of each key."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.url = ""
        self.requests: dict[str, int] = defaultdict(int)
        self._caches: dict[str, set[bytes]] = defaultdict(set)

    def take(self, key: str, body: Json) -> tuple[int, int, int]:
        """Return the tokens of a prompt, those that were cached, and those that are written to the cache."""
        self.requests[key] += 1
        cache, blocks = self._caches[key], blocks_of(body)
        total = cached = reached = written = 0
        ends: list[tuple[bytes, int]] = []
        for block in blocks:
            total += block.tokens
            if block.hash in cache:
                cached = total
            if (self.dialect == "chat" or block.is_marked) and total >= LEAST_TOKENS:
                ends.append((block.hash, total))
                reached = total
        written = max(reached - cached, 0)
        cache.update(hash for hash, _ in ends)
        return total, cached, written

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            if head.startswith("POST"):
                key = headers.get("authorization") or headers.get("x-api-key", "")
                data = self._stream(*self.take(key, json.loads(body)))
                kind = "text/event-stream"
            else:
                data, kind = b'{"data": []}', "application/json"
            start = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n"
            writer.write(f"{start}connection: close\r\n\r\n".encode() + data)
            await writer.drain()
        finally:
            writer.close()

    def _stream(self, total: int, cached: int, written: int) -> bytes:
        if self.dialect == "chat":
            usage = {"prompt_tokens": total, "completion_tokens": 200, "total_tokens": total + 200}
            details = {"prompt_tokens_details": {"cached_tokens": cached}}
            chunks: list[Json] = [
                {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": _ANSWER}}]},
                {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {"id": "c", "choices": [], "usage": {**usage, **details}},
            ]
            return (
                b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
                + b"data: [DONE]\n\n"
            )
        usage = {
            "input_tokens": total - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": 1,
        }
        message = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "usage": usage,
        }
        events: list[Json] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _ANSWER}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 200}},
            {"type": "message_stop"},
        ]
        return b"".join(
            b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode())
            for event in events
        )


@contextmanager
def caching_upstreams(*dialects: str) -> Iterator[list[CachingUpstream]]:
    """Run servers with empty caches in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start(upstream: CachingUpstream) -> asyncio.Server:
        server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
        upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return server

    async def stop(server: asyncio.Server) -> None:
        server.close()
        await server.wait_closed()

    with ExitStack() as stack:
        stack.callback(loop.close)
        stack.callback(thread.join)
        stack.callback(loop.call_soon_threadsafe, loop.stop)
        upstreams = [CachingUpstream(dialect) for dialect in dialects]
        for upstream in upstreams:
            server = asyncio.run_coroutine_threadsafe(start(upstream), loop).result(10)
            stack.callback(lambda each: asyncio.run_coroutine_threadsafe(stop(each), loop).result(10), server)
        yield upstreams
