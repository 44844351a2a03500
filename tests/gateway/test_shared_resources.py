"""One client or one upstream must not monopolise the gateway: the event loop is shared, a large answer
costs a few times its size, and a client that does not read is disconnected."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.server import Script, chunk, in_a_thread, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.probes import HealthPoller, Memory, wait_for
from tests.gateway.raw_sockets import MB, connect, turn
from tests.gateway.running import Running, gateway
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, Flood, ScriptedUpstream, begun, frames, until

pytestmark = pytest.mark.e2e

CONFIG = """
passthrough = "chat"

[limits]
{limits}

[targets.chat]
base_url = "{url}/v1"
"""

SENTENCE = "The quick brown fox jumps over the lazy dog. " * 24
QUOTES = "naïve “quotes” 😀\n" * 20


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@contextmanager
def serving(folder: Path, upstream: ScriptedUpstream, *options: str, limits: str = "") -> Iterator[Running]:
    config = CONFIG.format(url=upstream.url, limits=limits)
    with gateway(folder, *options, config=config) as running:
        yield running


def flooded(delta: dict[str, str], size: int, times: int) -> Script:
    """An answer of `times` blocks, each of about `size` bytes of this delta, as fast as they are read."""
    one = frames(chat_chunk(delta), done=False)
    block = chunk(one * max(1, size // len(one)))
    end = send(chunk(frames(chat_chunk(finish="stop"), USAGE)) + LAST_CHUNK)
    return [send(SSE_HEAD), Flood(block, times), end]


def streamed_size(running: Running, model: str) -> int:
    """Read a stream to its end without looking at it; how many bytes it was."""
    client = connect(running, turn(model, "connection: close"), timeout=60)
    size = 0
    with client:
        while data := client.recv(1 << 20):
            size += len(data)
            tail = data[-64:]
    assert tail.endswith(b"0\r\n\r\n")
    return size


def test_a_fast_upstream_leaves_room_for_others(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.play("flood", flooded({"content": "a"}, MB, 10))
    with serving(tmp_path, upstream) as running:
        running.stream("demo", "hello")
        with HealthPoller(running) as poller:
            began = time.monotonic()
            streamed_size(running, "flood")
            answered = poller.count(began, time.monotonic())
        size = len(frames(chat_chunk({"content": "a"}), done=False))
        chunks = running.verdict("raw-flood")["bytes_in"] // size
    # Both go through the same event loop, so this holds on a slow machine as well. A gateway that reads on
    # while there is something to read would answer once or twice.
    assert answered > chunks / 10_000


@pytest.mark.parametrize("store", ["sqlite", "none"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_large_answer_costs_a_few_times_its_size(
    tmp_path: Path, upstream: ScriptedUpstream, store: str, stream: bool
) -> None:
    size = 32 * MB
    upstream.play("large", flooded({"content": SENTENCE}, size // 100, 100))
    options = ("--store", "none") if store == "none" else ()
    with serving(tmp_path, upstream, *options) as running:
        running.stream("demo", "hello")
        memory = Memory(running)
        with HealthPoller(running) as poller:
            began = time.monotonic()
            client = connect(running, turn("large", "connection: close", stream=stream), timeout=60)
            received = 0
            with client:
                while data := client.recv(1 << 20):
                    received += len(data)
            ended = time.monotonic()
        assert received > (4 if stream else 0.9) * size
        assert memory.peak() < 4 * size
        assert poller.longest_gap(began, ended) < (ended - began) / 5
        assert running.verdict("raw-large")["outcome"] == "completed"


def test_large_reasoning_and_arguments_arrive_whole(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    """Text that is sent in pieces is the same text, whichever event it stands in."""
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"at":"'},
    }
    more = {"index": 0, "function": {"arguments": SENTENCE}}
    last = {"index": 0, "function": {"arguments": '"}'}}
    upstream.play(
        "everything",
        [
            send(SSE_HEAD),
            Flood(chunk(frames(chat_chunk({"reasoning_content": SENTENCE}), done=False) * 50), 20),
            Flood(chunk(frames(chat_chunk({"content": QUOTES}), done=False) * 50), 20),
            send(chunk(frames(chat_chunk({"tool_calls": [call]}), done=False))),
            Flood(chunk(frames(chat_chunk({"tool_calls": [more]}), done=False) * 50), 20),
            send(
                chunk(frames(chat_chunk({"tool_calls": [last]}), chat_chunk(finish="tool_calls"), USAGE))
                + LAST_CHUNK
            ),
        ],
    )
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    with serving(tmp_path, upstream) as running:
        streamed = running.stream("everything", tools=tools)
        whole = running.whole("everything", tools=tools)
        stored = running.ask(path=f"/v1/responses/{streamed.last['id']}", method="GET")
        resumed = running.ask(path=f"/v1/responses/{streamed.last['id']}?stream=true", method="GET")
    thought, message, called = streamed.last["output"]
    assert thought["content"][0]["text"] == SENTENCE * 1000
    assert message["content"][0]["text"] == QUOTES * 1000
    assert called["arguments"] == '{"at":"' + SENTENCE * 1000 + '"}'
    for other in (whole, stored, resumed):
        items = other.last["output"]
        assert [item.get("content") for item in items] == [thought["content"], message["content"], None]
        assert items[2]["arguments"] == called["arguments"]
    assert resumed.events == streamed.events


def test_the_usage_of_a_large_answer_is_estimated_while_others_go_on(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """Counting takes long, so heartbeats come meanwhile: their numbers must not get ahead of other events."""
    one = frames(chat_chunk({"content": SENTENCE}), done=False)
    end = send(chunk(frames(chat_chunk(finish="stop"))) + LAST_CHUNK)
    upstream.play("unmetered", [send(SSE_HEAD), Flood(chunk(one * 100), 20), end])
    with serving(tmp_path, upstream, limits='event_every = "10ms"') as running:
        reply = running.stream("unmetered")
    assert reply.last["usage"]["output_tokens"] > 400_000
    assert [each["code"] for each in reply.last["diagnostics"]] == ["usage_estimated"]


def descriptors(running: Running) -> int:
    return len(list(Path(f"/proc/{running.process.pid}/fd").iterdir()))


@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_read_nothing_are_cut_off(
    tmp_path: Path, upstream: ScriptedUpstream, stream: bool
) -> None:
    upstream.play("large", flooded({"content": SENTENCE}, 400_000, 20))
    limits = "client_timeout = 1\ncomment_every = 600\nevent_every = 600\npatience = 600"
    with serving(tmp_path, upstream, limits=limits) as running:
        running.stream("demo", "hello")
        before = descriptors(running)
        clients = [connect(running, turn("large", stream=stream), buffer=4096) for _ in range(10)]
        wait_for(lambda: len(running.log) >= 10 and descriptors(running) <= before + 2)
        for client in clients:
            client.close()


def test_a_slow_reader_is_not_cut_off(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    """It takes longer than `client_timeout` in total, but reads a little all the time."""
    upstream.play("large", flooded({"content": SENTENCE}, 400_000, 5))
    with serving(tmp_path, upstream, limits="client_timeout = 1") as running:
        client = connect(running, turn("large", "connection: close", stream=False), buffer=65536)
        received = 0
        with client:
            while data := client.recv(1 << 17):
                received += len(data)
                time.sleep(0.2)
        assert received > 1.8 * MB
        assert running.verdict("raw-large")["outcome"] == "completed"


def test_a_stream_ends_lawfully_when_no_descriptor_is_left(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    full, ended = threading.Event(), threading.Event()
    failure = {"error": {"message": "the model broke", "code": 500}}
    upstream.play(
        "broken",
        [
            *begun(chat_chunk({"content": "half of"})),
            until(full),
            send(chunk(frames(failure, done=False))),
            until(ended),  # its descriptor is not free meanwhile
        ],
    )
    config = CONFIG.format(url=upstream.url, limits="connections = 1000")  # more than there are descriptors
    limited = ("prlimit", "--nofile=64:64")
    with gateway(tmp_path, config=config, through=limited) as running, running.live("broken") as live:
        live.until(b"half of")
        clients: list[socket.socket] = []
        while descriptors(running) < 64:
            clients.append(connect(running))
        full.set()
        reply = live.rest()
        ended.set()
        for client in clients:
            client.close()
    assert reply.last["status"] == "failed"
    assert reply.last["error"]["code"] == "server_error"
    assert reply.last["usage"]["output_tokens"] > 0
