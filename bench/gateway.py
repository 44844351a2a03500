"""Benchmark of the gateway: `python -m bench.gateway`.

Two servers on the same stack (uvicorn, httptools, uvloop, aiohttp) use the same upstream in turn: the
gateway, and a relay that only passes bytes on. Measured in one run:

- *cpu*: CPU time per chunk of the gateway as a multiple of the relay's, for streams at the pace of a model
  and for streams at full speed;
- *first event*: the time until the client's first event as a multiple of the same through the relay, with a
  model that waits for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.servers import CHUNKS, PACES, ask, client, cpu_of, gateway, serving, upstream

RESULTS = Path(__file__).parent / "results" / "gateway.json"
STREAMS, ROUNDS, TURNS = 32, 3, 30

PASS_ON = """
import aiohttp, os
session = None
async def app(scope, receive, send):
    global session
    if scope["type"] != "http":
        return
    session = session or aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    url = os.environ["UPSTREAM"] + "/v1/chat/completions"
    async with session.post(url, data=body, headers={"content-type": "application/json"}) as answer:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for data in answer.content.iter_any():
            await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body"})
"""
SERVE = (
    "import socket, uvicorn, pathlib; s = socket.create_server(('127.0.0.1', 0));"
    "pathlib.Path('ready').write_text('http://127.0.0.1:%d' % s.getsockname()[1]);"
    "c = uvicorn.Config('pass_on:app', http='httptools', loop='uvloop', log_level='error');"
    "uvicorn.Server(c).run(sockets=[s])"
)


async def measure(url: str, pid: int) -> dict[str, float]:
    async with client() as session:
        await asyncio.gather(*(ask(session, url, "flood") for _ in range(STREAMS)))  # warm
        found: dict[str, float] = {}
        for kind in PACES:
            best = float("inf")
            for _ in range(ROUNDS):
                before = cpu_of(pid)
                await asyncio.gather(*(ask(session, url, kind) for _ in range(STREAMS)))
                best = min(best, cpu_of(pid) - before)
            found[kind] = 1e6 * best / (STREAMS * CHUNKS)
        found["first"] = median([await ask(session, url, "thinking") for _ in range(TURNS)])
    return found


async def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pass_on.py").write_text(PASS_ON)
        async with upstream() as address:
            with gateway(folder, address, "none") as (url, pid):
                ours = await measure(url, pid)
            with serving([sys.executable, "-c", SERVE], folder / "ready", UPSTREAM=address) as (url, pid):
                theirs = await measure(url, pid)
    result = {
        "cpu_us_per_chunk": {kind: round(ours[kind], 1) for kind in PACES},
        "passing_on_us_per_chunk": {kind: round(theirs[kind], 1) for kind in PACES},
        "cpu_ratio": {kind: round(ours[kind] / theirs[kind], 2) for kind in PACES},
        "first_event_ratio": round(ours["first"] / theirs["first"], 3),
    }
    print(json.dumps(result, indent=2))
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
