"""`penstock serve`: options, the ready message, the ready file and the exit code. The server is replaced."""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import OK, PROBLEM, UsageError, build_parser, serve
from penstock.errors import StoreError
from penstock.gateway import server
from penstock.gateway.config.file import load_settings
from penstock.gateway.server import ListeningSockets
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry import logs
from penstock.store.contract import Store
from penstock.store.memory import MemoryStore


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(logs, "set_up", lambda _level, **_options: None)
    monkeypatch.setattr(sys, "argv", ["penstock", "serve"])


def options(*arguments: str) -> argparse.Namespace:
    return build_parser("serve").parse_args(["serve", *arguments])


Announce = Callable[[str, Settings, Store], Coroutine[Any, Any, None]]


class FakeServer:
    """Replaces `gateway.server.run`: reports to be ready, and returns ids of responses that were lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lost: str, error: Exception | None = None) -> None:
        self.url, self.reloaded, self._lost, self._error = "", None, [*lost], error
        monkeypatch.setattr(server, "run", self)

    def __call__(
        self,
        _open: object,
        sockets: ListeningSockets,
        *,
        ready: Callable[[str], None],
        announce: Announce,
        reload: Callable[[], Any],
        watch: Path | None,
    ) -> list[str]:
        assert sockets.own is None, "there is no TLS"
        assert sockets.metrics is None
        self.watched = watch
        with sockets.main:
            self.url = f"http://127.0.0.1:{sockets.main.getsockname()[1]}"
            if self._error is not None:
                raise self._error
            ready(self.url)
            asyncio.run(self._announce(announce))
            self.reloaded = reload()
            return self._lost

    async def _announce(self, announce: Announce) -> None:
        settings = load_settings(Path("penstock.toml"), {}) if Path("penstock.toml").exists() else Settings()
        await announce(self.url, settings, MemoryStore())


def test_the_first_line_is_the_url_alone_and_the_banner_follows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("penstock.toml").write_text('[server]\nstore = "none"\n')
    fake = FakeServer(monkeypatch)
    assert serve.run(options("--port", "0")) == OK
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"Penstock is ready at {fake.url}/v1"
    assert "  settings  ~/penstock.toml" in others
    assert "  store     in memory: responses are lost when the gateway stops" in others
    assert f"  curl -sN {fake.url}/v1/responses \\" in others
    assert f"  penstock chat --base-url {fake.url}/v1 --model demo" in others


def test_the_ready_file_has_the_url_and_an_old_one_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "ready"
    file.write_text("http://old\n")
    fake = FakeServer(monkeypatch)
    serve.run(options("--port", "0", "--ready-file", str(file)))
    assert file.read_text() == f"{fake.url}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]
    file.write_text("http://old\n")
    FakeServer(monkeypatch, error=StoreError("store.sqlite", "the disk is full"))
    with pytest.raises(UsageError, match=r"--store: .*the disk is full"):
        serve.run(options("--port", "0", "--ready-file", str(file)))
    assert not file.exists()


def test_responses_that_could_not_be_stored_end_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    FakeServer(monkeypatch, "resp_1", "resp_2")
    assert serve.run(options("--port", "0")) == PROBLEM
    assert "2 responses could not be written to the store: the log lists them" in capsys.readouterr().err


def test_a_reload_applies_the_options_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("penstock.toml").write_text('[server]\nlog_level = "error"\n')
    fake = FakeServer(monkeypatch)
    serve.run(options("--port", "0", "--log-level", "debug"))
    assert fake.reloaded is not None
    assert fake.reloaded.log_level == "debug"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "key"),
        (["--preset", "opnai"], "openai"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
        (
            ["--workers", "2", "--store", "none"],
            "--workers 2: with --store none, a response would be known to",
        ),
        (["--workers", "auto", "--store", "none"], "--workers auto: with --store none"),
    ],
)
def test_wrong_options_are_reported_before_the_server_starts(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    fake = FakeServer(monkeypatch)
    with pytest.raises(UsageError, match=message):
        serve.run(options(*arguments))
    assert fake.url == ""


def test_a_ready_file_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unused = socket.socket()
    monkeypatch.setattr(server, "listen", lambda *_: unused)
    with unused, pytest.raises(UsageError, match="--ready-file: cannot write no/such/file: No such file"):
        serve.run(options("--ready-file", "no/such/file"))


def test_a_port_in_use_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeServer(monkeypatch)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(UsageError, match=r"\d: Address already in use\. Is another gateway running"):
            serve.run(options("--port", port))


@pytest.mark.parametrize("text", ["x", "-1", "65536", ""])
def test_a_port_is_a_number_up_to_65535(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(f"--port={text}")
    assert f"{text!r} is not a port: use a number from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "257", "-1", "two", "1.5", ""])
def test_the_number_of_workers_is_checked(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(f"--workers={text}")
    assert f"{text!r} is not a number of workers: use a number from 1 to 256" in capsys.readouterr().err


def test_workers_are_refused_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UsageError, match="--workers: Windows has no workers; start one gateway"):
        serve.run(options("--port", "0", "--workers", "2"))


def test_a_worker_without_a_supervisor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_WORKER", "none")
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # a worker ignores Ctrl-C, tests do not
    with pytest.raises(UsageError, match="only `penstock serve --workers` starts workers"):
        serve.run(options())
