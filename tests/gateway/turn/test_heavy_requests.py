"""A heavy request of one client does not block the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from penstock.gateway.settings import Limits
from tests.client.server import in_a_thread
from tests.gateway.probes import HealthPoller
from tests.gateway.request_lists import calls, functions, ids, outputs, user
from tests.gateway.running import Json, Running, gateway
from tests.gateway.upstream import ScriptedUpstream, said, streamed

pytestmark = pytest.mark.e2e

ITEMS, TOOLS = Limits().input_items, Limits().tools

CONFIG = """
passthrough = "chat"

[limits]
retries = 0

[targets.chat]
base_url = "{url}/v1"

[targets.anthropic]
base_url = "{url}/v1"
dialect = "anthropic"

[targets.gemini]
base_url = "{url}/v1"
dialect = "gemini"

[models.over-anthropic]
target = "anthropic"

[models.over-gemini]
target = "gemini"
"""
"""What the upstreams of the last two answer does not matter here: the work is done before it."""

HEAVY: dict[str, Callable[[], Json]] = {
    "one id again and again": lambda: {"input": [*calls(["c"]), *outputs(["c"])] * (ITEMS // 2)},
    "unanswered calls": lambda: {"input": calls(ids(ITEMS))},
    "calls, then outputs": lambda: {"input": calls(ids(ITEMS // 2)) + outputs(ids(ITEMS // 2))},
    "allowed tools": lambda: {
        "input": "use no tools",
        "tools": functions(TOOLS),
        "tool_choice": {"type": "allowed_tools", "tools": functions(TOOLS)},
    },
    "long messages": lambda: {"input": user("some words, and more of them " * 100) * (ITEMS // 2)},
}
"""The largest that the limits allow, by what is large in them."""

LARGEST_SHARE = 0.3
"""The share of a heavy request's time that others may wait. On the event loop it would be about a half."""
LONG_ENOUGH = 0.5
"""Seconds. For a shorter time, the share means nothing."""
TRIES = 3


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    scripted.play("plain", streamed(*said("hello")))
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def penstock(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with gateway(folder, config=CONFIG.format(url=upstream.url)) as running:
        yield running


def send(running: Running, body: bytes) -> tuple[int, bytes]:
    connection = running.connect()
    connection.timeout = 300  # without the fix a request takes minutes
    connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    read = answer.status, answer.read()
    connection.close()
    return read


@pytest.mark.parametrize("model", ["plain", "over-anthropic", "over-gemini", "demo"])
@pytest.mark.parametrize("name", HEAVY)
def test_others_are_answered_while_a_heavy_request_is_read_and_rendered(
    penstock: Running, name: str, model: str
) -> None:
    body = json.dumps({"model": model, "store": False, **HEAVY[name]()}).encode()
    shares = []
    for _ in range(TRIES):
        with HealthPoller(penstock) as poller:
            began = time.monotonic()
            status, answered = send(penstock, body)
            ended = time.monotonic()
        assert status == 200 or model in ("over-anthropic", "over-gemini"), answered
        if ended - began < LONG_ENOUGH:
            return
        shares.append(poller.longest_gap(began, ended) / (ended - began))
        if shares[-1] < LARGEST_SHARE:
            return
    raise AssertionError(f"nobody else was answered for these shares of the time: {shares}")


def test_a_client_that_disconnects_from_a_heavy_request_leaves_no_tasks(penstock: Running) -> None:
    body = json.dumps({"model": "plain", **HEAVY["calls, then outputs"]()}).encode()
    for _ in range(3):
        connection = penstock.connect()
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        connection.close()
    assert penstock.whole("plain", "hello").text == "hello"


TOO_MANY: dict[str, tuple[Json, str]] = {
    "tools": ({"input": "x", "tools": functions(TOOLS + 1)}, "tools"),
    "items": ({"input": user() * (ITEMS + 1)}, "input"),
    "allowed tools": (
        {"input": "x", "tool_choice": {"type": "allowed_tools", "tools": functions(TOOLS + 1)}},
        "tool_choice.tools",
    ),
}


@pytest.mark.parametrize("path", ["", "/input_tokens", "/compact"])
@pytest.mark.parametrize("name", TOO_MANY)
def test_too_much_is_refused_wherever_a_request_comes_in(penstock: Running, name: str, path: str) -> None:
    body, param = TOO_MANY[name]
    refused = penstock.ask({"model": "demo", **body}, f"/v1/responses{path}")
    assert (refused.status, refused.error["param"]) == (400, param)
    assert "at most" in refused.error["message"]


@pytest.mark.parametrize("name", TOO_MANY)
def test_too_much_is_refused_on_a_websocket(penstock: Running, name: str) -> None:
    body, param = TOO_MANY[name]
    url = f"ws://{penstock.address.netloc}/v1/responses"
    with connect(url, max_size=None) as socket:
        socket.send(json.dumps({"type": "response.create", "model": "demo", **body}))
        refused = json.loads(socket.recv(30))
    assert (refused["status"], refused["error"]["param"]) == (400, param)


def test_too_much_is_refused_in_a_conversation(penstock: Running) -> None:
    item = {"type": "additional_tools", "tools": functions(TOOLS + 1)}
    refused = penstock.ask({"items": [item]}, "/v1/conversations")
    assert (refused.status, refused.error["param"]) == (400, "tools")
    assert penstock.ask({"items": user() * 21}, "/v1/conversations").error["param"] == "items"
