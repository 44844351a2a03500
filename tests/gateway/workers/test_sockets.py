"""The sockets of workers: connections are divided, and no other gateway can use the address."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress

import pytest

from penstock.gateway.server import CannotListen, listen
from penstock.gateway.workers.sockets import WorkerSockets

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="SO_REUSEPORT balances on Linux only")


@linux_only
def test_connections_are_divided_among_all_sockets() -> None:
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    sockets = WorkerSockets(listening)
    for number in (1, 2):
        sockets.of(number).listen(200)
        sockets.of(number).setblocking(False)
    clients = [socket.create_connection(address) for _ in range(100)]
    got = [_accept_all(sockets.of(number)) for number in (1, 2)]
    assert sum(got) == 100
    assert min(got) > 10, "each would have less only once in many billion runs"
    for client in clients:
        client.close()
    sockets.close_all()


def _accept_all(listening: socket.socket) -> int:
    count = 0
    with suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count


@linux_only
def test_a_worker_gets_no_connections_before_it_listens_or_after_its_socket_is_closed() -> None:
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    sockets = WorkerSockets(listening)
    sockets.of(2)
    sockets.of(1).listen()
    _connect_20_times(address, sockets.of(1))
    sockets.of(2).listen()
    sockets.close(1)
    _connect_20_times(address, sockets.of(2))
    assert sockets.of(1).getsockname() == address, "it is opened again"
    sockets.close_all()


def _connect_20_times(address: tuple[str, int], expected: socket.socket) -> None:
    expected.settimeout(5)
    for _ in range(20):
        socket.create_connection(address).close()
        expected.accept()[0].close()


@pytest.mark.parametrize("has_balancing", [False, pytest.param(True, marks=linux_only)])
def test_another_gateway_cannot_use_the_address(has_balancing: bool) -> None:
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    sockets = WorkerSockets(listening, has_balancing=has_balancing)
    sockets.of(1).listen()
    with pytest.raises(CannotListen):
        listen("127.0.0.1", port)
    sockets.close_all()
    listen("127.0.0.1", port).close()


def test_without_balancing_all_workers_share_the_socket() -> None:
    with listen("127.0.0.1", 0) as listening:
        sockets = WorkerSockets(listening, has_balancing=False)
        assert sockets.of(1) is sockets.of(2) is listening
        sockets.close(1)
        assert listening.fileno() > 0, "the others still need it"
