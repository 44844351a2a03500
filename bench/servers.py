"""Shared parts of the server benchmarks: an upstream, server processes, and a client."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import clock_gettime, perf_counter, sleep

import aiohttp
import msgspec

CHUNKS = 100
PACES = {"paced": 0.02, "flood": 0.0}
"""Seconds between two chunks."""
THINKING = 0.1

CHUNK = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
END = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}}\n\ndata: [DONE]\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

_OF_A_PROCESS = 2
"""Linux's number for the clock of a process's CPU time, in nanoseconds."""


class _Named(msgspec.Struct):
    """The only field that the upstream reads, so that it costs little itself."""

    model: str


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as the name of the model demands: it encodes what to send and how fast."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            kind = msgspec.json.decode(await reader.readexactly(size), type=_Named).model
            if kind == "thinking":
                await asyncio.sleep(THINKING)
            writer.write(HEAD)
            for _ in range(CHUNKS if kind in PACES else 1):
                writer.write(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK))
                await asyncio.sleep(PACES.get(kind, 0.0))
            writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(END), END))
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
        writer.close()


@asynccontextmanager
async def upstream() -> AsyncIterator[str]:
    """Yield its URL."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@contextmanager
def serving(command: list[str], ready: Path, **environment: str) -> Iterator[tuple[str, int]]:
    """Yield a server's URL and its process."""
    ready.unlink(missing_ok=True)
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ready.parent,
        env={**os.environ, **environment},
    )
    try:
        while not (ready.exists() and ready.read_text()):
            if process.poll() is not None:
                raise RuntimeError(f"a server did not start: {' '.join(command)}")
            sleep(0.05)
        yield ready.read_text().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def gateway(folder: Path, address: str, store: str) -> Iterator[tuple[str, int]]:
    """Run Penstock in front of an upstream; `store` is a path or `none`."""
    ready = folder / "ready"
    options = ["--upstream", address, "--port", "0", "--store", store, "--ready-file", str(ready)]
    command = [sys.executable, "-m", "penstock", "serve", *options, "--log-level", "error"]
    with serving(command, ready) as started:
        yield started


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of all threads of a process."""
    return clock_gettime(~pid << 3 | _OF_A_PROCESS)


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def ask(session: aiohttp.ClientSession, url: str, model: str, **fields: object) -> float:
    """Read one stream to its end; return the seconds until its first bytes."""
    began, first = perf_counter(), 0.0
    body = {"model": model, "input": "x", "messages": [], "stream": True, **fields}
    async with session.post(f"{url}/v1/responses", json=body) as reply:
        if reply.status != 200:
            raise RuntimeError(f"a turn was refused: {await reply.text()}")
        async for _ in reply.content.iter_any():
            first = first or perf_counter() - began
    return first
