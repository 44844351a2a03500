"""Clients that send or read slowly, never finish, or are very many."""

from __future__ import annotations

import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.probes import connections, wait_for
from tests.gateway.raw_sockets import (
    answer,
    connect,
    everything,
    flood,
    frame,
    head,
    is_closed,
    post,
    turn,
    upgrade,
)
from tests.hardening.attacked import HARMLESS, MIB, Attacked, attacked, error_of

pytestmark = pytest.mark.hardening

START = """
import runpy, sys
from penstock.net.server import connection, websocket
{patch}
sys.argv = sys.argv[3:]
runpy.run_module("penstock", run_name="__main__", alter_sys=True)
"""
IMPATIENT = """
connection.HEAD_SECONDS = connection.STALLED_MARGIN = 1.0
connection.IDLE_SECONDS = 2.0
websocket.PING_SECONDS = websocket.CLOSE_SECONDS = 1.0
"""
FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))"


def started(patch: str) -> tuple[str, ...]:
    return (sys.executable, "-c", START.format(patch=patch))


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A gateway with deadlines of a second or two instead of 30 and more."""
    folder = tmp_path_factory.mktemp("impatient")
    with attacked(folder, client_timeout=1, through=started(IMPATIENT)) as running:
        yield running


SLOW = {
    "a head": (b"", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x: y\r\n" * 5000),
    "a body": (post(b"x" * 10_000)[:-10_000], b"x" * 10_000),
    "chunks": (head("POST /v1/responses HTTP/1.1", "transfer-encoding: chunked"), b"1\r\nx\r\n" * 5000),
    "a second head": (head("GET /healthz HTTP/1.1"), b"GET /healthz HTTP/1.1\r\n" + b"x: y\r\n" * 5000),
}


@pytest.mark.parametrize(("begin", "rest"), SLOW.values(), ids=SLOW)
def test_a_client_that_sends_byte_by_byte_is_disconnected(
    impatient: Attacked, begin: bytes, rest: bytes
) -> None:
    """However regularly its bytes come. Others are served meanwhile."""
    client = connect(impatient.running, begin)
    client.settimeout(0.05)
    answered, sent, is_open = b"", 0, True
    while is_open:
        assert sent < len(rest)
        try:
            client.send(rest[sent : sent + 1])
            sent += 1
            received = client.recv(65536)
            answered, is_open = answered + received, bool(received)
        except TimeoutError:
            pass
        except OSError:
            is_open = False
        if sent == 5:
            assert impatient.is_unharmed()
    if begin.startswith(b"POST"):
        assert b"HTTP/1.1 408 " in answered
        assert b'"request_timeout"' in answered
    assert impatient.is_unharmed()


NEVER = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nx: ",
    "half a body": post(b"{}")[:-1],
    "half a chunk": head("POST /v1/responses HTTP/1.1", "transfer-encoding: chunked") + b"5\r\nab",
    "a WebSocket without pongs": upgrade(),
    "half a frame": upgrade(),
    "an answer and nothing more": head("GET /healthz HTTP/1.1"),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_client_that_never_comes_to_an_end_is_disconnected(impatient: Attacked, name: str) -> None:
    client = connect(impatient.running, NEVER[name])
    if name == "half a frame":
        assert client.recv(65536).startswith(b"HTTP/1.1 101")
        client.sendall(frame(b"x" * 100)[:50])
    assert is_closed(client)
    assert impatient.is_unharmed()


def test_a_client_that_does_not_answer_the_end_of_its_websocket_is_disconnected(impatient: Attacked) -> None:
    client = connect(impatient.running, upgrade())
    client.recv(65536)
    client.sendall(frame(b"\xff\xfe", 1))
    assert is_closed(client)
    assert impatient.is_unharmed()


def test_a_client_that_never_reads_is_disconnected_and_costs_little(impatient: Attacked) -> None:
    """Neither its pipelined requests nor the answers to them fill the memory."""
    memory = impatient.memory()
    clients = [connect(impatient.running, buffer=8192) for _ in range(20)]
    for client in clients:
        flood(client, head("GET /v1/models HTTP/1.1") * 400, 2 * MIB, patience=0.1)
    assert impatient.is_unharmed()
    wait_for(lambda: connections(impatient.running) == 0)
    assert memory.peak() < 60 * MIB


def test_a_websocket_frame_byte_by_byte_is_a_message_in_the_end(gateway: Attacked) -> None:
    client = connect(gateway.running, upgrade())
    client.recv(65536)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in frame(b'{"type": "response.create", "model": "harmless", "input": "x"}'):
        client.sendall(bytes([byte]))
    data = b""
    while b"response.completed" not in data:
        data += client.recv(65536)
    assert b"as always" in data
    assert gateway.is_unharmed()


# Very many


def idle_clients(attacked: Attacked, count: int) -> list[socket.socket]:
    """Connections from several addresses, each of which has only so many ports."""
    address = (attacked.running.address.hostname, attacked.running.address.port)
    clients = []
    for number in range(count):
        client = socket.socket()
        client.bind((f"127.0.0.{2 + number % 8}", 0))
        client.settimeout(20)
        client.connect(address)
        clients.append(client)
    return clients


def test_ten_thousand_idle_connections_cost_little_and_end(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = 10_000 if hard == resource.RLIM_INFINITY else min(10_000, hard - 1000)
    patch = "connection.HEAD_SECONDS = 60.0; connection.IDLE_SECONDS = 2.0"
    try:
        with attacked(tmp_path, limits=f"connections = {count + 100}", through=started(patch)) as crowded:
            assert crowded.is_unharmed()
            memory = crowded.memory()
            clients = idle_clients(crowded, count)
            assert crowded.is_unharmed()
            assert connections(crowded.running) >= count
            each = memory.peak() / count
            print(f"{count} idle connections of {each:.0f} bytes each")
            assert each < 16 * 1024
            for client in clients:  # now their deadline is the one after a response
                client.sendall(head("GET /healthz HTTP/1.1"))
            wait_for(lambda: connections(crowded.running) == 0)
            assert crowded.is_unharmed()
            for client in clients:
                client.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_connection_that_is_idle_for_longest_is_closed_for_a_new_one(tmp_path: Path) -> None:
    with attacked(tmp_path, limits="connections = 20") as small:
        clients = [connect(small.running, head("GET /healthz HTTP/1.1")) for _ in range(20)]
        assert [answer(client).status for client in clients] == [200] * 20
        clients[0].sendall(head("GET /healthz HTTP/1.1"))
        assert answer(clients[0]).status == 200
        assert small.is_unharmed()
        assert is_closed(clients[1])
        clients[0].sendall(head("GET /healthz HTTP/1.1"))
        assert answer(clients[0]).status == 200


def test_if_all_connections_are_busy_a_request_is_refused(tmp_path: Path) -> None:
    with attacked(tmp_path, limits="connections = 5") as small:
        sockets = [connect(small.running, upgrade()) for _ in range(5)]
        assert all(client.recv(65536).startswith(b"HTTP/1.1 101") for client in sockets)
        reply = answer(connect(small.running, turn(HARMLESS)))
        assert (reply.status, reply.error["code"]) == (503, "server_is_overloaded")
        assert reply.headers["retry-after"]
        assert "limits.connections" in error_of(reply.body)["message"]
        for client in sockets:
            client.close()
        wait_for(lambda: connections(small.running) < 5)
        assert small.is_unharmed()


def test_at_the_limit_of_open_files_turns_go_on(tmp_path: Path) -> None:
    """By default, connections get at most half of them: the other half is for upstreams and the store."""
    with attacked(tmp_path, through=started(FEW_FILES)) as poor:
        clients = [connect(poor.running) for _ in range(400)]
        assert poor.is_unharmed()
        used = cpu_ticks(poor)
        time.sleep(0.5)
        assert cpu_ticks(poor) - used < 25  # it does not spin
        for client in clients:
            client.close()
        assert poor.is_unharmed()


def test_without_free_files_it_neither_dies_nor_spins(tmp_path: Path) -> None:
    """If more connections are allowed than the system has files, new ones wait or are closed."""
    faults = "cannot be read: Too many open files"
    with attacked(
        tmp_path, limits="connections = 1000", through=started(FEW_FILES), faults=(faults,)
    ) as poor:
        clients = [connect(poor.running) for _ in range(200)]
        wait_for(lambda: open_files(poor) >= 118)
        used = cpu_ticks(poor)
        time.sleep(0.5)
        assert cpu_ticks(poor) - used < 25
        for client in clients:
            client.close()
        wait_for(lambda: open_files(poor) < 60)
        assert b"200" in everything(connect(poor.running, head("GET /healthz HTTP/1.1", "connection: close")))
        assert poor.turn(HARMLESS)[0] == 200


def cpu_ticks(attacked: Attacked) -> int:
    """Hundredths of a second that the process has used."""
    fields = Path(f"/proc/{attacked.running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def open_files(attacked: Attacked) -> int:
    return len(list(Path(f"/proc/{attacked.running.process.pid}/fd").iterdir()))
