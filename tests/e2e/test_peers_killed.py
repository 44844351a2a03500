"""The upstream or the client killed in the middle of an answer: the output so far is stored."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.client.server import Script, cut
from tests.e2e.gateway_setup import started
from tests.gateway.clients import RawClient
from tests.gateway.running import Json, Running
from tests.gateway.scripts import TOOLS, call, calls, text
from tests.gateway.upstream import ScriptedUpstream, begun, until, until_gone

pytestmark = pytest.mark.e2e

CLIENTS = 12

BEGINNINGS = (text("a ", "half"), [*text("whole"), calls(call(0, "call_1", "read", '{"path": "/t'))])
"""Half of a message; a complete message and half of a call."""
STORED = (
    [("message", "incomplete", "a half")],
    [("message", "completed", "whole"), ("function_call", "incomplete", '{"path": "/t')],
)


@pytest.fixture
def running(tmp_path: Path, upstream: ScriptedUpstream) -> Iterator[Running]:
    with started(tmp_path, upstream) as running:
        yield running


def stored(running: Running, id: str) -> tuple[str, list[tuple[str, str, str]]]:
    found = running.ask(path=f"/v1/responses/{id}", method="GET").json
    return found["status"], [_shown(item) for item in found["output"]]


def _shown(item: Json) -> tuple[str, str, str]:
    words = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
    return item["type"], item["status"], words


def all_at_once(action: Callable[[int], str]) -> list[str]:
    """Run the action for all clients at once; return the ids of the responses."""
    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(action, range(CLIENTS)))


def test_an_upstream_that_is_killed_leaves_failed_responses(
    running: Running, upstream: ScriptedUpstream
) -> None:
    ids = all_at_once(partial(lose_the_upstream, running, upstream))
    for number, id in enumerate(ids):
        assert stored(running, id) == ("failed", STORED[number % 2])
        assert len(upstream.asked_for(f"cut-{number}")) == 1


def lose_the_upstream(running: Running, upstream: ScriptedUpstream, number: int) -> str:
    """Reset the upstream's connection after the client has received its output."""
    received = threading.Event()
    script: Script = [*begun(*BEGINNINGS[number % 2]), until(received), cut]
    with running.live(upstream.play(f"cut-{number}", script), tools=TOOLS) as live:
        live.until((b'"half"', b'{\\"path')[number % 2])
        received.set()
        last = live.rest().last
    assert (last["status"], last["error"]["code"]) == ("failed", "upstream_truncated")
    return str(last["id"])


def test_a_client_that_is_killed_leaves_a_cancelled_response(
    running: Running, upstream: ScriptedUpstream
) -> None:
    ids = all_at_once(partial(lose_the_client, running, upstream))
    for number, id in enumerate(ids):
        assert stored(running, id) == ("cancelled", STORED[number % 2])
        assert len(upstream.asked_for(f"lost-{number}")) == 1


def lose_the_client(running: Running, upstream: ScriptedUpstream, number: int) -> str:
    """Reset the client's socket, as if its process was killed with unread data."""
    disconnected = threading.Event()
    model = upstream.play(f"lost-{number}", [*begun(*BEGINNINGS[number % 2]), until_gone(disconnected)])
    client = RawClient(running, model)
    client.read_until((b'"half"', b'{\\"path')[number % 2])
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.leave()
    assert disconnected.wait(20), "the upstream was not disconnected"
    return str(running.verdict(client.request_id)["response_id"])
