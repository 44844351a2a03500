"""A server on a socket: TLS, addresses and the end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from penstock.net.server.channels import HttpChannel, SocketChannel
from penstock.net.server.server import MOST_FILES, Server
from penstock.net.tls import load_certificate, server_tls_context
from tests.net.certificates import certificate_files, server_context, trusting
from tests.net.connections import on_both_loops, run_on
from tests.net.server.applications import Echo, Refusals

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
OPEN_SOCKET = (
    b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def server(tls: ssl.SSLContext | None = None) -> tuple[Server, Echo, int, socket.socket]:
    listening = socket.create_server(("127.0.0.1", 0))
    app = Echo()
    made = Server(app, Refusals(), client_timeout=lambda: 300.0, message_bytes=1000, tls=tls)
    return made, app, listening.getsockname()[1], listening


def test_it_serves_until_it_is_stopped() -> None:
    async def scenario() -> None:
        made, app, port, listening = server()
        await made.listen(listening)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        idle, other = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nab")
        while not app.channels:
            await asyncio.sleep(0.001)
        assert app.channels[0].server_port == port
        made.stop()
        assert await idle.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        app.release.set()
        assert (await reader.read()).endswith(b"ab waited")
        await made.stopped()
        writer.close()
        other.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_what_remains_can_be_aborted() -> None:
    async def scenario() -> None:
        made, app, port, listening = server()
        await made.listen(listening)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
        while not app.channels:
            await asyncio.sleep(0.001)
        made.stop()
        made.abort()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        stopped = asyncio.create_task(made.stopped())
        await asyncio.sleep(0.01)
        assert not stopped.done(), "the application still runs"
        made.exit()
        await stopped
        app.release.set()
        writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_certificate_and_its_replacement(tmp_path: Path) -> None:
    authority = trustme.CA()
    first, second = (certificate_files(authority, tmp_path, name) for name in ("first", "second"))
    tls = server_tls_context(*first)

    async def ask(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority))
        writer.write(
            b"POST /stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 300000\r\n\r\n"
        )
        writer.write(b"x" * 300_000)
        assert (await reader.read()).endswith(b"0\r\n\r\n")
        certificate = writer.get_extra_info("peercert")
        writer.close()
        names = {name: value for pairs in certificate["subject"] for name, value in pairs}
        return str(names["commonName"])

    async def scenario() -> None:
        made, _, port, listening = server(tls)
        await made.listen(listening)
        assert await ask(port) == "first"
        load_certificate(tls, *second)
        assert await ask(port) == "second"
        made.stop()
        await made.stopped()

    asyncio.run(asyncio.wait_for(scenario(), 20))


@on_both_loops
@pytest.mark.parametrize("is_socket", [False, True], ids=["HTTP", "WebSocket"])
def test_what_a_client_has_not_read_is_counted_over_tls(loop: str, is_socket: bool) -> None:
    """A transport with TLS counts only what it has not passed to the transport of its socket, which takes
    any amount of bytes at once."""
    authority = trustme.CA()
    size = 16_000_000  # more than the system holds

    async def scenario() -> None:
        made, app, port, listening = server(server_context(authority))
        await made.listen(listening)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(authority), limit=1000)
        writer.write(OPEN_SOCKET if is_socket else GET.replace(b"/ ", b"/wait "))
        channels: Sequence[HttpChannel | SocketChannel] = app.sockets if is_socket else app.channels
        while not channels:
            await asyncio.sleep(0.001)
        if is_socket:
            await reader.readuntil(b"\r\n\r\n")
            app.sockets[0].send(b"x" * size)
        else:
            app.channels[0].begin(200, [("content-length", str(size))])
            app.channels[0].write(b"x" * size)
        assert channels[0].unsent > size / 4
        assert not channels[0].is_writable
        draining = asyncio.create_task(channels[0].drain())
        came = 0
        while came < size:
            came += len(await reader.read(1 << 20))
        await draining
        writer.transport.abort()
        app.release.set()
        made.stop()
        made.abort()
        await made.stopped()

    run_on(loop, scenario())


# Open files


SCRIPT = """
import resource
from penstock.net.server.server import raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "outcome"),
    [(64, 300, [300, 300, 300]), (200, 200, [200, 200, 200])],
    ids=["raised", "as it is"],
)
def test_a_process_may_open_what_the_system_allows(soft: int, hard: int, outcome: list[int]) -> None:
    script = SCRIPT.format(soft=soft, hard=hard)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [int(each) for each in done.stdout.split()] == outcome


def test_there_is_an_upper_limit() -> None:
    code = "from penstock.net.server.server import raise_file_limit; print(raise_file_limit())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) <= MOST_FILES
