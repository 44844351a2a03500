"""The memory of request bodies: a body is freed with its request, and all bodies together are bounded."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.demo.upstream import DemoUpstream
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.http import bodies
from penstock.gateway.http.bodies import DECODERS, BodyReader
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Settings
from penstock.store.memory import MemoryStore
from penstock.tokens.counter import TokenCounter
from penstock.upstream.target import Upstream
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.probes import Memory, wait_for
from tests.gateway.raw_sockets import MB, answer, close_all, connect, flood, frame, head, post, upgrade
from tests.gateway.running import Reply, Running, gateway
from tests.gateway.upstream import ScriptedUpstream

pytestmark = pytest.mark.e2e

BIG = "x" * 4_000_000

REFUSED: dict[str, tuple[int, dict[str, Any] | bytes, str]] = {
    "an unknown model": (404, {"model": "nope", "input": BIG}, ""),
    "no model": (400, {"input": BIG}, ""),
    "a number out of range": (400, {"model": "demo", "input": BIG, "temperature": 9}, ""),
    "a wrong type": (400, {"model": "demo", "input": BIG, "tools": 1}, ""),
    "no JSON": (400, b"x" * len(BIG), ""),
    "too many items": (400, {"model": "demo", "input": [BIG] + [{}] * 20_000}, ""),
    "an unknown response": (400, {"model": "demo", "input": BIG, "previous_response_id": "resp_0"}, ""),
    "an unknown conversation": (404, {"model": "demo", "input": BIG, "conversation": "conv_0"}, ""),
    "a corrupt encoding": (400, b"x" * len(BIG), "gzip"),
    "no JSON, compressed": (400, gzip.compress(b"x" * len(BIG), 1), "gzip"),
    "an answer": (200, {"model": "demo", "input": BIG, "store": False}, ""),
}


@contextmanager
def without_collector() -> Iterator[None]:
    """Objects in a reference cycle stay in memory: under load, for a long time."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


async def ask(gateway: Gateway, body: bytes, encoding: str) -> int:
    """One request over ASGI; the status of its answer."""
    statuses: list[int] = []
    sent = [{"type": "http.request", "body": body}]
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not sent:
            await gone.wait()
            return {"type": "http.disconnect"}
        return sent.pop()

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    headers = [(b"host", b"127.0.0.1"), (b"content-encoding", encoding.encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "query_string": b"",
        "headers": headers,
    }
    await GatewayApp(gateway)(scope, receive, send)
    gone.set()
    return statuses[0]


@pytest.mark.parametrize(("status", "body", "encoding"), REFUSED.values(), ids=REFUSED)
def test_a_body_is_freed_with_its_request(status: int, body: dict[str, Any] | bytes, encoding: str) -> None:
    async def left() -> int:
        gateway = Gateway(Settings(), store=MemoryStore())
        quick: dict[str, Upstream] = {DEMO: DemoUpstream(pace=0)}
        gateway.services = Services(Settings(), quick, gateway.metrics, TokenCounter())
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        assert await ask(gateway, data, encoding) == status  # caches are filled by the first request
        with without_collector():
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(3):
                assert await ask(gateway, data, encoding) == status
            for _ in range(100):  # a decompression thread may not have finished yet
                await asyncio.sleep(0.01)
                after, _ = tracemalloc.get_traced_memory()
                if after - before < len(BIG) / 2:
                    break
        await gateway.aclose()
        return after - before

    assert asyncio.run(left()) < len(BIG) / 2


# In a process of its own


LIMIT = 64 * 1024 * 1024
BOMB = gzip.compress(gzip.compress(bytes(LIMIT - 1), 9), 9)
"""A few hundred bytes that are not JSON, and as large as a body may be."""


@pytest.fixture
def running(upstream: ScriptedUpstream, tmp_path: Path) -> Iterator[Running]:
    config = f"""
[limits]
retries = 0
[targets.chat]
base_url = "{upstream.url}/v1"
[models.not-scripted]
target = "chat"
"""
    with gateway(tmp_path, config=config) as running:
        yield running
        close_all()


def send(running: Running, body: bytes, *lines: str) -> Reply:
    client = connect(running, timeout=120)
    client.sendall(post(body, *lines))
    reply = answer(client)
    client.close()
    return reply


@pytest.mark.e2e
@pytest.mark.parametrize(("model", "status"), [("nope", 404), ("not-scripted", 400)])
def test_large_bodies_do_not_add_up(running: Running, model: str, status: int) -> None:
    """The gateway refuses the first; the upstream refuses the second, whose turn had begun."""
    body = json.dumps({"model": model, "input": "x" * 40 * MB, "store": False}).encode()
    memory = Memory(running)
    for _ in range(8):
        assert send(running, body).status == status
    assert memory.peak() < 300 * MB
    wait_for(lambda: memory.now() < 100 * MB)


@pytest.mark.e2e
def test_large_frames_do_not_add_up(running: Running) -> None:
    """A connection that waits for the next frame does not keep them either."""
    data = frame(json.dumps({"type": "response.create", "model": "nope", "input": "x" * 20 * MB}).encode())
    memory = Memory(running)
    for _ in range(10):
        client = connect(running, upgrade())
        client.recv(65536)
        client.sendall(data)
        assert b"model_not_found" in client.recv(65536)
        client.sendall(frame(b"", 9))  # the parser keeps a frame until the next one
        client.recv(65536)
    assert memory.peak() < 200 * MB
    wait_for(lambda: memory.now() < 100 * MB)


@pytest.mark.e2e
def test_bombs_are_decompressed_one_at_a_time(running: Running) -> None:
    memory = Memory(running)
    with ThreadPoolExecutor(20) as threads:
        replies = threads.map(lambda _: send(running, BOMB, "content-encoding: gzip, gzip"), range(20))
        assert {reply.status for reply in replies} == {400}
    assert memory.peak() < 500 * MB


@pytest.mark.e2e
def test_an_ordinary_body_does_not_wait_for_bombs(running: Running) -> None:
    small = gzip.compress(json.dumps({"model": "demo", "input": "x" * 1 * MB, "store": False}).encode())
    order: list[str] = []

    def ask(name: str, body: bytes, encoding: str) -> None:
        send(running, body, f"content-encoding: {encoding}")
        order.append(name)

    with ThreadPoolExecutor(30) as threads:
        for _ in range(20):
            threads.submit(ask, "bomb", BOMB, "gzip, gzip")
        wait_for(lambda: "bomb" in order)
        threads.submit(ask, "small", small, "gzip")
    assert order.count("small") == 1
    assert order.index("small") < 15


@pytest.mark.e2e
def test_uploads_that_do_not_end_are_bounded_and_hinder_only_large_ones(running: Running) -> None:
    memory = Memory(running)
    for _ in range(16):
        client = connect(running, head("POST /v1/responses HTTP/1.1", f"content-length: {60 * MB}"))
        flood(client, b" " * MB, 59 * MB)
    assert memory.peak() < 800 * MB
    large = send(running, b" " * 20 * MB)
    assert (large.status, large.error["code"]) == (503, "server_is_overloaded")
    assert large.headers["retry-after"]
    assert running.whole("demo").status == 200
    close_all()
    wait_for(lambda: send(running, b" " * 20 * MB).status == 400)


def test_a_decompression_slot_is_held_until_its_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that disconnects does not free the slot while its bomb is being decompressed."""
    working, counts, lock = 0, list[int](), threading.Lock()

    def decode(_: bytes) -> Iterator[bytes]:
        nonlocal working
        with lock:
            working += 1
            counts.append(working)
        time.sleep(0.05)
        with lock:
            working -= 1
        yield b"{}"

    async def read_body(reader: BodyReader) -> None:
        await reader.read(FakeHttpChannel(parts=[b"x"]).receive, {"content-encoding": "br"}, MB)

    async def read(reader: BodyReader) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await read_body(reader)

    async def read_many() -> None:
        reader = BodyReader()
        for _ in range(10):
            await asyncio.gather(read(reader), read(reader))
        await read_body(reader)

    monkeypatch.setattr(bodies, "MOST_SMALL", 2)
    monkeypatch.setitem(DECODERS, "br", decode)
    asyncio.run(read_many())
    assert max(counts) == 2
