"""A client that disconnects ends its turn and its upstream, and affects no other client (ask F1, ask J3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.server import answer, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.clients import RawClient
from tests.gateway.probes import gauge, memory_of, wait_for
from tests.gateway.raw_sockets import connect, turn
from tests.gateway.running import SECRET_ANSWER, SECRET_KEY, SECRET_PROMPT, Running, gateway
from tests.gateway.upstream import (
    ScriptedUpstream,
    begun,
    frames,
    said,
    streamed,
    until_gone,
)

pytestmark = pytest.mark.e2e


CONFIG = """
passthrough = "chat"
[limits]
patience = 0.2
comment_every = 0.2
retries = 2
retry_wait = 60
client_timeout = {client_timeout}
[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""


@pytest.fixture(scope="module")
def patient(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway that retries."""
    config = CONFIG.format(url=upstream.url, client_timeout=300)
    folder: Path = tmp_path_factory.mktemp("patient")
    with gateway(folder, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as running:
        yield running


def test_a_client_that_disconnects_in_the_middle_ends_the_upstream(
    patient: Running, upstream: ScriptedUpstream
) -> None:
    """Ask F1: after some events."""
    gone = threading.Event()
    upstream.play("leave-1", [*begun(chat_chunk({"content": SECRET_ANSWER})), until_gone(gone)])
    client = RawClient(patient, "leave-1")
    client.read_until(b"response.output_text.delta")
    client.leave()
    assert gone.wait(10)
    verdict = patient.verdict(client.request_id)
    assert (verdict["closer"], verdict["outcome"], verdict["code"]) == ("client", "cancelled", "client_gone")
    assert verdict["usage_estimated"] is True
    assert verdict["output_tokens"] > 0
    assert "terminal_sent" not in verdict
    assert len(upstream.asked_for("leave-1")) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_before_the_first_byte_ends_the_upstream(
    patient: Running, upstream: ScriptedUpstream, stream: bool
) -> None:
    """Ask F1: the upstream has not answered yet."""
    gone = threading.Event()
    model = upstream.play(f"leave-2-{stream}", [until_gone(gone)])
    client = RawClient(patient, model, stream=stream)
    wait_for(lambda: upstream.asked_for(model))
    client.leave()
    assert gone.wait(10)
    assert patient.verdict(client.request_id)["closer"] == "client"
    assert len(upstream.asked_for(model)) == 1


def test_a_client_that_disconnects_an_answer_that_is_not_streamed_ends_the_upstream(
    patient: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("leave-3", [*begun(chat_chunk({"content": SECRET_ANSWER})), until_gone(gone)])
    client = RawClient(patient, "leave-3", stream=False)
    wait_for(lambda: upstream.asked_for("leave-3"))
    client.leave()
    assert gone.wait(10)
    assert patient.verdict(client.request_id)["closer"] == "client"


def test_no_retry_for_a_client_that_disconnected_during_the_wait(
    patient: Running, upstream: ScriptedUpstream
) -> None:
    """Ask F1: while a retry sleeps."""
    busy = [answer(503, {"error": {"message": SECRET_PROMPT}}, retry_after="50")]
    upstream.play("leave-4", busy)
    client = RawClient(patient, "leave-4")
    client.read_until(b"response.in_progress")  # patience is over, and the wait goes on
    client.leave()
    verdict = patient.verdict(client.request_id)
    assert verdict["closer"] == "client"
    assert verdict["tried"] == ["chat: server_is_overloaded"]
    assert len(upstream.asked_for("leave-4")) == 1


def test_finished_turns_leave_no_tasks_sockets_or_memory(
    patient: Running, upstream: ScriptedUpstream
) -> None:
    """200 normal, 200 failed and 200 cancelled streams: tasks, sockets and memory are where they were."""
    upstream.play("normal", streamed(*said(SECRET_ANSWER)))
    upstream.play(
        "failed", [*begun(chat_chunk({"content": "a"})), send(chunk(frames("garbage", done=False)))]
    )
    gone = threading.Event()
    upstream.play("cancelled", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])

    def round_trip() -> None:
        assert patient.stream("normal").last["status"] == "completed"
        assert patient.stream("failed").last["status"] == "failed"
        client = RawClient(patient, "cancelled")
        client.read_until(b"output_text.delta")
        client.leave()

    for _ in range(20):
        round_trip()
    settled(patient)
    before = counts(patient)
    memory = memory_of(patient)
    for _ in range(200):
        round_trip()
    settled(patient)
    after = counts(patient)
    assert after["tasks"] <= before["tasks"]
    assert after["files"] <= before["files"] + 2  # one keep-alive connection more or less
    assert memory_of(patient) < memory + 8_000_000


def settled(running: Running) -> None:
    wait_for(lambda: gauge(running, "penstock_turns_running") == 0)


def counts(running: Running) -> dict[str, int]:
    """Return the counts when they no longer change: connections are closed shortly after their answer."""
    seen: list[dict[str, int]] = []
    while len(seen) < 3 or any(each != seen[-1] for each in seen[-3:]):
        files = len(list(Path(f"/proc/{running.process.pid}/fd").iterdir()))
        seen.append({"tasks": int(gauge(running, "penstock_tasks")), "files": files})
        assert len(seen) < 200
        time.sleep(0.1)
    return seen[-1]


def test_a_client_that_pipelines_is_noticed_when_it_disconnects(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("pipelined", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    client = connect(penstock, turn("pipelined") + b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    client.recv(65536)
    client.close()
    assert gone.wait(10)
    assert penstock.verdict("raw-pipelined")["closer"] == "client"
