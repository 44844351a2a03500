"""The load generator accepts what is complete and refuses what is not, whatever the transport."""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.lab.bodies import body_for
from bench.lab.instruments import build, certificate, family, load, memory_kb, upstream

from bench.lab import servers

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b"
CREATED = ("response.created", "")
TEXT = ("response.output_text.delta", '"delta":" the"')
COMPLETED = ("response.completed", "")


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build()


def stream(*events: tuple[str, str], numbers: list[int] | None = None) -> bytes:
    data = ""
    for number, (type, fields) in zip(numbers or range(len(events)), events, strict=True):
        more = f",{fields}" if fields else ""
        data += f'event: {type}\ndata: {{"type":"{type}","sequence_number":{number}{more}}}\n\n'
    return HEAD % (len(data), data.encode())


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Answer one request with these bytes."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)
            connection.recv(1)  # until the client hangs up

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (stream(CREATED, TEXT, COMPLETED), ""),
        (stream(CREATED, TEXT), "no terminal event"),
        (stream(CREATED, COMPLETED), "text is missing"),
        (stream(CREATED, TEXT, TEXT, COMPLETED), "text differs"),
        (stream(CREATED, TEXT, COMPLETED, COMPLETED), "an event after the terminal event"),
        (stream(CREATED, TEXT, COMPLETED, numbers=[0, 2, 3]), "out of order"),
        (stream(CREATED, TEXT, ("response.failed", "")), "failed"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}", "HTTP"),
    ],
)
def test_only_a_complete_stream_is_good(answer: bytes, error: str) -> None:
    with answering(answer) as port:
        run = load(port, [], "fake-c1", body_for("fake-c1"), "-X", 5)
    assert run.first_error.partition(":")[0] == error
    assert (run.good, run.lost) == ((0, 1) if error else (1, 0))


def test_a_stream_that_stops_in_the_middle_is_unfinished() -> None:
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n") as port:
        run = load(port, [], "fake-c1", body_for("fake-c1"), "-X", 1)
    assert (run.good, run.unfinished) == (0, 1)


@pytest.mark.parametrize("spec", ["fake-c40", "fake-c4-d5-ts"])
def test_the_upstream_says_what_the_load_generator_expects(spec: str) -> None:
    with upstream() as address:
        run = load(int(address.rpartition(":")[2]), [], spec, body_for(spec), "-n", 4, "-r", 12).checked()
    assert (run.good, run.deltas) == (12, 12 * int(spec.split("-")[1][1:]))


def test_the_upstream_speaks_tls(tmp_path: Path) -> None:
    made = certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=str(made.authority))
    with upstream(made) as address:
        port = int(address.rpartition(":")[2])
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusted)
        connection.request("POST", "/v1/chat/completions", body_for("fake-c400"))
        assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
        connection.close()


def test_the_reference_line_is_a_gateway_for_text(tmp_path: Path) -> None:
    with upstream() as address, servers.floor(tmp_path, address) as server:
        run = server.load("fake-c100", "-n", 4, "-r", 20).checked()
        assert run.good == 20
        assert run.cpu_ms > 0
        assert memory_kb(server.pids) > 1_000
        assert family(server.pids[0]) == server.pids


@pytest.mark.parametrize("spec", ["fake-c100", "fake-c40-t2", "fake-c40-k2", "fake-c16-r16"])
def test_the_gateway_passes_over_both_transports(tmp_path: Path, spec: str) -> None:
    with upstream() as address, servers.gateway(tmp_path, address) as server:
        server.load(spec, "-n", 4, "-r", 8).checked()
        server.load(spec, "-n", 4, "-r", 8, "-w", type="response.create").checked()
        assert server.load(spec, "-n", 4, "-r", 8, "-A", 5).checked().good == 8
