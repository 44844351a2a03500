"""`penstock replay` as a process, on recordings of a real gateway."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.cli import OK, PROBLEM, USAGE
from penstock.sse import Decoder
from penstock.store.packing import pack_traces, unpack_traces
from tests.cli.running import penstock
from tests.gateway.running import Reply, Running, gateway

pytestmark = pytest.mark.e2e

PROMPT = "say exactly: hello to the world"


class Recorded:
    """A recorded response in the store of a gateway, which may be running."""

    def __init__(self, store: Path, reply: Reply) -> None:
        self.store, self.reply = str(store), reply
        self.id: str = reply.last["id"]

    def export(self, folder: Path) -> Path:
        path = folder / "recorded.jsonl"
        assert penstock("store", "export", self.id, "--store", self.store, "-o", str(path)).returncode == OK
        return path

    def record(self, folder: Path) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.export(folder).read_text())
        return record


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Running]]:
    folder = tmp_path_factory.mktemp("recording")
    with gateway(folder, "--record") as running:
        yield folder / "store.sqlite", running


@pytest.fixture(scope="module")
def recorded(running: tuple[Path, Running]) -> Recorded:
    store, started = running
    return Recorded(store, started.stream("demo", PROMPT))


def write(folder: Path, *records: Any) -> str:
    path = folder / "changed.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return str(path)


def with_a_read_changed(record: dict[str, Any], old: bytes, new: bytes) -> dict[str, Any]:
    reads = [trace for trace in record["traces"] if trace["kind"] == "read" and "base64" in trace]
    changed = 0
    for trace in reads:
        data = base64.b64decode(trace["base64"])
        changed += data.count(old)
        trace["base64"] = base64.b64encode(data.replace(old, new)).decode()
    assert changed
    return record


def test_a_recorded_response_is_the_same(recorded: Recorded) -> None:
    result = penstock("replay", recorded.id, "--store", recorded.store)
    assert (result.returncode, result.stderr) == (OK, "")
    assert result.stdout == f"{recorded.id}  the same: {len(recorded.reply.events)} events\n"


def test_an_exported_file_needs_no_store(recorded: Recorded, tmp_path: Path) -> None:
    path = recorded.export(tmp_path)
    result = penstock("replay", str(path), XDG_DATA_HOME=str(tmp_path / "nowhere"))
    assert (result.returncode, "the same" in result.stdout) == (OK, True)
    piped = penstock("replay", "-", stdin=path.read_bytes())
    assert piped.stdout == result.stdout


def test_a_changed_byte_in_an_exported_file_is_a_difference(recorded: Recorded, tmp_path: Path) -> None:
    changed = with_a_read_changed(recorded.record(tmp_path), b"world", b"wprld")
    result = penstock("replay", write(tmp_path, changed))
    assert result.returncode == PROBLEM
    assert "different: 1 difference in" in result.stdout
    assert "response.output_text.delta, item 0 (message): delta" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["before", "hello", "to", "the", "world"] in lines
    assert ["now", "hello", "to", "the", "wprld"] in lines
    assert "and in 4 more places" in result.stdout


def test_a_changed_byte_in_the_store_is_a_difference(recorded: Recorded, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(recorded.store)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        for number, data in target.execute("SELECT number, data FROM traces").fetchall():
            traces = [
                replace(trace, data=trace.data.replace(b"world", b"wprld")) if trace.kind == "read" else trace
                for trace in unpack_traces(data)
            ]
            target.execute("UPDATE traces SET data = ? WHERE number = ?", (pack_traces(traces), number))
        target.commit()
    result = penstock("replay", recorded.id, "--store", str(copy))
    assert (result.returncode, "wprld" in result.stdout) == (PROBLEM, True)


def test_json_has_every_difference(recorded: Recorded, tmp_path: Path) -> None:
    changed = with_a_read_changed(recorded.record(tmp_path), b"world", b"wprld")
    result = penstock("replay", "--json", write(tmp_path, changed))
    found = json.loads(result.stdout)
    assert (found["id"], found["same"], found["partial"], found["attempts"]) == (recorded.id, False, False, 1)
    assert found["request_differences"] == []
    (only,) = found["differences"]
    assert (only["before"], only["now"], only["more"]) == ("hello to the world", "hello to the wprld", 4)
    assert (
        json.loads(penstock("replay", "--json", recorded.id, "--store", recorded.store).stdout)["same"]
        is True
    )


def test_a_changed_request_is_reported_by_its_field(recorded: Recorded, tmp_path: Path) -> None:
    record = recorded.record(tmp_path)
    request = next(trace for trace in record["traces"] if trace["kind"] == "request")
    request["data"]["body"]["invented"] = [1, 2]
    result = penstock("replay", write(tmp_path, record))
    assert result.returncode == PROBLEM
    assert "request 1, demo at demo: invented" in result.stdout
    assert ["before", "[1,", "2]"] in [line.split() for line in result.stdout.splitlines()]


def test_events_prints_the_new_stream_and_it_is_lawful(recorded: Recorded) -> None:
    result = penstock("replay", "--events", recorded.id, "--store", recorded.store)
    assert "the same" in result.stderr
    decoder = Decoder()
    frames = decoder.feed(result.stdout.encode()) + decoder.end()
    assert [frame.event for frame in frames[:-1]] == recorded.reply.types
    assert frames[-1].data == "[DONE]"
    assert penstock("check", "-", stdin=result.stdout.encode()).returncode == OK


def test_every_response_of_a_file_is_replayed_and_the_worst_result_counts(
    running: tuple[Path, Running], recorded: Recorded, tmp_path: Path
) -> None:
    other = Recorded(running[0], running[1].stream("demo", "say exactly: something else"))
    good = other.record(tmp_path)
    wrong = with_a_read_changed(recorded.record(tmp_path), b"world", b"wprld")
    conversation = {"object": "penstock.conversation", "id": "conv_1", "items": []}
    result = penstock("replay", write(tmp_path, conversation, wrong, good))
    assert result.returncode == PROBLEM
    assert f"{recorded.id}  different" in result.stdout
    assert f"{other.id}  the same" in result.stdout


def test_a_cancelled_response_says_how_far_it_was_compared(running: tuple[Path, Running]) -> None:
    store, started = running
    with started.live("demo", "write 2000 words at 5 words per second") as live:
        live.until(b"response.output_text.delta")
        id = live.body.partition(b'"id":"')[2].partition(b'"')[0].decode()
        started.ask(path=f"/v1/responses/{id}/cancel")
        live.rest()
    result = penstock("replay", id, "--store", str(store))
    assert result.returncode == OK
    assert "compared up to where the turn was stopped: the response was cancelled" in result.stdout


# What cannot be replayed


def test_without_a_recording_the_advice_is_to_record(tmp_path: Path) -> None:
    with gateway(tmp_path) as started:
        id = started.stream("demo", PROMPT).last["id"]
        result = penstock("replay", id, "--store", str(tmp_path / "store.sqlite"))
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert "start the gateway with --record" in result.stderr


def test_the_setting_records_like_the_option(tmp_path: Path) -> None:
    with gateway(tmp_path, config="[server]\nrecord = true\n") as started:
        id = started.stream("demo", PROMPT).last["id"]
        result = penstock("replay", id, "--store", str(tmp_path / "store.sqlite"))
    assert (result.returncode, "the same" in result.stdout) == (OK, True)


def test_an_unknown_id_is_neither_a_file_nor_a_response(recorded: Recorded) -> None:
    result = penstock("replay", "resp_nobody", "--store", recorded.store)
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert "there is no file resp_nobody, and no such response" in result.stderr


@pytest.mark.parametrize("line", ["no json", "[1]", "{}", '"text"', "7"])
def test_another_file_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(f"{line}\n")
    result = penstock("replay", str(path))
    assert result.returncode == USAGE
    assert f"{path}:1: this line was not written by penstock store export" in result.stderr


def test_a_file_without_responses_is_refused(tmp_path: Path) -> None:
    result = penstock("replay", write(tmp_path, {"object": "penstock.conversation"}))
    assert (result.returncode, "contains no response" in result.stderr) == (USAGE, True)


DAMAGES: dict[str, Any] = {
    "without events": {"events": None},
    "without traces": {"traces": [{"kind": "read"}]},
    "with a trace that is none": {"traces": [{"kind": "plan", "time": 0, "size": 0, "data": {"request": 5}}]},
    "with bytes that are none": {"traces": [{"kind": "read", "time": 0, "size": 1, "base64": 5}]},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_recording_is_reported_in_one_sentence(
    damage: str, recorded: Recorded, tmp_path: Path
) -> None:
    record = {**recorded.record(tmp_path), **DAMAGES[damage]}
    result = penstock("replay", write(tmp_path, record))
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert "the recording is damaged" in result.stderr
