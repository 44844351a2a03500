"""An upstream that says what a client asked for, word by word, and counts how often it was asked."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from tests.client.server import Asked, Connection, Script, Server, Step, answer, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, frames

_PROMPT = re.compile(r"turn (\S+): say (\d+) words, (\S+) seconds each")


def prompt_for(name: str, words: int, seconds: float) -> str:
    return f"turn {name}: say {words} words, {seconds} seconds each"


def words_of(name: str, count: int) -> list[str]:
    return [f"{name}/{number} " for number in range(count)]


class CountingUpstream(Server):
    """`calls` counts the requests for each turn: more than one means that it ran twice."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def script_for(self, asked: Asked) -> Script:
        if asked.method != "POST":  # the gateway looks for the names of models
            return [answer(404, {"error": {"message": "there is no list of models"}})]
        name, count, seconds = _PROMPT.findall(str(asked.json["messages"][-1]["content"]))[-1]
        self.calls[name] += 1
        return [_say(words_of(name, int(count)), float(seconds))]


def _say(words: list[str], seconds: float) -> Step:
    async def step(connection: Connection) -> None:
        await send(SSE_HEAD)(connection)
        for word in words:
            if connection.reader.at_eof():
                return
            await send(chunk(frames(chat_chunk({"content": word}), done=False)))(connection)
            await asyncio.sleep(seconds)
        await send(chunk(frames(chat_chunk(finish="stop"), USAGE)) + LAST_CHUNK)(connection)

    return step
