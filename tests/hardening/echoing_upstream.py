"""An upstream that repeats everything it is sent: whatever reaches it by mistake comes back to the client."""

from __future__ import annotations

import asyncio
import json
import threading

from tests.client.server import Asked, Connection, Script, answer, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.scripts import TOOL_CALLS, call, calls
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, ScriptedUpstream, frames

_PACE = 0.3


class EchoingUpstream(ScriptedUpstream):
    """`sent` has the bodies of all requests. Models whose name ends in `-slow` take a moment."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def script_for(self, asked: Asked) -> Script:
        if asked.method == "GET":
            return [answer(200, {"object": "list", "data": []})]
        body = asked.json
        said = json.dumps(body["messages"], ensure_ascii=False)
        pieces = [
            chat_chunk({"role": "assistant", "reasoning_content": f"thought about {said[-200:]}"}),
            *(chat_chunk({"content": said[at : at + 4000]}) for at in range(0, len(said), 4000)),
            calls(call(0, None, "look", json.dumps({"at": said[-100:]}))),
            TOOL_CALLS,
            USAGE,
        ]
        head = frames(pieces[0], done=False)
        begun = [send(SSE_HEAD + chunk(head)), *([_pause] if str(body["model"]).endswith("-slow") else [])]
        return [*begun, send(chunk(frames(*pieces[1:])) + LAST_CHUNK)]


async def _pause(_: Connection) -> None:
    await asyncio.sleep(_PACE)
