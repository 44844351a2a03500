"""SIGHUP: the settings are read again while the gateway runs."""

from __future__ import annotations

import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.client.server import in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.clients import TurnThread
from tests.gateway.configs import CONFIG
from tests.gateway.probes import has_logged, wait_for
from tests.gateway.raw_sockets import connect, everything, turn
from tests.gateway.running import Running, gateway
from tests.gateway.upstream import (
    ScriptedUpstream,
    begun,
    rest,
    said,
    streamed,
    until,
)


@pytest.mark.e2e
def test_a_stream_survives_two_changes_of_the_settings(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("m", [*begun(chat_chunk({"content": "o"})), until(opened), rest("ld")])
        turn = TurnThread(running, "m")
        wait_for(lambda: scripted.asked_for("m"))
        first = CONFIG.format(url=scripted.url).replace("retries = 0", "retries = 1")
        for times, config in enumerate((first, first + "idle_timeout = 5\n"), 1):
            (tmp_path / "penstock.toml").write_text(config)
            running.signal(signal.SIGHUP)
            wait_for(partial(has_read_again, running, times))
        opened.set()
        assert turn.answer().text == "old"


def has_read_again(running: Running, times: int) -> bool:
    return sum("the settings were reloaded" in line["message"] for line in running.log) == times


@pytest.mark.e2e
def test_a_request_that_is_still_coming_follows_the_new_settings(tmp_path: Path) -> None:
    old, new = ScriptedUpstream(), ScriptedUpstream()
    with in_a_thread(old), in_a_thread(new), gateway(tmp_path, config=CONFIG.format(url=old.url)) as running:
        new.play("m", streamed(*said("new")))
        sent = turn("m", "connection: close", stream=False)
        client = connect(running, sent[:-10])
        time.sleep(0.2)
        (tmp_path / "penstock.toml").write_text(CONFIG.format(url=new.url))
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "the last turn under the old settings"))
        client.sendall(sent[-10:])
        assert b'"text":"new"' in everything(client)


@pytest.mark.e2e
def test_a_reload_that_cannot_work_changes_nothing_and_says_why(tmp_path: Path) -> None:
    with gateway(tmp_path, config="[aliases]\nfast = 'demo'\n") as running:
        (tmp_path / "penstock.toml").write_text("[server]\nhost = '0.0.0.0'\n")
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "the settings were not changed"))
        assert running.whole("demo").status == 200


@pytest.mark.e2e
def test_sighup_reads_the_settings_again_and_drops_no_stream(tmp_path: Path) -> None:
    opened = threading.Event()
    old, new = ScriptedUpstream(), ScriptedUpstream()
    with in_a_thread(old), in_a_thread(new), gateway(tmp_path, config=CONFIG.format(url=old.url)) as running:
        old.play("m", [*begun(chat_chunk({"content": "o"})), until(opened), rest("ld")])
        new.play("m", streamed(*said("new")))
        turn = TurnThread(running, "m")
        wait_for(lambda: old.asked_for("m"))
        (tmp_path / "penstock.toml").write_text(CONFIG.format(url=new.url))
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "the settings were reloaded"))
        assert running.stream("m").text == "new"
        opened.set()
        assert turn.answer().text == "old"
        wait_for(lambda: has_logged(running, "the last turn under the old settings has ended"))


@pytest.mark.e2e
def test_a_wrong_file_changes_nothing_and_the_log_says_what_is_wrong(tmp_path: Path) -> None:
    with gateway(tmp_path, config='[aliases]\nfast = "demo"\n') as running:
        assert running.stream("fast").last["status"] == "completed"
        (tmp_path / "penstock.toml").write_text('[aliases]\nfast = "nobody"\n')
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "penstock.toml:2"))
        assert running.stream("fast").last["status"] == "completed"
