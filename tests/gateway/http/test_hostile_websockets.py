"""WebSockets on a raw connection: upgrades that are wrong, fragments, pings, and floods of frames."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from websockets.sync.client import connect as connect_websocket

from tests.client.server import chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import HOSTILE_CONFIG
from tests.gateway.probes import Memory, wait_for
from tests.gateway.raw_sockets import (
    MB,
    answer,
    connect,
    everything,
    flood,
    frame,
    head,
    is_closed,
    upgrade,
)
from tests.gateway.running import Running, gateway
from tests.gateway.threaded import ThreadedGateway
from tests.gateway.upstream import (
    SSE_HEAD,
    Flood,
    ScriptedUpstream,
    frames,
)


@pytest.fixture(scope="module")
def hostile(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway for these tests alone, because they measure its memory."""
    config = HOSTILE_CONFIG.format(url=upstream.url, client_timeout=300)
    with gateway(tmp_path_factory.mktemp("hostile"), config=config) as running:
        yield running


# Requests for a WebSocket


@pytest.mark.parametrize(
    "request_bytes",
    [
        upgrade(start="POST /v1/responses HTTP/1.1"),
        upgrade("content-length: 2", start="POST /v1/responses HTTP/1.1") + b"{}",
        upgrade("content-length: 5") + b"hello",
        upgrade("content-length: 5"),
        upgrade("transfer-encoding: chunked"),
        upgrade(start="GET /v1/responses HTTP/1.0"),
        upgrade("sec-websocket-key: twice"),
        upgrade().replace(b"version: 13", b"version: 12"),
        upgrade().replace(b"sec-websocket-key", b"x-other"),
        upgrade() + frame(b"{}"),
    ],
    ids=["post", "post-body", "body", "no-body", "chunked", "1.0", "two-keys", "version", "no-key", "early"],
)
def test_an_upgrade_that_cannot_be_is_refused(served: ThreadedGateway, request_bytes: bytes) -> None:
    client = connect(served, request_bytes)
    reply = answer(client)
    assert (reply.status, reply.error["code"]) == (400, "invalid_upgrade")
    assert is_closed(client)


@pytest.mark.parametrize(
    ("lines", "start"),
    [
        ([f"x-{number}: 1" for number in range(300)], "GET /v1/responses HTTP/1.1"),
        (["cookie: " + "a" * 10_000], "GET /v1/responses HTTP/1.1"),
        (["x-padding: " + "a" * 50_000], "GET /v1/responses HTTP/1.1"),
        ([], f"GET /v1/responses?padding={'a' * 20_000} HTTP/1.1"),
        (["x-name: \xe4\xf6"], "GET /v1/responses HTTP/1.1"),
    ],
    ids=["many", "cookie", "long", "url", "latin"],
)
def test_a_large_head_does_not_hinder_a_websocket(
    served: ThreadedGateway, lines: list[str], start: str
) -> None:
    client = connect(served, upgrade(*lines, start=start))
    assert client.recv(65536).startswith(b"HTTP/1.1 101 ")
    client.sendall(frame(b'{"type": "response.create", "model": "demo", "input": "say exactly: hello"}'))
    data = b""
    while b"response.completed" not in data:
        more = client.recv(65536)
        assert more, data
        data += more
    client.close()


def test_an_upgrade_beyond_the_limit_is_431(served: ThreadedGateway) -> None:
    reply = answer(connect(served, upgrade("cookie: " + "a" * 70_000)))
    assert (reply.status, reply.error["code"]) == (431, "request_head_too_large")


def test_an_upgrade_may_follow_an_answer(served: ThreadedGateway) -> None:
    client = connect(served, head("GET /healthz HTTP/1.1"))
    assert answer(client).status == 200
    client.sendall(upgrade())
    assert client.recv(65536).startswith(b"HTTP/1.1 101 ")
    client.sendall(frame(b"no JSON"))
    assert b"invalid_json" in client.recv(65536)
    client.close()


# WebSockets


def test_compression_is_not_offered(served: ThreadedGateway) -> None:
    """Compressed frames of a few kilobytes would expand to the limit while they wait."""
    with connect_websocket(f"ws://{served.address.netloc}/v1/responses", compression="deflate") as client:
        assert client.protocol.extensions == []
        client.send(json.dumps({"type": "response.create", "model": "demo", "input": "hi"}))
        while json.loads(client.recv(20))["type"] != "response.completed":
            pass


@pytest.mark.e2e
@pytest.mark.parametrize("fragment", [b"", b"x"], ids=["empty", "one byte"])
def test_fragments_cost_what_is_in_them(hostile: Running, fragment: bytes) -> None:
    client = connect(hostile, upgrade())
    client.recv(65536)
    memory = Memory(hostile)
    client.sendall(frame(b"x", is_last=False))
    data = frame(fragment, 0, is_last=False) * 1000
    sent = flood(client, data, 3 * MB, seconds=30, patience=10)
    assert sent >= 3 * MB
    client.settimeout(30)
    client.sendall(data[sent % len(data) :])
    client.sendall(frame(b"", 0))
    received = b""
    while b"invalid_json" not in received:  # pings may come first
        received = client.recv(65536)
        assert received
    assert memory.peak() < 20 * MB
    client.close()


@pytest.mark.e2e
def test_answers_to_pings_do_not_pile_up(hostile: Running) -> None:
    client = connect(hostile, upgrade(), buffer=8192)
    client.recv(65536)
    memory = Memory(hostile)
    sent = flood(client, frame(b"p" * 125, 9) * 1000, 40 * MB)
    assert sent < 40 * MB, "the gateway did not stop reading"
    assert memory.peak() < 15 * MB
    client.close()


@pytest.mark.e2e
def test_a_flood_of_small_messages_is_closed_with_1008(hostile: Running) -> None:
    clients = [connect(hostile, upgrade()) for _ in range(20)]
    for client in clients:
        client.recv(65536)
    memory = Memory(hostile)
    for client in clients:
        client.sendall(frame(b"{}") * 30_000)
    for client in clients:
        data = b""
        while b"\x88" not in data or (1008).to_bytes(2, "big") not in data:
            more = client.recv(65536)
            assert more, data[-200:]
            data += more
    assert memory.peak() < 30 * MB


@pytest.mark.e2e
def test_more_frames_than_may_wait_are_no_fault_of_the_gateway(
    hostile: Running, upstream: ScriptedUpstream
) -> None:
    """The turn is still writing when the connection is closed: its client has not read for a while."""
    flooding = Flood(chunk(frames(*[chat_chunk({"content": "x" * 200})] * 50, done=False)), 2000)
    upstream.play("crowded", [send(SSE_HEAD), flooding])
    request = frame(b'{"type": "response.create", "model": "crowded", "input": "x"}')
    client = connect(hostile, upgrade(), buffer=8192)
    client.recv(65536)
    client.sendall(request)
    wait_for(lambda: has_stopped(flooding))
    client.sendall(request * 30)
    assert (b"\x88\x02" + (1008).to_bytes(2, "big")) in everything(client)
    wait_for(lambda: any(line.get("model") == "crowded" for line in hostile.log))
    assert [line for line in hostile.log if line["level"] == "error"] == []


def has_stopped(flooding: Flood) -> bool:
    """Has the gateway stopped reading it?"""
    before = flooding.sent
    time.sleep(0.2)
    return before > 0 and flooding.sent == before
