"""A scripted upstream that many tests share: the model's name picks the script.

Every request for a model gets the script that a test has set for it. With several scripts, the first request
gets the first one, and so on; the last script is repeated.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from contextlib import suppress
from typing import Any

from tests.client.server import (
    Asked,
    Connection,
    Script,
    Server,
    Step,
    answer,
    chunk,
    head,
    send,
)
from tests.dialects.chat_streams import chunk as chat_chunk

LAST_CHUNK = b"0\r\n\r\n"


SSE_HEAD = head(transfer_encoding="chunked")


class ScriptedUpstream(Server):
    """`asked` has every request; `asked_for(model)` those of one test."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self._plays: dict[str, list[Script]] = {}

    def play(self, model: str, *scripts: Script) -> str:
        self._plays[model] = list(scripts)
        return model

    def scripts_of(self, model: str) -> list[Script]:
        return list(self._plays[model])

    def asked_for(self, model: str) -> list[Asked]:
        return [each for each in self.asked if _model_of(each) == model]

    def script_for(self, asked: Asked) -> Script:
        plays = self._plays.get(_model_of(asked))
        if plays is None:
            return [answer(418, {"error": {"message": f"no script for {asked.target}"}})]
        return plays.pop(0) if len(plays) > 1 else plays[0]


def _model_of(asked: Asked) -> str:
    if not asked.body:
        return ""
    named: str = asked.json.get("model", "")
    return named


def frames(*chunks: Any, done: bool = True) -> bytes:
    """Chat Completions chunks as server-sent events; text is sent as it is."""
    data = b"".join(
        b"data: " + (each.encode() if isinstance(each, str) else json.dumps(each).encode()) + b"\n\n"
        for each in chunks
    )
    return data + (b"data: [DONE]\n\n" if done else b"")


def streamed(*chunks: Any, done: bool = True) -> Script:
    """A whole streamed answer."""
    data = frames(*chunks, done=done)
    return [send(SSE_HEAD + (chunk(data) if data else b"") + LAST_CHUNK)]


def begun(*chunks: Any) -> Script:
    """The beginning of an answer, which another step continues."""
    return [send(SSE_HEAD + (chunk(frames(*chunks, done=False)) if chunks else b""))]


def said(text: str) -> list[Any]:
    """A text in three chunks, its end and its usage."""
    third = max(1, len(text) // 3)
    pieces = [text[:third], text[third : 2 * third], text[2 * third :]]
    return [*(chat_chunk({"content": piece}) for piece in pieces), chat_chunk(finish="stop"), USAGE]


USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}


def until_gone(gone: threading.Event) -> Step:
    """Send nothing until the gateway closes the connection, and set the event then."""

    async def step(connection: Connection) -> None:
        with suppress(OSError):
            while await connection.reader.read(65536):
                pass
        gone.set()

    return step


def until(opened: threading.Event) -> Step:
    """Send nothing until the test sets the event."""

    async def step(_: Connection) -> None:
        while not opened.is_set():
            await asyncio.sleep(0.005)

    return step


class Flood:
    """Sends chunks for as long as the gateway reads them; `sent` counts their bytes."""

    def __init__(self, data: bytes, times: int) -> None:
        self._data, self._times = data, times
        self.sent = 0

    async def __call__(self, connection: Connection) -> None:
        for _ in range(self._times):
            connection.writer.write(self._data)
            await connection.writer.drain()
            self.sent += len(self._data)


def rest(text: str) -> Step:
    """The rest of a stream that has begun."""
    return send(chunk(frames(*said(text))) + LAST_CHUNK)
