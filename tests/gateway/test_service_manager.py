"""What systemd learns from a gateway, at a socket like its own."""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.gateway import service_manager
from tests.gateway.running import gateway


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(20)
        yield listening


def message(manager: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract sockets")
def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(b"\0penstock-notify")
        listening.settimeout(5)
        service_manager.tell_ready("http://x", {"NOTIFY_SOCKET": "@penstock-notify"})
        assert message(listening) == {"READY": "1", "STATUS": "ready at http://x"}


@pytest.mark.parametrize("where", ["", "relative", "/nobody/listens", "/\0"])
def test_without_a_service_manager_nothing_happens(where: str) -> None:
    service_manager.tell_stopping({"NOTIFY_SOCKET": where})


def test_a_service_manager_that_reads_nothing_does_not_block(manager: socket.socket, tmp_path: Path) -> None:
    for _ in range(1000):
        service_manager.tell_reloaded({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    assert message(manager) == {"READY": "1"}


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [1, 2])
def test_a_gateway_tells_when_it_is_ready_reloads_and_stops(
    manager: socket.socket, tmp_path: Path, workers: int
) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    options = ("--workers", str(workers))
    with gateway(tmp_path, *options, config="[limits]\nretries = 1\n", environment=environment) as running:
        assert message(manager) == {"READY": "1", "STATUS": f"ready at {running.url}"}
        running.signal(signal.SIGHUP)
        reloading = message(manager)
        assert reloading.keys() == {"RELOADING", "MONOTONIC_USEC"}
        assert re.fullmatch(r"\d+", reloading["MONOTONIC_USEC"])
        assert message(manager) == {"READY": "1"}
        assert running.stop() == 0
        assert message(manager)["STOPPING"] == "1"
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(1)
