"""The cost of the gateway: `python -m bench.gateway`.

Two servers stand in turn before the same upstream, on one stack (uvicorn, httptools, uvloop, aiohttp): the
gateway, and one that passes the bytes on and does nothing else. Taken in one run:

- *cpu*: CPU time per chunk of the gateway, as a multiple of the other's, for streams that come at the pace of
  a model and for streams that come as fast as they can;
- *first event*: how long a client waits for the first event, as a multiple of the same through the other,
  behind a model that thinks for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import aiohttp

RESULTS = Path(__file__).parent / "results" / "gateway.json"
STREAMS, CHUNKS, ROUNDS, TURNS = 32, 100, 3, 30
PACES = {"paced": 0.02, "flood": 0.0}
"""Seconds between two chunks of a stream."""
THINKING = 0.1

CHUNK = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
END = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}}\n\ndata: [DONE]\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

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


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The upstream: what is sent, and how fast, is in the name of the model."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            kind = json.loads(await reader.readexactly(size))["model"]
            if kind == "thinking":
                await asyncio.sleep(THINKING)
            writer.write(HEAD)
            for _ in range(1 if kind == "thinking" else CHUNKS):
                writer.write(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK))
                await asyncio.sleep(PACES.get(kind, 0.0))
            writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(END), END))
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
        writer.close()


@contextmanager
def serving(command: list[str], ready: Path, **environment: str) -> Iterator[tuple[str, int]]:
    """A server's URL and its process."""
    ready.unlink(missing_ok=True)
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ready.parent,
        env={**os.environ, **environment},
    )
    try:
        while not ready.exists():
            sleep(0.05)
        yield ready.read_text().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask(session: aiohttp.ClientSession, url: str, kind: str) -> float:
    """One stream, read to its end; seconds until its first bytes."""
    began, first = perf_counter(), 0.0
    body = {"model": kind, "input": "x", "messages": [], "stream": True}
    async with session.post(f"{url}/v1/responses", json=body) as reply:
        async for _ in reply.content.iter_any():
            first = first or perf_counter() - began
    return first


async def measure(url: str, pid: int) -> dict[str, float]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
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
    upstream = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pass_on.py").write_text(PASS_ON)
        ready = folder / "ready"
        gateway = [
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--upstream",
            address,
            "--port",
            "0",
            "--store",
            "none",
        ]
        with serving([*gateway, "--ready-file", str(ready), "--log-level", "error"], ready) as (url, pid):
            ours = await measure(url, pid)
        script = (
            "import socket, uvicorn, pathlib; s = socket.create_server(('127.0.0.1', 0));"
            "pathlib.Path('ready').write_text('http://127.0.0.1:%d' % s.getsockname()[1]);"
            "c = uvicorn.Config('pass_on:app', http='httptools', loop='uvloop', log_level='error');"
            "uvicorn.Server(c).run(sockets=[s])"
        )
        with serving([sys.executable, "-c", script], ready, UPSTREAM=address) as (url, pid):
            theirs = await measure(url, pid)
    upstream.close()
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
