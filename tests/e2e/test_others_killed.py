"""The upstream killed in the middle of an answer, or the client: what had come is kept, and paid for once."""

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
from tests.e2e.stage import started
from tests.gateway.clients import RawClient
from tests.gateway.running import Json, Running
from tests.gateway.scripts import TOOLS, call, calls, text
from tests.gateway.upstream import ScriptedUpstream, begun, until, until_gone

pytestmark = pytest.mark.e2e

CLIENTS = 12

BEGINNINGS = (text("a ", "half"), [*text("whole"), calls(call(0, "call_1", "read", '{"path": "/t'))])
"""What comes before the end: half of a message; a whole one, and half of a call."""
KEPT = (
    [("message", "incomplete", "a half")],
    [("message", "completed", "whole"), ("function_call", "incomplete", '{"path": "/t')],
)


@pytest.fixture
def running(tmp_path: Path, upstream: ScriptedUpstream) -> Iterator[Running]:
    with started(tmp_path, upstream) as running:
        yield running


def kept(running: Running, id: str) -> tuple[str, list[tuple[str, str, str]]]:
    found = running.ask(path=f"/v1/responses/{id}", method="GET").json
    return found["status"], [_shown(item) for item in found["output"]]


def _shown(item: Json) -> tuple[str, str, str]:
    words = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
    return item["type"], item["status"], words


def all_at_once(deed: Callable[[int], str]) -> list[str]:
    """The ids of the responses."""
    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(deed, range(CLIENTS)))


def test_an_upstream_that_is_killed_leaves_failed_responses(
    running: Running, upstream: ScriptedUpstream
) -> None:
    ids = all_at_once(partial(lose_the_upstream, running, upstream))
    for number, id in enumerate(ids):
        assert kept(running, id) == ("failed", KEPT[number % 2])
        assert len(upstream.asked_for(f"cut-{number}")) == 1


def lose_the_upstream(running: Running, upstream: ScriptedUpstream, number: int) -> str:
    """The connection is reset when the client has heard what the upstream had to say."""
    heard = threading.Event()
    script: Script = [*begun(*BEGINNINGS[number % 2]), until(heard), cut]
    with running.live(upstream.play(f"cut-{number}", script), tools=TOOLS) as live:
        live.until((b'"half"', b'{\\"path')[number % 2])
        heard.set()
        last = live.rest().last
    assert (last["status"], last["error"]["code"]) == ("failed", "upstream_truncated")
    return str(last["id"])


def test_a_client_that_is_killed_leaves_a_cancelled_response(
    running: Running, upstream: ScriptedUpstream
) -> None:
    ids = all_at_once(partial(lose_the_client, running, upstream))
    for number, id in enumerate(ids):
        assert kept(running, id) == ("cancelled", KEPT[number % 2])
        assert len(upstream.asked_for(f"lost-{number}")) == 1


def lose_the_client(running: Running, upstream: ScriptedUpstream, number: int) -> str:
    """The socket is reset, as when the process dies with something unread."""
    gone = threading.Event()
    model = upstream.play(f"lost-{number}", [*begun(*BEGINNINGS[number % 2]), until_gone(gone)])
    client = RawClient(running, model)
    client.read_until((b'"half"', b'{\\"path')[number % 2])
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.leave()
    assert gone.wait(20), "the upstream goes on for nobody"
    return str(running.verdict(client.request_id)["response_id"])
