"""Hostile connections: each gets an answer or is closed, and costs a bounded amount of memory and time."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.gateway.settings import Limits, Settings
from penstock.net.server import connection
from tests.client.server import chunk, in_a_thread, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import HOSTILE_CONFIG
from tests.gateway.probes import Memory, connections, memory_of, wait_for
from tests.gateway.raw_sockets import (
    MB,
    answer,
    connect,
    everything,
    flood,
    frame,
    head,
    is_closed,
    post,
    turn,
    upgrade,
)
from tests.gateway.running import Running, gateway, judge_stream
from tests.gateway.threaded import ThreadedGateway, threaded_gateway
from tests.gateway.upstream import (
    LAST_CHUNK,
    ScriptedUpstream,
    begun,
    frames,
    said,
    streamed,
    until,
)

IMPATIENT = (
    sys.executable,
    "-c",
    """
import runpy, sys
from penstock.net.server import connection
connection.HEAD_SECONDS = connection.STALLED_MARGIN = 1.0
sys.argv = sys.argv[3:]
runpy.run_module("penstock", run_name="__main__", alter_sys=True)
""",
)
"""Starts a gateway with client timeouts of 1 second instead of 30."""


@pytest.fixture(scope="module")
def hostile(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway for these tests alone, because they measure its memory."""
    config = HOSTILE_CONFIG.format(url=upstream.url, client_timeout=300)
    with gateway(tmp_path_factory.mktemp("hostile"), config=config) as running:
        yield running


@pytest.fixture(scope="module")
def impatient(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = HOSTILE_CONFIG.format(url=upstream.url, client_timeout=1)
    with gateway(tmp_path_factory.mktemp("impatient"), config=config, through=IMPATIENT) as running:
        yield running


@pytest.fixture(scope="module")
def hasty() -> Iterator[ThreadedGateway]:
    """A gateway with client timeouts of 0.1 seconds instead of 30."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "HEAD_SECONDS", 0.1)
        with threaded_gateway(Settings(limits=Limits(client_timeout=0.1))) as running:
            yield running


# Pipelining


@pytest.mark.e2e
def test_requests_that_wait_cost_no_memory(hostile: Running) -> None:
    """Neither pipelined requests nor answers that are not read."""
    memory = Memory(hostile)
    client = connect(hostile, buffer=8192)
    sent = flood(client, head("GET /v1/models HTTP/1.1") * 400, 20 * MB)
    assert sent < 20 * MB, "the gateway did not stop reading"
    assert memory.peak() < 20 * MB
    client.close()


def test_every_request_that_was_sent_ahead_is_answered(served: ThreadedGateway) -> None:
    count = 1000
    client = connect(served, timeout=60)
    sending = threading.Thread(target=client.sendall, args=(head("GET /healthz HTTP/1.1") * count,))
    sending.start()
    data = bytearray()
    while data.count(b'{"status":"ok"}') < count:
        more = client.recv(1 << 20)
        assert more
        data += more
    sending.join()
    client.sendall(head("GET /healthz HTTP/1.1"))
    assert answer(client).status == 200
    client.close()


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_answers_do_not_depend_on_how_the_bytes_are_cut(served: ThreadedGateway, size: int) -> None:
    """Bodies of both kinds, trailers, empty lines, and requests that follow in the same read."""
    chunked = head("POST /v1/responses HTTP/1.1", "transfer-encoding: chunked")
    sent = [
        head("GET /healthz HTTP/1.1"),
        post(b'{"model": "demo"}\r\n\r\n'),
        chunked + b"2;x=y\r\n{}\r\n0\r\nx-trailer: 1\r\n\r\n",
        b"\r\n" + head("GET /readyz HTTP/1.1"),
        chunked + b"4\r\n\r\n\r\n\r\n0\r\n\r\n",
        head("GET /v1/nothing HTTP/1.1", "connection: close"),
    ]
    data = b"".join(sent)
    client = connect(served)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(data), size):
        client.sendall(data[at : at + size])
    answered = everything(client)
    statuses = [int(part[:3]) for part in answered.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 400, 400, 200, 400, 404]


def test_a_large_head_after_a_body_is_refused_when_its_turn_comes(served: ThreadedGateway) -> None:
    large = head("GET /healthz HTTP/1.1", "x-padding: " + "x" * 70_000)
    answered = everything(connect(served, post(b"{}") + large))
    assert [int(part[:3]) for part in answered.split(b"HTTP/1.1 ")[1:]] == [400, 431]


# Heads and what is counted with them


def test_the_limit_of_a_head_is_exact_also_in_one_read(served: ThreadedGateway) -> None:
    def status(length: int) -> int:
        padding = length - len(head("GET /healthz HTTP/1.1", "x: "))
        return answer(connect(served, head("GET /healthz HTTP/1.1", "x: " + "x" * padding))).status

    assert [status(length) for length in (65_535, 65_536, 65_537, 70_000)] == [200, 200, 431, 431]


CHUNKED = head("POST /v1/responses HTTP/1.1", "transfer-encoding: chunked")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"GET /", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\nx-endless: ", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"x: y\r\n" * 1000),
        (b"", b"\r\n" * 1000),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"x: y\r\n" * 1000),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"x" * 10_000),
        (CHUNKED + b"2;", b"x" * 10_000),
        (CHUNKED + b"2\r\n{}\r\n", b"0" * 10_000),
    ],
    ids=["url", "value", "headers", "lines", "trailers", "trailer", "extension", "zeros"],
)
def test_what_never_ends_is_ended(hostile: Running, first: bytes, again: bytes) -> None:
    memory = Memory(hostile)
    client = connect(hostile, first)
    assert flood(client, again, 100 * MB) < 20 * MB
    client.settimeout(20)
    assert is_closed(client)
    assert memory.peak() < 10 * MB


def test_endless_trailers_are_431(served: ThreadedGateway) -> None:
    client = connect(served, CHUNKED + b"2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 12_000)
    assert answer(client).status in (400, 431)  # the body is invalid as well, and may be checked first


def test_trailers_are_not_headers(served: ThreadedGateway) -> None:
    body = b'{"model": "demo", "input": "hi", "stream": false}'
    sent = CHUNKED + b"%x\r\n%s\r\n0\r\norigin: https://evil.example\r\nx-request-id: late\r\n\r\n" % (
        len(body),
        body,
    )
    reply = answer(connect(served, sent))
    assert reply.status == 200
    assert reply.headers["x-request-id"] != "late"


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00", b"hello\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
)
def test_what_is_not_http_gets_an_error_in_the_usual_shape(served: ThreadedGateway, garbage: bytes) -> None:
    reply = answer(connect(served, garbage))
    assert (reply.status, reply.error["code"]) == (400, "invalid_http")


def test_a_refusal_of_the_connection_has_the_clients_request_id(served: ThreadedGateway) -> None:
    line = "x-request-id: mine-1"
    reply = answer(connect(served, head("POST / HTTP/1.1", line, "transfer-encoding: chunked") + b"zz\r\n"))
    assert (reply.status, reply.headers["x-request-id"]) == (400, "mine-1")


def test_an_offer_of_another_protocol_is_ignored_also_in_pieces(
    served: ThreadedGateway, upstream: ScriptedUpstream
) -> None:
    upstream.play("offered", streamed(*said("over HTTP/1.1")))
    sent = turn("offered", "connection: upgrade", "upgrade: foo/2", stream=False)
    client = connect(served)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(sent), 3):
        client.sendall(sent[at : at + 3])
        time.sleep(0.001)
    assert answer(client).text == "over HTTP/1.1"
    client.close()


# HTTP/1.0


def test_an_old_client_gets_a_stream_without_chunks(
    served: ThreadedGateway, upstream: ScriptedUpstream
) -> None:
    upstream.play("old-stream", streamed(*said("as it is")))
    answered = everything(connect(served, turn("old-stream", "connection: keep-alive", version="1.0")))
    lines, _, body = answered.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in lines
    assert b"connection: close" in lines
    assert judge_stream(body)[-1]["type"] == "response.completed"


def test_an_old_client_gets_a_whole_answer_by_its_length(
    served: ThreadedGateway, upstream: ScriptedUpstream
) -> None:
    upstream.play("old-whole", streamed(*said("as it is")))
    client = connect(served, turn("old-whole", stream=False, version="1.0"))
    reply = answer(client)
    assert (reply.text, "transfer-encoding" in reply.headers) == ("as it is", False)
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert is_closed(client)
    assert answer(connect(served, head("GET /v1/nothing HTTP/1.0"))).status == 404


# Time


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (upgrade(), frame(b"", 9) * 20_000),
        (upgrade(), frame(b"x", is_last=False) + frame(b"", 10) * 20_000 + frame(b"", 0)),
        (CHUNKED, b"1\r\nx\r\n" * 20_000),
        (head("GET /healthz HTTP/1.1"), head("GET /healthz HTTP/1.1") * 5000),
    ],
    ids=["pings", "pongs", "chunks", "requests"],
)
def test_a_flood_does_not_keep_other_clients_waiting(hostile: Running, begin: bytes, again: bytes) -> None:
    """Tens of thousands of frames can arrive in one read. Other clients are served in between."""
    client = connect(hostile, begin, timeout=60)
    if begin is not CHUNKED:
        client.recv(65536)
    reading = threading.Thread(target=is_closed, args=(client,))
    limits = {"seconds": 3, "patience": 60}
    flooding = threading.Thread(target=flood, args=(client, again, 100 * MB), kwargs=limits)
    reading.start()
    flooding.start()
    other, answered = hostile.connect(), 0
    while flooding.is_alive():
        other.request("GET", "/healthz")
        assert other.getresponse().read() == b'{"status":"ok"}'
        answered += 1
    other.close()
    client.shutdown(socket.SHUT_RDWR)
    reading.join()
    assert answered > 10


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"", 0),
        (b"GET /healthz HTTP/1.1\r\nx: y", 0),
        (head("GET /healthz HTTP/1.1") + b"\r\n", 1),
        (head("GET /healthz HTTP/1.1") + b"GET /healthz HTTP/1.1\r\n", 1),
        (head("GET /healthz HTTP/1.1", "content-length: 10") + b"12345", 1),
        (head("POST /v1/nothing HTTP/1.1", "transfer-encoding: chunked") + b"2\r\n", 1),
        (post(b"{}", "content-encoding: lz4")[:-1], 1),
    ],
    ids=["nothing", "half a head", "a line", "half a second head", "half a body", "half a chunk", "refused"],
)
def test_a_client_must_come_to_an_end(hasty: ThreadedGateway, sent: bytes, answers: int) -> None:
    client = connect(hasty, sent)
    assert everything(client).count(b"HTTP/1.1 ") == answers


@pytest.mark.e2e
def test_a_client_that_reads_no_answers_is_disconnected(impatient: Running) -> None:
    """Otherwise it would keep its connection and the buffered data forever."""
    client = connect(impatient, buffer=8192)
    flood(client, head("GET /v1/models HTTP/1.1") * 400, 20 * MB)
    wait_for(lambda: connections(impatient) == 0)
    client.close()


# The end


@pytest.mark.e2e
def test_open_connections_do_not_disturb_the_end(tmp_path: Path) -> None:
    """A running stream is drained, whatever else is open; then the process exits cleanly."""
    opened = threading.Event()
    rest = send(chunk(frames(chat_chunk({"content": "end"}), chat_chunk(finish="stop"))) + LAST_CHUNK)
    with in_a_thread(scripted := ScriptedUpstream()):
        scripted.play("drained", [*begun(chat_chunk({"content": "the "})), until(opened), rest])
        config = HOSTILE_CONFIG.format(url=scripted.url, client_timeout="300\ndrain = 6")
        with gateway(tmp_path, config=config) as running:
            stream = connect(running, turn("drained"))
            stream.recv(65536)
            idle = connect(running, head("GET /healthz HTTP/1.1"))
            assert answer(idle).status == 200
            half_head = connect(running, b"GET /healthz HTTP/1.1\r\nx: y")
            half_body = connect(running, post(b"{}")[:-1])
            connect(running, upgrade(start="POST /v1/responses HTTP/1.1"))
            websocket = connect(running, upgrade("cookie: " + "x" * 10_000))
            assert b" 101 " in websocket.recv(65536)
            flood(connect(running, buffer=8192), head("GET /v1/models HTTP/1.1") * 400, 20 * MB)
            running.signal(signal.SIGTERM)
            reply = answer(half_body)
            assert (reply.status, reply.error["code"]) == (503, "server_is_overloaded")
            assert is_closed(idle)
            assert is_closed(half_head)
            assert (1012).to_bytes(2, "big") in websocket.recv(65536)
            time.sleep(2.5)  # longer than clients get that are aborted
            opened.set()
            assert b"response.completed" in everything(stream)
            assert running.process.wait(30) == 0
            log = (tmp_path / "log").read_text()
            assert "Traceback" not in log
            assert "Exception" not in log


def test_an_offer_of_http_2_is_ignored(served: ThreadedGateway, upstream: ScriptedUpstream) -> None:
    upstream.play("h2c", streamed(*said("over HTTP/1.1")))
    offer = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAoAAA")
    answered = everything(connect(served, turn("h2c", *offer, "connection: close", stream=False)))
    assert answered.startswith(b"HTTP/1.1 200")
    assert b"over HTTP/1.1" in answered


@pytest.mark.e2e
def test_a_head_without_end_is_refused_before_it_fills_the_memory(penstock: Running) -> None:
    before = memory_of(penstock)
    client = connect(penstock, b"GET /healthz HTTP/1.1\r\n")
    line = b"x-padding: " + b"x" * 60_000 + b"\r\n"
    try:
        for _ in range(2000):
            client.sendall(line)
        answered = client.recv(65536)
    except OSError:  # it was closed while we were writing
        answered = b"HTTP/1.1 431"
    client.close()
    assert answered.startswith(b"HTTP/1.1 431")
    assert memory_of(penstock) - before < 20_000_000


def test_a_failure_in_the_stream_closes_the_connection(
    served: ThreadedGateway, upstream: ScriptedUpstream
) -> None:
    """Ask A10: Codex reports a failure only then. The client did not request `connection: close`."""
    upstream.play("fails", streamed(chat_chunk({"content": "a"}), {"error": {"message": "no"}}))
    data = everything(connect(served, turn("fails")))
    assert data.rstrip().endswith(b"data: [DONE]\n\n\r\n0")
