"""A gateway with several worker processes: who answers, and what happens when one of them ends."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.gateway.server import ListeningSockets, listen
from penstock.gateway.settings import Settings
from penstock.gateway.workers import supervisor as module
from penstock.gateway.workers.supervisor import Stopped, supervise
from penstock.store.sqlite.socket_bus import bus_folder
from tests.client.server import in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.clients import TurnThread
from tests.gateway.configs import CONFIG
from tests.gateway.probes import has_logged, refuses, wait_for
from tests.gateway.running import Running, gateway, serve
from tests.gateway.upstream import ScriptedUpstream, begun, rest, until, until_gone
from tests.gateway.workers.processes import (
    answered_by,
    children_of,
    end,
    is_alive,
    sums,
    turns_counted,
    workers_of,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]

TWO = ("--workers", "2")


def until_both_answered(running: Running) -> int:
    """Run turns until each of two workers has answered one; return their number."""
    for count in range(1, 100):
        assert running.stream("demo", "Hi").last["status"] == "completed"
        if answered_by(running) == {1, 2}:
            return count
    raise AssertionError("one worker got no connection in 100")


def test_all_workers_answer_and_their_metrics_add_up(tmp_path: Path) -> None:
    with gateway(tmp_path, *TWO, "--metrics", "127.0.0.1:0") as running:
        assert len(workers_of(running)) == 2
        started = sums(running)["process_start_time_seconds"]
        count = until_both_answered(running)
        for _ in range(10):  # whichever worker is asked
            assert turns_counted(running) == count
            found = sums(running)
            assert found["penstock_turn_seconds_count"] == count
            assert found["penstock_workers"] == 2
            assert found["process_start_time_seconds"] == started
        (line,) = [line for line in running.log if line["message"].startswith("metrics are at")]
        address = line["message"].split("/")[2]
        connection = http.client.HTTPConnection(address)
        connection.request("GET", "/metrics")
        assert f"penstock_turn_seconds_count {count}\n" in connection.getresponse().read().decode()
        connection.close()


def test_a_response_of_one_worker_is_known_to_the_others(tmp_path: Path) -> None:
    with gateway(tmp_path, *TWO) as running:
        created = running.whole("demo", "Hi").json["id"]
        for _ in range(12):
            assert running.ask(path=f"/v1/responses/{created}", method="GET").json["status"] == "completed"


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_refused(tmp_path: Path) -> None:
    with gateway(tmp_path, *TWO, faults=("ended unexpectedly: killed by SIGKILL",)) as running:
        count = until_both_answered(running)
        wait_for(lambda: turns_counted(running) == count)  # so all of it was reported
        killed = workers_of(running)
        stopping = threading.Event()
        seen: list[float] = []
        failures: list[Exception] = []
        scraper = threading.Thread(target=_scrape, args=(running, stopping, seen, failures))
        scraper.start()
        for pid in killed:
            end(pid, signal.SIGKILL)
            wait_for_replacement(running, pid)
            wait_for(lambda: sums_or_nothing(running).get("penstock_workers") == 2)
        stopping.set()
        scraper.join()
        assert failures == [], "only a connection that was open at the moment may be lost"
        assert seen == sorted(seen), "counters never fall"
        assert seen[-1] >= count
        assert sums(running)["penstock_worker_crashes_total"] == 2
        assert running.stream("demo", "Hi").last["status"] == "completed"
        assert turns_counted(running) == count + 1
        folder = bus_folder(tmp_path / "store.sqlite")
        assert len([*folder.iterdir()]) == 4, "killed workers leave their sockets"
        assert running.stop() == 0
        assert not folder.exists()


def wait_for_replacement(running: Running, pid: int) -> None:
    wait_for(lambda: pid not in workers_of(running) and len(workers_of(running)) == 2)


def _scrape(
    running: Running, stopping: threading.Event, seen: list[float], failures: list[Exception]
) -> None:
    while not stopping.is_set():
        try:
            seen.append(turns_counted(running))
        except ConnectionRefusedError as error:
            failures.append(error)
        except (ConnectionError, http.client.HTTPException):
            pass  # it was open when its worker was killed


def sums_or_nothing(running: Running) -> dict[str, float]:
    try:
        return sums(running)
    except (ConnectionResetError, http.client.HTTPException):
        return {}


def test_sigterm_lets_running_turns_end_in_all_workers(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, *TWO, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("last", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
        turns = [TurnThread(running, "last") for _ in range(6)]
        wait_for(lambda: len(scripted.asked_for("last")) == 6)
        workers = workers_of(running)
        running.signal(signal.SIGTERM)
        for pid in workers:  # as systemd does it, for the whole control group
            end(pid, signal.SIGTERM)
        wait_for(lambda: refuses(running))
        opened.set()
        assert [turn.answer().text for turn in turns] == ["ab"] * 6
        assert running.process.wait(20) == 0
        assert not any(map(is_alive, workers))


def test_a_second_signal_stops_the_turns_of_all_workers(tmp_path: Path) -> None:
    gone = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, *TWO, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("endless", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
        turns = [TurnThread(running, "endless") for _ in range(6)]
        wait_for(lambda: len(scripted.asked_for("endless")) == 6)
        running.signal(signal.SIGINT)
        wait_for(lambda: refuses(running))
        running.signal(signal.SIGINT)
        assert {turn.answer().last["error"]["code"] for turn in turns} == {"shutting_down"}
        assert running.process.wait(20) == 0


def test_no_worker_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    faults = ("the supervisor has ended",)
    with (
        in_a_thread(scripted),
        gateway(tmp_path, *TWO, config=CONFIG.format(url=scripted.url), faults=faults) as running,
    ):
        scripted.play("last", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
        turn = TurnThread(running, "last")
        wait_for(lambda: scripted.asked_for("last"))
        workers = workers_of(running)
        running.process.kill()
        running.process.wait(10)
        wait_for(lambda: refuses(running))
        opened.set()
        assert turn.answer().text == "ab"
        wait_for(lambda: not any(map(is_alive, workers)))
        assert not bus_folder(tmp_path / "store.sqlite").exists()


def test_one_worker_that_gets_sigterm_drains_while_another_takes_its_place(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, *TWO, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("last", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
        turns = [TurnThread(running, "last") for _ in range(4)]
        wait_for(lambda: len(scripted.asked_for("last")) == 4)
        first = workers_of(running)
        for pid in first:
            end(pid, signal.SIGTERM)
        wait_for(lambda: len(set(workers_of(running)) - set(first)) == 2)
        assert running.stream("demo", "Hi").last["status"] == "completed"
        opened.set()
        assert [turn.answer().text for turn in turns] == ["ab"] * 4
        wait_for(lambda: not any(map(is_alive, first)))
        assert sums(running)["penstock_worker_crashes_total"] == 0


def test_sigusr2_replaces_all_workers_without_ending_a_turn(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, *TWO, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("last", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
        turns = [TurnThread(running, "last") for _ in range(4)]
        wait_for(lambda: len(scripted.asked_for("last")) == 4)
        old = workers_of(running)
        running.signal(signal.SIGUSR2)
        while not has_logged(running, "all workers were replaced"):
            assert running.stream("demo", "Hi").last["status"] == "completed", (
                "there is always a worker that accepts"
            )
        assert set(old) & set(workers_of(running)), "they wait for their turns"
        opened.set()
        assert [turn.answer().text for turn in turns] == ["ab"] * 4
        wait_for(lambda: len(workers_of(running)) == 2)
        assert not set(old) & set(workers_of(running))
        assert sums(running)["penstock_workers"] == 2


def test_changed_settings_reach_all_workers_and_are_logged_once(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    faults = ("ended unexpectedly", "the settings were not changed")
    with gateway(tmp_path, *TWO, config='[aliases]\nold = "demo"\n', faults=faults) as running:
        file.write_text('[aliases]\nnew = "demo"\n')
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "the settings were reloaded"))
        wait_for(lambda: all(_has_model(running, "new") for _ in range(20)))
        file.write_text('[aliases\nbroken = "demo"\n')  # noticed without a signal
        wait_for(lambda: has_logged(running, "the settings were not changed"))
        pid = workers_of(running)[0]
        end(pid, signal.SIGKILL)
        wait_for_replacement(running, pid)
        assert all(_has_model(running, "new") for _ in range(20)), "also a replacement has valid settings"
        for words in ("the settings were reloaded", "the settings were not changed"):
            assert len([line for line in running.log if words in line["message"]]) == 1


def _has_model(running: Running, name: str) -> bool:
    listed = running.ask(path="/v1/models", method="GET").json["data"]
    return name in [model["id"] for model in listed]


def test_a_worker_that_crashes_again_and_again_is_started_more_slowly(tmp_path: Path) -> None:
    faults = ("ended unexpectedly", "could not be started", "has failed 5 times in a row")
    with gateway(tmp_path, *TWO, faults=faults) as running:
        kept = workers_of(running)[1]
        while not has_logged(running, "has failed 5 times in a row"):
            for pid in set(workers_of(running)) - {kept}:
                end(pid, signal.SIGKILL)
        (line,) = [line for line in running.log if "in a row" in line["message"]]
        assert line["message"].endswith("of up to 30 s, while other workers serve")
        for _ in range(20):  # no connection waits for the one that is missing
            assert running.ask(path="/healthz", method="GET").status == 200


def test_a_worker_that_cannot_start_ends_the_start_with_one_message(tmp_path: Path) -> None:
    (tmp_path / "penstock.secret").touch(0o600)
    result = serve("--port", "0", *TWO, "--store", str(tmp_path / "store.sqlite"), folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("is empty: delete it, so that a new secret is created") == 1
    assert "Traceback" not in result.stderr


def test_a_store_in_use_ends_the_start(tmp_path: Path) -> None:
    with gateway(tmp_path, *TWO):
        result = serve("--port", "0", *TWO, "--store", str(tmp_path / "store.sqlite"), folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("another Penstock has this file open") == 1


def test_an_address_that_workers_use_is_in_use_for_others(tmp_path: Path) -> None:
    with gateway(tmp_path, *TWO) as running:
        port = str(running.address.port)
        result = serve("--port", port, *TWO, "--store", str(tmp_path / "other.sqlite"), folder=tmp_path)
    assert result.returncode == 2
    assert "in use" in result.stderr


def test_the_ready_file_is_written_when_all_workers_are_ready(tmp_path: Path) -> None:
    with gateway(tmp_path, "--workers", "3") as running:
        assert sums(running)["penstock_workers"] == 3
        assert running.stop() == 0
        assert os.listdir(tmp_path).count("ready") == 1


def test_a_worker_that_hangs_is_killed_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_SILENCE", 3)
    settings = Settings(store=str(tmp_path / "store.sqlite"), workers=2)
    kept: list[int] = []

    async def announce(*_: object) -> None:
        """Stop one worker, wait for its end, and stop the gateway."""
        try:
            stopped, other = children_of(os.getpid())
            kept.append(other)
            end(stopped, signal.SIGSTOP)
            async with asyncio.timeout(60):
                while stopped in (now := children_of(os.getpid())) or len(now) < 2:
                    await asyncio.sleep(0.05)
            assert other in now
        finally:
            end(os.getpid(), signal.SIGTERM)

    ended = supervise(
        settings,
        ListeningSockets(main=listen("127.0.0.1", 0)),
        own_url="",
        ready=lambda _: None,
        announce=announce,
        reload=lambda: settings,
        watch=None,
    )
    assert ended == Stopped(lost=0, crashed=0)
    assert kept
    assert "has not responded for 3 s and is killed" in caplog.text


def test_the_limit_of_running_turns_is_divided_among_the_workers(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), ExitStack() as stack:
        config = CONFIG.format(url=scripted.url).replace("retries = 0", "retries = 0\nmax_turns = 2")
        running = stack.enter_context(gateway(tmp_path, *TWO, config=config))
        scripted.play("held", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
        turns = [stack.enter_context(running.live("held")) for _ in range(8)]
        statuses = [turn.status for turn in turns]
        opened.set()
        assert 1 <= statuses.count(200) <= 2
        assert set(statuses) == {200, 503}
