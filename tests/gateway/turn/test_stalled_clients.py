"""Clients that stop reading: memory stays bounded, and they are disconnected after `client_timeout`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.server import chunk, send
from tests.client.server import chunk as http_chunk
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.clients import RawClient
from tests.gateway.configs import CONFIG
from tests.gateway.probes import connections, gauge, memory_of, wait_for
from tests.gateway.running import SECRET_KEY, Running, gateway, judge_stream
from tests.gateway.stored_responses import get
from tests.gateway.upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    Flood,
    ScriptedUpstream,
    frames,
    said,
    streamed,
    until_gone,
)

pytestmark = pytest.mark.e2e


STALL_CONFIG = """
passthrough = "chat"
[limits]
patience = 0.2
comment_every = 0.2
retries = 0
client_timeout = 1
disconnect_grace = {grace}
[targets.chat]
base_url = "{url}/v1"
"""


PIECES = 600


def flooding(upstream: ScriptedUpstream, model: str) -> None:
    """More than the system holds in its sockets, and then silence."""
    flood = Flood(http_chunk(frames(*[chat_chunk({"content": "x" * 20_000})], done=False)), PIECES)
    upstream.play(model, [send(SSE_HEAD), flood, until_gone(threading.Event())])


def test_a_turn_that_is_cancelled_while_its_client_does_not_read_ends(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    flooding(upstream, "stuck")
    with gateway(tmp_path, config=STALL_CONFIG.format(url=upstream.url, grace=0)) as running:
        client = RawClient(running, "stuck", buffer=8192)
        head = client.read_until(b"response.output_text.delta")
        id = head.partition(b'"id":"')[2].partition(b'"')[0].decode()
        assert running.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"
        assert running.verdict(client.request_id)["outcome"] == "cancelled"
        wait_for(lambda: gauge(running, "penstock_turns_running") == 0)
        client.leave()


def test_a_dead_connection_does_not_end_the_turn_of_a_reconnected_client(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """Ask G6: a network that fails does not close its connections."""
    flooding(upstream, "half-open")
    with gateway(tmp_path, config=STALL_CONFIG.format(url=upstream.url, grace=600)) as running:
        client = RawClient(running, "half-open", buffer=8192)
        head = client.read_until(b"response.output_text.delta")
        id = head.partition(b'"id":"')[2].partition(b'"')[0].decode()
        connection = running.connect()
        connection.request("GET", f"/v1/responses/{id}?stream=true")
        came = 0
        while came < PIECES * 20_000:  # all that the upstream sent, after what the dead connection could take
            came += len(connection.sock.recv(1 << 20))
        assert get(running, id).json["status"] == "in_progress"
        assert running.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"
        assert running.verdict(client.request_id)["left"] is True
        connection.close()
        client.leave()


def test_a_whole_answer_that_is_never_read_is_dropped(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    text = [chat_chunk({"content": "x" * 100_000})] * 100
    upstream.play("unread", streamed(*text, chat_chunk(finish="stop")))
    config = CONFIG.format(url=upstream.url).replace("retries = 0", "client_timeout = 1")
    with gateway(tmp_path, config=config) as running:
        client = RawClient(running, "unread", stream=False, buffer=8192)
        running.verdict(client.request_id)
        wait_for(lambda: connections(running) == 0)
        client.leave()


def test_a_client_that_stops_reading_while_the_model_is_silent_is_disconnected(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """Then it is the heartbeat that cannot write."""
    gone = threading.Event()
    much = send(SSE_HEAD + chunk(frames(chat_chunk({"content": "x" * 12_000_000}), done=False)))
    upstream.play("heart-stalls", [much, until_gone(gone)])
    limits = "client_timeout = 1\ncomment_every = 0.2\npatience = 0.1"
    config = CONFIG.format(url=upstream.url).replace("retries = 0", limits)
    with gateway(tmp_path, config=config) as running:
        client = RawClient(running, "heart-stalls", buffer=8192)
        assert gone.wait(20)
        verdict = running.verdict(client.request_id)
        assert (verdict["closer"], verdict["code"]) == ("client", "client_stalled")
        client.leave()


@pytest.fixture(scope="module")
def patient(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway that retries."""
    config = STALL_CONFIG.format(url=upstream.url, grace=0).replace(
        "client_timeout = 1", "client_timeout = 300"
    )
    folder: Path = tmp_path_factory.mktemp("patient")
    with gateway(folder, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as running:
        yield running


def test_a_client_that_does_not_read_stops_the_reading_of_the_upstream(
    patient: Running, upstream: ScriptedUpstream
) -> None:
    """Ask J3: memory stays bounded, others are served, and nothing is lost when it reads at last."""
    piece, times = "x" * 4000, 60
    data = chunk(frames(*[chat_chunk({"content": piece})] * 100, done=False))
    flood = Flood(data, times)
    end = send(chunk(frames(*said("!"))) + LAST_CHUNK)
    upstream.play("slow", [send(SSE_HEAD), flood, end])
    patient.whole("demo", "say exactly: warm")
    before = memory_of(patient)
    client = RawClient(patient, "slow", buffer=8192)
    whole = times * 100 * len(piece)
    wait_for(lambda: flood.sent > 0)
    last = -1
    while flood.sent != last:  # until nothing is sent any more
        last = flood.sent
        time.sleep(0.5)
    assert flood.sent < whole * 2 / 3  # the system holds some megabytes in its sockets
    assert memory_of(patient) - before < 30_000_000
    assert patient.whole("demo", "say exactly: others are served").text == "others are served"
    body = client.read_all().partition(b"\r\n\r\n")[2]
    events = judge_stream(_unchunked(body))
    assert len(events[-1]["response"]["output"][0]["content"][0]["text"]) == whole + 1


def _unchunked(body: bytes) -> bytes:
    data, position = bytearray(), 0
    while True:
        end = body.index(b"\r\n", position)
        size = int(body[position:end], 16)
        if not size:
            return bytes(data)
        data += body[end + 2 : end + 2 + size]
        position = end + 4 + size


def test_a_client_that_never_reads_is_disconnected(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    gone = threading.Event()
    flood = Flood(chunk(frames(*[chat_chunk({"content": "x" * 200})] * 100, done=False)), 600)
    upstream.play("stalled", [send(SSE_HEAD), flood, until_gone(gone)])
    config = STALL_CONFIG.format(url=upstream.url, grace=0).replace(
        "client_timeout = 1", "client_timeout = 1"
    )
    with gateway(tmp_path, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as running:
        client = RawClient(running, "stalled", buffer=8192)
        verdict = running.verdict(client.request_id)
        assert (verdict["closer"], verdict["code"]) == ("client", "client_stalled")
        client.leave()
