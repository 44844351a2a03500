"""What clients do that no library would: the gateway is none the worse for it."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.client.server import answer, chunk, in_a_thread, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_KEY, SECRET_PROMPT, Running, gateway
from tests.gateway.test_leaving import RawClient, memory_of, wait_for
from tests.gateway.test_process import CONFIG, Asking, rest, told
from tests.gateway.upstream import (
    SSE_HEAD,
    ScriptedUpstream,
    begun,
    frames,
    said,
    streamed,
    until,
    until_gone,
)

pytestmark = pytest.mark.e2e


def raw(running: Running, *pieces: bytes) -> socket.socket:
    connection = socket.create_connection((running.address.hostname, running.address.port), timeout=20)
    for piece in pieces:
        connection.sendall(piece)
    return connection


def request(model: str, *headers: str, stream: bool = True) -> bytes:
    body = json.dumps({"model": model, "input": SECRET_PROMPT, "stream": stream}).encode()
    lines = [
        "POST /v1/responses HTTP/1.1",
        "host: 127.0.0.1",
        f"content-length: {len(body)}",
        f"x-request-id: rough-{model}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_all(connection: socket.socket) -> bytes:
    data = bytearray()
    while more := connection.recv(1 << 20):
        data += more
    connection.close()
    return bytes(data)


def test_a_client_that_has_asked_the_next_thing_already_is_missed_when_it_goes(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("pipelined", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    client = raw(penstock, request("pipelined") + b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    client.recv(65536)
    client.close()
    assert gone.wait(10)
    assert penstock.verdict("rough-pipelined")["closer"] == "client"


def test_an_offer_of_http_2_is_ignored(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("h2c", streamed(*said("over HTTP/1.1")))
    offer = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAoAAA")
    answered = read_all(raw(penstock, request("h2c", *offer, "connection: close", stream=False)))
    assert answered.startswith(b"HTTP/1.1 200")
    assert b"over HTTP/1.1" in answered


def test_a_head_without_end_is_refused_before_it_fills_the_memory(penstock: Running) -> None:
    before = memory_of(penstock)
    client = raw(penstock, b"GET /healthz HTTP/1.1\r\n")
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


def test_a_failure_in_the_stream_closes_the_connection(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Ask A10: Codex tells of it only then. The client did not ask for the connection to be closed."""
    upstream.play("fails", streamed(chat_chunk({"content": "a"}), {"error": {"message": "no"}}))
    data = read_all(raw(penstock, request("fails")))
    assert data.rstrip().endswith(b"data: [DONE]\n\n\r\n0")


def test_a_whole_answer_that_nobody_reads_does_not_stay(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    text = [chat_chunk({"content": "x" * 100_000})] * 100
    upstream.play("unread", streamed(*text, chat_chunk(finish="stop")))
    config = CONFIG.format(url=upstream.url).replace("retries = 0", "client_timeout = 1")
    with gateway(tmp_path, config=config) as running:
        client = RawClient(running, "unread", stream=False, buffer=8192)
        running.verdict(client.request_id)
        wait_for(lambda: connections(running) == 0)
        client.leave()


def connections(running: Running) -> int:
    """How many sockets the process has beyond those that it always has."""
    port = f":{running.address.port:04X}"
    lines = Path(f"/proc/{running.process.pid}/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(port) and line.split()[3] == "01" for line in lines)


def test_a_client_that_stops_reading_while_the_model_is_silent_is_given_up(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """The heart is then the one that writes in vain."""
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


def test_an_answer_without_end_is_ended(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    piece = send(chunk(frames(chat_chunk({"content": "x" * 9000}), done=False)))
    upstream.play("endless-answer", [send(SSE_HEAD), *[piece] * 200])
    config = CONFIG.format(url=upstream.url).replace("retries = 0", 'retries = 0\nanswer_bytes = "1MB"')
    with gateway(tmp_path, config=config) as running:
        reply = running.stream("endless-answer")
        assert reply.last["error"]["code"] == "upstream_invalid"
        assert "answer_bytes" in reply.last["error"]["message"]
        assert 700_000 < len(reply.text) < 1_000_000


def test_too_many_items_are_refused_before_they_are_read(penstock: Running) -> None:
    items = [{"role": "user", "content": "x"}] * 20_001
    reply = penstock.ask({"model": "demo", "input": items})
    assert (reply.status, reply.error["param"]) == (400, "input")


@pytest.mark.parametrize("stream", [True, False])
def test_what_the_gateway_itself_refuses_is_not_the_upstreams(penstock: Running, stream: bool) -> None:
    reply = penstock.ask({"model": "refused-by-render", "input": [], "stream": stream})
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert (reply.status, verdict["outcome"], verdict["closer"]) == (400, "refused", "gateway")
    assert "attempts" not in verdict


def test_a_name_cannot_write_into_the_log(penstock: Running, upstream: ScriptedUpstream) -> None:
    name = "\x1b[2J\n12:00:00 info forged " + "x" * 1000
    upstream.play(name, [answer(404, {"error": {"message": "no such model"}})])
    verdict = penstock.verdict(penstock.whole(name).headers["x-request-id"])
    assert verdict["model"].startswith("?[2J?12:00:00 info forged")
    assert len(verdict["model"]) == len(verdict["upstream_model"]) == 128
    assert "\x1b" not in verdict["message"]


def test_a_stream_survives_two_changes_of_the_settings(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("m", [*begun(chat_chunk({"content": "o"})), until(opened), rest("ld")])
        turn = Asking(running, "m")
        wait_for(lambda: scripted.asked_for("m"))
        first = CONFIG.format(url=scripted.url).replace("retries = 0", "retries = 1")
        for times, config in enumerate((first, first + "idle_timeout = 5\n"), 1):
            (tmp_path / "penstock.toml").write_text(config)
            running.signal(signal.SIGHUP)
            wait_for(partial(has_read_again, running, times))
        opened.set()
        assert turn.answer().text == "old"


def has_read_again(running: Running, times: int) -> bool:
    return sum("the settings were reloaded" in line["message"] for line in running.log) == times


def test_a_request_that_is_still_coming_follows_the_new_settings(tmp_path: Path) -> None:
    old, new = ScriptedUpstream(), ScriptedUpstream()
    with in_a_thread(old), in_a_thread(new), gateway(tmp_path, config=CONFIG.format(url=old.url)) as running:
        new.play("m", streamed(*said("new")))
        sent = request("m", "connection: close", stream=False)
        client = raw(running, sent[:-10])
        time.sleep(0.2)
        (tmp_path / "penstock.toml").write_text(CONFIG.format(url=new.url))
        running.signal(signal.SIGHUP)
        wait_for(lambda: told(running, "the last turn under the old settings"))
        client.sendall(sent[-10:])
        assert b'"text":"new"' in read_all(client)


def test_a_reload_that_cannot_work_changes_nothing_and_says_why(tmp_path: Path) -> None:
    with gateway(tmp_path, config="[aliases]\nfast = 'demo'\n") as running:
        (tmp_path / "penstock.toml").write_text("[server]\nhost = '0.0.0.0'\n")
        running.signal(signal.SIGHUP)
        wait_for(lambda: told(running, "the settings were not changed"))
        assert running.whole("demo").status == 200


def test_a_fall_back_to_another_model_or_past_a_resting_key_is_told(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """Ask E6, also where no attempt of this turn failed."""
    upstream.play("bad", [answer(500, {"error": {"message": "no"}})])
    upstream.play("limited", [answer(429, {"error": {"message": "slow down"}}, retry_after="60")])
    upstream.play("good", streamed(*said("ok")))
    config = f"""
[limits]
retries = 0
[targets.one]
base_url = "{upstream.url}/v1"
keys = ["UPSTREAM_KEY"]
[targets.two]
base_url = "{upstream.url}/v1"
[models.same-target]
targets = ["two/bad", "two/good"]
[models.resting]
targets = ["one/limited", "two/good"]
"""
    with gateway(tmp_path, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as running:
        for model in ("same-target", "resting", "resting"):
            reply = running.stream(model)
            assert reply.text == "ok"
            [fallen] = [each for each in reply.last["diagnostics"] if each["code"] == "fell_back"]
            assert "fell back to good at two" in fallen["message"]
        assert "keys of one are resting" in fallen["message"]
        assert len(upstream.asked_for("limited")) == 1


def test_the_silence_before_a_client_left_is_in_the_verdict(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("idle", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    client = RawClient(penstock, "idle")
    client.read_until(b": waiting")  # two tenths of a second after the last byte
    client.leave()
    assert gone.wait(10)
    assert penstock.verdict(client.request_id)["idle_ms"] >= 150
