"""deploy/penstock.service: systemd reads it, and its commands are run as systemd runs them."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY
from tests.deploy.units import unit
from tests.gateway.running import Running

UNIT = DEPLOY / "penstock.service"
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.deploy

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian: apt-get install systemd)"
)


@needs_systemd
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "penstock.service"
    file.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", f"{BIN}/penstock"))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True)
    about_it = [line for line in done.stderr.splitlines() if "penstock" in line]
    assert about_it == []
    file.write_text(file.read_text().replace("KillMode=mixed", "KillMode=mixt"))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True)
    assert "kill mode" in done.stderr, "mistakes are found"


@needs_systemd
def test_the_service_is_confined() -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:]


@contextmanager
def started(folder: Path, manager: socket.socket) -> Iterator[Running]:
    """Run what the unit starts, with its variables."""
    service = unit(UNIT)["Service"]
    [start] = service["ExecStart"]
    state = folder / "state"
    state.mkdir()
    words = shlex.split(start.replace("/opt/penstock/bin/penstock", f"{BIN}/penstock"))
    config = folder / "penstock.toml"
    config.write_text("[server]\nport = 0\n")
    words[words.index("/etc/penstock/penstock.toml")] = str(config)
    pairs = [pair.split("=", 1) for line in service["Environment"] for pair in line.split()]
    variables = {name: value.replace("/var/lib/penstock", str(state)) for name, value in pairs}
    variables["XDG_DATA_HOME"] = str(state)
    log = folder / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            words,
            cwd=state,
            env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(manager.getsockname()), **variables},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    try:
        status = manager.recv(4096).decode()
        assert status.startswith("READY=1\nSTATUS=ready at http://"), log.read_text()
        yield Running(process, status.rpartition(" ")[2], log)
    finally:
        process.kill()
        process.wait(30)


def test_the_commands_of_the_unit(tmp_path: Path) -> None:
    service = unit(UNIT)["Service"]
    assert service["Type"] == ["notify"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        with started(tmp_path, manager) as running:
            assert running.whole("demo", "Hello!").status == 200
            [reload] = service["ExecReload"]
            subprocess.run(shlex.split(reload.replace("$MAINPID", str(running.process.pid))), check=True)
            assert manager.recv(4096).startswith(b"RELOADING=1")
            assert manager.recv(4096) == b"READY=1"
            assert running.stop() == 0
            assert manager.recv(4096).startswith(b"STOPPING=1")
        [store] = (tmp_path / "state").rglob("responses.sqlite")
        assert store.parent.name == "penstock"
