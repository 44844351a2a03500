"""How a WebSocket is closed: when the process stops, and after an hour (decision 18, spec N24)."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from penstock.gateway.api.websocket import Socket
from penstock.gateway.gateway import Gateway
from penstock.gateway.settings import Settings
from penstock.protocol.events import TERMINAL
from penstock.store.memory import MemoryStore
from tests.client.server import in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.probes import refuses, wait_for
from tests.gateway.running import Json, Running, gateway
from tests.gateway.upstream import ScriptedUpstream, begun, rest, until, until_gone
from tests.gateway.websocket_client import FakeClient, Talk, talking


def close_code(talk: Talk) -> int | None:
    with pytest.raises(ConnectionClosed) as closed:
        talk.socket.recv(15)
    return closed.value.rcvd.code if closed.value.rcvd else None


def begin(talk: Talk, model: str) -> None:
    talk.ask(model)
    while json.loads(talk.socket.recv(15))["type"] != "response.output_text.delta":
        pass


def last_of(talk: Talk) -> Json:
    """The terminal event of a turn that was begun."""
    while (event := json.loads(talk.socket.recv(15)))["type"] not in TERMINAL:
        pass
    found: Json = event
    return found


@pytest.mark.e2e
def test_an_idle_socket_is_closed_when_the_gateway_stops(tmp_path: Path) -> None:
    with gateway(tmp_path) as running, talking(running) as talk:
        assert talk.is_usable()
        running.signal(signal.SIGTERM)
        assert close_code(talk) == 1012
        assert running.process.wait(20) == 0


@pytest.mark.e2e
def test_a_running_turn_ends_before_its_socket_is_closed(tmp_path: Path) -> None:
    """As over HTTP: no client is disconnected without an explanation."""
    scripted, opened = ScriptedUpstream(), threading.Event()
    scripted.play("m", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    with (
        in_a_thread(scripted),
        gateway(tmp_path, config=CONFIG.format(url=scripted.url)) as running,
        talking(running) as talk,
    ):
        begin(talk, "m")
        talk.ask("m")  # waits, and is never run
        running.signal(signal.SIGTERM)
        wait_for(lambda: refuses(running))
        opened.set()
        last = last_of(talk)
        assert (last["type"], last["response"]["output"][0]["content"][0]["text"]) == (
            "response.completed",
            "ab",
        )
        assert close_code(talk) == 1012
        assert running.process.wait(20) == 0
        assert len(scripted.asked_for("m")) == 1


@pytest.mark.e2e
def test_a_turn_that_does_not_end_fails_as_shutting_down(tmp_path: Path) -> None:
    scripted, gone = ScriptedUpstream(), threading.Event()
    scripted.play("m", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    config = CONFIG.replace("retries = 0", "retries = 0\ndrain = 0.3")
    with (
        in_a_thread(scripted),
        gateway(tmp_path, config=config.format(url=scripted.url)) as running,
        talking(running) as talk,
    ):
        begin(talk, "m")
        running.signal(signal.SIGTERM)
        last = last_of(talk)
        assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "shutting_down")
        assert close_code(talk) == 1012
        assert running.process.wait(20) == 0
        assert gone.wait(10)


def test_an_idle_connection_is_closed_after_sixty_minutes() -> None:
    """Spec N24, also without a frame that could be refused."""

    async def live() -> tuple[list[Json], int | None]:
        client, made = FakeClient(), Gateway(Settings(), store=MemoryStore())
        await asyncio.wait_for(Socket(made, client.exchange(), None, lambda: 0.0, longest=0.01).serve(), 10)
        await made.aclose()
        return client.frames, client.channel.close_code

    [error], closed = asyncio.run(live())
    assert error["error"]["code"] == "websocket_connection_limit_reached"
    assert closed == 1001


@pytest.mark.e2e
def test_each_turn_of_a_socket_has_a_verdict_of_its_own(penstock: Running) -> None:
    with talking(penstock, additional_headers={"x-request-id": "of-a-socket"}) as talk:
        ids = [talk.response()["id"] for _ in range(2)]
    verdicts = [penstock.verdict(f"of-a-socket-{number}") for number in (1, 2)]
    assert [verdict["response_id"] for verdict in verdicts] == ids
