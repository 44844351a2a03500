"""The upstream and the gateway of the kill tests."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.client.server import Connection, Script, Step, chunk, send
from tests.gateway.running import SECRET_ANSWER, SECRET_KEY, Running, gateway
from tests.gateway.scripts import rich_chat, text
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, ScriptedUpstream, frames, said, streamed

FILE = "store.sqlite"

CONFIG = """
passthrough = "chat"

[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""


def pause(seconds: float) -> Step:
    async def step(connection: Connection) -> None:
        await asyncio.sleep(seconds)
        if connection.writer.transport.is_closing():
            raise ConnectionError  # the client has disconnected

    return step


def paced(chunks: list[Any], seconds: float) -> Script:
    """Script an answer with pauses, like a model's."""
    steps = [send(SSE_HEAD)]
    for each in chunks:
        steps += [send(chunk(frames(each, done=False))), pause(seconds)]
    return [*steps, send(chunk(frames()) + LAST_CHUNK)]


def scripted() -> ScriptedUpstream:
    upstream = ScriptedUpstream()
    upstream.play("quick", streamed(*said(SECRET_ANSWER)))
    upstream.play("text", paced([*text(*SECRET_ANSWER), *said(SECRET_ANSWER)], 0.01))
    upstream.play("tools", paced(rich_chat(), 0.004))
    upstream.play("slow", paced([*text(*"and so on and on and on"), *said(SECRET_ANSWER)], 0.04))
    return upstream


def started(folder: Path, upstream: ScriptedUpstream) -> AbstractContextManager[Running]:
    config = CONFIG.format(url=upstream.url)
    return gateway(folder, config=config, environment={"UPSTREAM_KEY": SECRET_KEY})
