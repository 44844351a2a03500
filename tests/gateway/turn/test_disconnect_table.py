"""What happens when a client disconnects: a test for every row of the table in docs/state.md (decision
16)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.sse import Decoder
from tests.client.server import Script, send
from tests.client.server import chunk as http_chunk
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.probes import wait_for
from tests.gateway.running import Json, Live, Running, gateway
from tests.gateway.upstream import LAST_CHUNK, ScriptedUpstream, begun, frames, said, until, until_gone
from tests.gateway.websocket_client import talking

pytestmark = pytest.mark.e2e

DOCS = Path(__file__).parents[3] / "docs" / "state.md"
NONE, SHORT, LONG = 0.0, 0.3, 600.0
"""Seconds of grace: too short to reconnect, and longer than the test."""

CONFIG = """
passthrough = "chat"
[limits]
patience = 0.2
retries = 0
disconnect_grace = {grace}
[targets.chat]
base_url = "{url}/v1"
"""

Row = tuple[str, str, str, str]
"""How, store, background, disconnect_grace."""


class House:
    """A gateway for each grace, and an upstream that sends half an answer."""

    def __init__(self, upstream: ScriptedUpstream, running: dict[float, Running]) -> None:
        self.upstream, self.running = upstream, running
        self._count = 0

    def play(self, script: Script) -> str:
        self._count += 1
        return self.upstream.play(f"disconnect-{self._count}", script)

    def half(self) -> tuple[str, threading.Event]:
        """A model that sends half an answer, and the event that is set when its connection is closed."""
        gone = threading.Event()
        return self.play([*begun(chat_chunk({"content": "half"})), until_gone(gone)]), gone

    def two_halves(self) -> tuple[str, threading.Event]:
        """An answer whose second half is sent when the event is set."""
        go_on = threading.Event()
        rest = send(http_chunk(frames(*said(" and half"))) + LAST_CHUNK)
        return self.play([*begun(chat_chunk({"content": "half"})), until(go_on), rest]), go_on


@pytest.fixture(scope="module")
def house(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with ExitStack() as stack:
        running = {}
        for grace in (NONE, SHORT, LONG):
            config = CONFIG.format(grace=grace, url=upstream.url)
            running[grace] = stack.enter_context(gateway(tmp_path_factory.mktemp("grace"), config=config))
        yield House(upstream, running)


def stream_and_leave(_: House, running: Running, model: str, **fields: Any) -> str:
    """The id of a response whose client disconnected after the first text."""
    with running.live(model, **fields) as live:
        live.until(b"response.output_text.delta")
        return live.body.partition(b'"id":"')[2].partition(b'"')[0].decode()


def talk_and_leave(_: House, running: Running, model: str, **fields: Any) -> str:
    with talking(running) as talk:
        talk.ask(model, **fields)
        first = json.loads(talk.socket.recv(15))
        while json.loads(talk.socket.recv(15))["type"] != "response.output_text.delta":
            pass
        id: str = first["response"]["id"]
        return id


def ask_and_leave(house: House, running: Running, model: str, **fields: Any) -> str:
    """The same for an answer that is not streamed: its id is in the log only."""
    request_id = f"whole-{model}"
    connection = running.connect()
    body = json.dumps({"model": model, "input": "x", **fields}).encode()
    connection.request("POST", "/v1/responses", body, {"x-request-id": request_id})
    wait_for(lambda: house.upstream.asked_for(model))
    connection.close()
    id: str = running.verdict(request_id)["response_id"]
    return id


@contextmanager
def resumed(running: Running, id: str, after: int | None = None) -> Iterator[Live]:
    connection = running.connect()
    try:
        query = "stream=true" + ("" if after is None else f"&starting_after={after}")
        connection.request("GET", f"/v1/responses/{id}?{query}")
        yield Live(connection.getresponse(), "openresponses")
    finally:
        connection.close()


LEAVING: dict[str, Callable[..., str]] = {
    "streamed": stream_and_leave,
    "not streamed": ask_and_leave,
    "over a WebSocket": talk_and_leave,
}


def kept(running: Running, id: str) -> Json:
    found: Json = running.ask(path=f"/v1/responses/{id}", method="GET").json
    return found


def is_ended(running: Running, id: str) -> bool:
    return kept(running, id)["status"] not in ("queued", "in_progress")


def text_of(response: Json) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def is_cancelled(house: House, how: str, graces: tuple[float, ...]) -> None:
    for grace in graces:
        running = house.running[grace]
        model, gone = house.half()
        id = LEAVING[how](house, running, model)
        assert gone.wait(10)
        wait_for(partial(is_ended, running, id))
        found = kept(running, id)
        assert found["status"] == "cancelled"
        assert text_of(found) == ("half" if how != "not streamed" or found["output"] else "")


def leaves_nothing(house: House, how: str) -> None:
    for grace in (NONE, LONG):
        model, gone = house.half()
        id = LEAVING[how](house, house.running[grace], model, store=False)
        assert gone.wait(10)
        assert kept(house.running[grace], id)["error"]["code"] == "response_not_found"


def goes_on_for_who_comes_back(house: House, how: str) -> None:
    running = house.running[LONG]
    model, go_on = house.two_halves()
    id = LEAVING[how](house, running, model)
    assert kept(running, id)["status"] == "in_progress"
    with resumed(running, id, after=3) as live:
        live.until(b'"sequence_number":4')
        go_on.set()
        live.until(b"[DONE]")
    first, *_, last, _ = [frame.data for frame in Decoder().feed(live.body)]
    assert json.loads(first)["sequence_number"] == 4
    assert text_of(json.loads(last)["response"]) == "half and half"
    assert len(house.upstream.asked_for(model)) == 1
    assert kept(running, id) == json.loads(last)["response"]


def goes_on_in_the_background(house: House, how: str) -> None:
    running = house.running[NONE]
    model, go_on = house.two_halves()
    if how == "streamed":
        id = stream_and_leave(house, running, model, background=True)
    else:
        id = running.whole(model, background=True).json["id"]
    go_on.set()
    wait_for(partial(is_ended, running, id))
    assert (kept(running, id)["status"], text_of(kept(running, id))) == ("completed", "half and half")


def is_refused(house: House) -> None:
    for stream in (True, False):
        body = {"model": "demo", "input": "x", "background": True, "store": False, "stream": stream}
        reply = house.running[NONE].ask(body)
        assert (reply.status, reply.error["param"]) == (400, "store")


ROWS: dict[Row, Callable[[House], None]] = {
    ("streamed", "true", "no", "0"): lambda house: is_cancelled(house, "streamed", (NONE,)),
    ("streamed", "true", "no", "above 0, and a client reconnects"): lambda house: goes_on_for_who_comes_back(
        house, "streamed"
    ),
    ("streamed", "true", "no", "above 0, and no client reconnects"): lambda house: is_cancelled(
        house, "streamed", (SHORT,)
    ),
    ("streamed", "false", "no", "any"): lambda house: leaves_nothing(house, "streamed"),
    ("not streamed", "true", "no", "any"): lambda house: is_cancelled(house, "not streamed", (NONE, LONG)),
    ("not streamed", "false", "no", "any"): lambda house: leaves_nothing(house, "not streamed"),
    ("over a WebSocket", "true", "no", "0"): lambda house: is_cancelled(house, "over a WebSocket", (NONE,)),
    (
        "over a WebSocket",
        "true",
        "no",
        "above 0, and a client reconnects",
    ): lambda house: goes_on_for_who_comes_back(house, "over a WebSocket"),
    ("over a WebSocket", "false", "no", "any"): lambda house: leaves_nothing(house, "over a WebSocket"),
    ("streamed", "true", "yes", "any"): lambda house: goes_on_in_the_background(house, "streamed"),
    ("not streamed", "true", "yes", "any"): lambda house: goes_on_in_the_background(house, "not streamed"),
    ("either", "false", "yes", "any"): is_refused,
}


def documented() -> list[Row]:
    section = DOCS.read_text().partition("## When a client disconnects")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [tuple(cell.strip() for cell in line.split("|")[1:5]) for line in lines]  # type: ignore[misc]


def test_the_table_has_a_test_for_each_row() -> None:
    assert documented() == list(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=", ".join)
def test_what_the_table_says_is_so(house: House, row: Row) -> None:
    ROWS[row](house)


def test_who_leaves_a_second_time_is_waited_for_again(house: House) -> None:
    running = house.running[LONG]
    model, go_on = house.two_halves()
    id = stream_and_leave(house, running, model)
    for _ in range(2):
        with resumed(running, id) as live:
            live.until(b"response.output_text.delta")
    go_on.set()
    wait_for(partial(is_ended, running, id))
    assert kept(running, id)["status"] == "completed"


def test_a_turn_that_was_left_says_so(house: House) -> None:
    running = house.running[LONG]
    model, go_on = house.two_halves()
    with running.live(model, headers={"x-request-id": "left-and-ended"}) as live:
        live.until(b"response.output_text.delta")
    go_on.set()
    verdict = running.verdict("left-and-ended")
    assert (verdict["outcome"], verdict["left"]) == ("completed", True)
    assert "terminal_sent" not in verdict
