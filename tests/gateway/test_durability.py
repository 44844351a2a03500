"""A response that a client has received survives the process, or a diagnostic reports that it may not."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.client.server import chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.disk_faults import CANNOT_WRITE, HARMS, Harm, file_of, full, late_count, locked
from tests.gateway.probes import wait_for
from tests.gateway.running import SECRET_PROMPT, Json, Live, Reply, Running, gateway
from tests.gateway.upstream import LAST_CHUNK, ScriptedUpstream, begun, frames, said, until

pytestmark = pytest.mark.e2e

CONFIG = """
passthrough = "chat"
[limits]
retries = 0
[targets.chat]
base_url = "{url}/v1"
"""
NOT_WRITTEN = "could not be written to the store before it was closed"
DAY = 86_400
FAULTS = (CANNOT_WRITE, NOT_WRITTEN)


def get(running: Running, id: str) -> Reply:
    return running.ask(path=f"/v1/responses/{id}", method="GET")


def first_snapshots(live: Live) -> list[Json]:
    """The responses in `response.created` and `response.in_progress`."""
    live.until(b"event: response.in_progress")
    live.until(b"\n\n", times=2)
    frames = [frame.partition(b"data: ")[2] for frame in live.body.split(b"\n\n")[:2]]
    return [json.loads(frame)["response"] for frame in frames]


# The beginning


@HARMS
def test_a_turn_that_is_not_in_the_file_says_so_from_its_first_event(
    tmp_path: Path, upstream: ScriptedUpstream, harm: Harm
) -> None:
    model = upstream.play("not-in-the-file", [*begun(chat_chunk({"content": "a"})), until(threading.Event())])
    config = CONFIG.format(url=upstream.url)
    with gateway(tmp_path, config=config, faults=FAULTS) as running:
        running.whole("demo", SECRET_PROMPT * 2000)
        with harm(running, file_of(tmp_path)), running.live(model) as live:
            late = first_snapshots(live)
            assert [late_count(response) for response in late] == [1, 1]
            assert "store_late" in live.headers["x-penstock-diagnostics"]
            assert late_count(get(running, late[0]["id"]).json) == 1
            running.signal(signal.SIGKILL)
            running.process.wait()
    with gateway(tmp_path, config=config) as running, running.live(model) as live:
        assert get(running, late[0]["id"]).status == 404, "its diagnostics warned of this"
        kept = first_snapshots(live)
        assert [late_count(response) for response in kept] == [0, 0]
        assert "store_late" not in live.headers.get("x-penstock-diagnostics", "")
        running.signal(signal.SIGKILL)
        running.process.wait()
    with gateway(tmp_path, config=config) as running:
        found = get(running, kept[0]["id"]).json
        assert (found["status"], found["error"]["code"]) == ("failed", "gateway_restarted")


def test_a_turn_that_is_written_later_takes_it_back_with_its_end(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    opened = threading.Event()
    rest = send(chunk(frames(*said("b"))) + LAST_CHUNK)
    model = upstream.play("late-begin", [*begun(chat_chunk({"content": "a"})), until(opened), rest])
    with gateway(tmp_path, config=CONFIG.format(url=upstream.url), faults=FAULTS) as running:
        running.whole("demo")
        with ExitStack() as lock, ExitStack() as turn:
            lock.enter_context(locked(running, file_of(tmp_path)))
            live = turn.enter_context(running.live(model))
            id = first_snapshots(live)[0]["id"]
            lock.close()
            wait_for(lambda: late_count(get(running, id).json) == 0)
            opened.set()
            reply = live.rest()
        counts = [late_count(event["response"]) for event in reply.events if "response" in event]
        assert (counts[:2], counts[-1]) == ([1, 1], 0)
        assert get(running, id).json == reply.last
        again = running.ask(path=f"/v1/responses/{id}?stream=true", method="GET")
        assert again.body == reply.body, "the log has what was sent"


def test_a_late_beginning_and_a_late_end_are_reported_once_each(tmp_path: Path) -> None:
    with gateway(tmp_path, faults=FAULTS) as running:
        running.whole("demo")
        with locked(running, file_of(tmp_path)):
            reply = running.stream("demo")
            snapshots = [event["response"] for event in reply.events if "response" in event]
            assert {late_count(response) for response in snapshots} == {1}


def test_a_turn_over_a_websocket_says_so_as_well(tmp_path: Path) -> None:
    with gateway(tmp_path, faults=FAULTS) as running:
        running.whole("demo")
        with (
            locked(running, file_of(tmp_path)),
            connect(f"ws://{running.address.netloc}/v1/responses") as socket,
        ):
            asked = {"type": "response.create", "model": "demo", "input": SECRET_PROMPT}
            socket.send(json.dumps(asked))
            created = json.loads(socket.recv(15))
            assert (created["type"], late_count(created["response"])) == ("response.created", 1)


# In the background


def is_refused(reply: Reply) -> bool:
    assert (reply.status, reply.error["code"]) == (503, "store_unavailable")
    return int(reply.headers["retry-after"]) > 0


@HARMS
def test_a_background_turn_is_not_accepted_before_it_is_durable(
    tmp_path: Path, upstream: ScriptedUpstream, harm: Harm
) -> None:
    model = upstream.play(
        f"behind-{harm.__name__}", [*begun(chat_chunk({"content": "a"})), until(threading.Event())]
    )
    config = CONFIG.format(url=upstream.url)
    with gateway(tmp_path, config=config, faults=FAULTS) as running:
        running.whole("demo", SECRET_PROMPT * 2000)
        with harm(running, file_of(tmp_path)):
            assert is_refused(running.whole(model, background=True))
            assert is_refused(running.stream(model, background=True))
        assert upstream.asked_for(model) == []
        metrics = running.ask(path="/metrics", method="GET").body
        assert b"penstock_turns_running 0" in metrics

        wait_for(lambda: running.whole("demo", background=True).status == 200)
        queued = running.whole(model, background=True).last
        assert (queued["status"], late_count(queued)) == ("queued", 0)
        running.signal(signal.SIGKILL)
        running.process.wait()
    with sqlite3.connect(file_of(tmp_path)) as file:
        left = file.execute("SELECT count(*) FROM responses WHERE is_background").fetchone()
    assert left[0] == 2, "nothing is left of the refused ones"
    with gateway(tmp_path, config=config) as running:
        found = get(running, queued["id"]).json
        assert (found["status"], found["error"]["code"]) == ("failed", "gateway_restarted")


# The end of the process


def stop(running: Running) -> tuple[int, list[Json], str]:
    """Its exit code, what it logged about the store, and what else it wrote."""
    code = running.stop()
    lines = running._log.read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    words = "\n".join(line for line in lines if not line.startswith("{"))
    return code, [line for line in logged if line.get("event") == "store"], words


@pytest.mark.parametrize("harm", [full, locked], ids=["full", "locked"])
def test_what_cannot_be_written_before_the_end_is_named_and_changes_the_exit_code(
    tmp_path: Path, harm: Harm
) -> None:
    with gateway(tmp_path, faults=FAULTS) as running:
        running.whole("demo", SECRET_PROMPT * 2000)
        with harm(running, file_of(tmp_path)):
            lost = [running.whole("demo").last, running.stream("demo").last]
            assert [late_count(response) for response in lost] == [1, 1]
            code, logged, words = stop(running)
    assert code == 1
    assert [line["response_id"] for line in logged if "response_id" in line] == [each["id"] for each in lost]
    assert words.startswith("penstock: 2 responses could not be written to the store")


def test_what_could_be_written_in_the_end_is_no_reason_to_complain(tmp_path: Path) -> None:
    with gateway(tmp_path, faults=FAULTS) as running:
        running.whole("demo")
        with locked(running, file_of(tmp_path)):
            late = running.whole("demo").last
        code, _, words = stop(running)
    assert (late_count(late), code, words) == (1, 0, "")
    with gateway(tmp_path) as running:
        assert get(running, late["id"]).status == 200


# A clock that is ahead


def test_a_start_with_a_clock_that_is_far_ahead_deletes_nothing(tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        kept = running.whole("demo").last["id"]
        talk = running.ask({}, path="/v1/conversations").json["id"]
    shift(file_of(tmp_path), -40 * DAY)  # for the gateway that comes this is the same
    with gateway(tmp_path) as running:
        running.whole("demo")  # by then its first look at the store is over
        assert get(running, kept).status == 200
        assert running.ask(path=f"/v1/conversations/{talk}", method="GET").status == 200


def shift(file: Path, seconds: int) -> None:
    """Shift every stored time, as if another clock had written it."""
    times = (("responses", "ended_at"), ("conversations", "changed_at"), ("store_time", "seconds"))
    with sqlite3.connect(file) as connection:
        for table, column in times:
            connection.execute(f"UPDATE {table} SET {column} = {column} + ?", (seconds,))
