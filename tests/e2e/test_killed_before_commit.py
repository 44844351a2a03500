"""Uncommitted data is not reported as stored: the gateway killed at the worst moment (decision 17)."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.stream.recovery import RESTARTED
from tests.client.server import chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.e2e.gateway_setup import FILE, started
from tests.e2e.load_clients import Ledger
from tests.e2e.restart_checks import Check
from tests.gateway.probes import wait_for
from tests.gateway.running import Json, Live, Running
from tests.gateway.upstream import ScriptedUpstream, begun, frames, rest, until

pytestmark = pytest.mark.e2e

HALF = chat_chunk({"content": "half"})


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Lock the database, so that nothing is committed."""
    stranger = sqlite3.connect(file, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        stranger.close()


def id_in(live: Live) -> str:
    live.until(b"response.in_progress")
    return live.body.partition(b'"id":"')[2].partition(b'"')[0].decode()


def events_in_the_file(file: Path, id: str) -> int:
    """Return the number of stored events of a response."""
    reader = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    query = (
        "SELECT coalesce(max(last), -1) + 1 FROM events JOIN responses ON events.response = responses.number "
        "WHERE responses.id = ?"
    )
    try:
        count: int = reader.execute(query, (id,)).fetchone()[0]
        return count
    finally:
        reader.close()


def diagnostics(response: Json) -> list[str]:
    return [each["code"] for each in response.get("diagnostics") or []]


def test_an_end_that_is_not_committed_is_marked(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    """For the client itself, for one that polls, and for one that resumes the stream."""
    opened, file = threading.Event(), tmp_path / FILE
    model = upstream.play("late", [*begun(HALF), until(opened), rest("whole")])
    with started(tmp_path, upstream) as running, running.live(model) as live:
        id = id_in(live)
        queued = running.whole(model, background=True).json["id"]
        wait_for(lambda: events_in_the_file(file, id) and events_in_the_file(file, queued))
        with locked(file):
            opened.set()
            wait_for(lambda: get(running, queued)["status"] == "completed")
            answers = [live.rest().last, get(running, id), get(running, queued), streamed_again(running, id)]
            running.process.kill()
            running.process.wait()
    assert [(each["status"], diagnostics(each)) for each in answers] == [("completed", ["store_late"])] * 4
    with started(tmp_path, upstream) as running:
        assert [get(running, each)["error"]["code"] for each in (id, queued)] == [RESTARTED, RESTARTED]


def get(running: Running, id: str) -> Json:
    found: Json = running.ask(path=f"/v1/responses/{id}", method="GET").json
    return found


def streamed_again(running: Running, id: str) -> Json:
    return running.ask(path=f"/v1/responses/{id}?stream=true", method="GET").last


def test_a_client_that_received_more_than_is_stored_gets_the_end(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    opened, file = threading.Event(), tmp_path / FILE
    more = send(chunk(frames(*[HALF] * 9, done=False)))
    model = upstream.play("ahead", [*begun(HALF), until(opened), more, until(threading.Event())])
    with started(tmp_path, upstream) as running, running.live(model) as live:
        id = id_in(live)
        wait_for(lambda: events_in_the_file(file, id) > 4)
        left = events_in_the_file(file, id)
        with locked(file):
            opened.set()
            live.until(b"event: response.output_text.delta", 10)
            running.process.kill()
            running.process.wait()
    received = live.body.count(b"\nevent: ") + 1
    assert received > left + 2
    with started(tmp_path, upstream) as running:
        check = Check(running, Ledger())
        end = len(check.stream(id)) - 1
        for after in range(left - 2, received):
            events = [json.loads(data) for data in check.stream(id, after)]
            assert [event["type"] for event in events][-1:] == ["response.failed"]
            numbers = [event["sequence_number"] for event in events]
            assert numbers == list(range(after + 1, max(end, after + 1) + 1))
        check.close()
