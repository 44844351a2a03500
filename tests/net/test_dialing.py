"""Opening connections: addresses that compete, TLS, and proxies, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any

import pytest
import trustme

from penstock.net import dialing
from penstock.net.connection import UpstreamConnection
from penstock.net.dialing import UpstreamRoute, connect, dial
from penstock.net.network_errors import ProxyRefusal, ProxyUnreachable, connection_failed
from penstock.net.pool import ConnectionPool
from penstock.net.urls import Proxy, read_address, read_proxy
from tests.client.server import Connection, Script, Server, answer, keep, send
from tests.net.certificates import server_context, trusting
from tests.net.connections import GET, Received, on_both_loops, run_on, settle
from tests.net.proxies import tunnel
from tests.net.server.fake_connections import FakeTransport


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def route(url: str, proxy: Proxy | None = None, tls: ssl.SSLContext | None = None) -> UpstreamRoute:
    return UpstreamRoute(read_address(url), proxy, tls if url.startswith("https") else None, tls)


async def status_through(route: UpstreamRoute) -> int:
    connection = await dial(route, UpstreamConnection)
    head = await connection.ask("GET", b"GET /x HTTP/1.1\r\nhost: upstream.test\r\n\r\n")
    connection.close()
    await settle()
    return head.status


# -- addresses


class Attempts:
    """Attempts to connect, in their order. Each succeeds, fails or hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **outcomes: str) -> None:
        self.outcomes = outcomes
        self.started: list[str] = []
        self.sockets: list[socket.socket] = []
        monkeypatch.setattr(dialing, "_connect_to", self.connect)
        monkeypatch.setattr(dialing, "_HEAD_START", 0.01)

    async def getaddrinfo(self, *_: Any, **__: Any) -> list[Any]:
        families = {"v6": socket.AF_INET6, "v4": socket.AF_INET}
        return [(families[name[:2]], socket.SOCK_STREAM, 0, "", name) for name in self.outcomes]

    async def connect(self, info: Any) -> socket.socket:
        name = info[-1]
        self.started.append(name)
        match self.outcomes[name]:
            case "hangs":
                await asyncio.get_running_loop().create_future()
            case "refused":
                raise ConnectionRefusedError(111, name)
            case "slow":
                await asyncio.sleep(0.05)
        self.sockets.append(socket.socket())
        return self.sockets[-1]

    def run(self) -> socket.socket:
        async def main() -> socket.socket:
            asyncio.get_running_loop().getaddrinfo = self.getaddrinfo  # type: ignore[method-assign]
            winner = await connect("host.test", 80)
            await settle()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return winner

        with asyncio.Runner() as runner:
            return runner.run(main())


@pytest.mark.parametrize(
    ("outcomes", "started"),
    [
        ({"v6a": "connects", "v4a": "connects"}, ["v6a"]),
        ({"v6a": "refused", "v4a": "connects"}, ["v6a", "v4a"]),
        ({"v6a": "hangs", "v6b": "hangs", "v4a": "connects"}, ["v6a", "v4a"]),
        ({"v6a": "refused", "v4a": "refused", "v4b": "slow"}, ["v6a", "v4a", "v4b"]),
        ({"v4a": "slow", "v4b": "hangs"}, ["v4a", "v4b"]),
    ],
)
def test_the_addresses_of_a_host_compete(
    outcomes: dict[str, str], started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = Attempts(monkeypatch, **outcomes)
    winner = attempts.run()
    assert attempts.started == started
    assert winner.fileno() >= 0
    winner.close()
    assert all(each.fileno() < 0 for each in attempts.sockets)


def test_the_socket_of_a_loser_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, v6a="slow", v4a="slow")
    monkeypatch.setattr(dialing, "_HEAD_START", 0)
    attempts.run().close()
    assert all(each.fileno() < 0 for each in attempts.sockets)


def test_the_first_failure_is_raised_if_every_address_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionRefusedError, match="v6a"):
        Attempts(monkeypatch, v6a="refused", v4a="refused").run()


@on_both_loops
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_host_is_connected_by_name_or_address(loop: str, host: str) -> None:
    async def main() -> None:
        async with Server([answer(200)]) as server:
            assert await status_through(route(f"http://{host}:{server.port}")) == 200

    run_on(loop, main())


@on_both_loops
@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".test", "no-such-host.invalid"])
def test_an_impossible_host_name_is_a_failure(loop: str, host: str) -> None:
    async def main() -> None:
        with pytest.raises((OSError, UnicodeError)):
            await connect(host, 80)

    run_on(loop, main())


@on_both_loops
def test_a_refused_connection_is_a_failure(loop: str) -> None:
    async def main() -> None:
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(ConnectionRefusedError):
                await connect(host, 1)

    run_on(loop, main())


# -- TLS


@on_both_loops
def test_the_name_of_the_server_is_sent_and_checked(loop: str, authority: trustme.CA) -> None:
    async def main() -> None:
        names: list[str | None] = []
        context = server_context(authority, "localhost")
        context.sni_callback = lambda _, name, __: names.append(name)
        async with Server([answer(200)], tls=context) as server:
            tls = trusting(authority)
            assert await status_through(route(f"https://localhost:{server.port}", tls=tls)) == 200
            assert names == ["localhost"]
            with pytest.raises(ssl.SSLCertVerificationError):
                await dial(route(f"https://127.0.0.1:{server.port}", tls=tls), UpstreamConnection)

    run_on(loop, main())


# -- proxies


@on_both_loops
@pytest.mark.parametrize("status", ["200 OK", "202", "204 No Content"])
def test_any_status_of_success_opens_a_tunnel(loop: str, status: str, authority: trustme.CA) -> None:
    """RFC 9110, 9.3.6."""

    async def main() -> None:
        async with (
            Server([answer(201)], tls=server_context(authority, "upstream.test")) as server,
            Server([tunnel(server.port, status)]) as proxy,
        ):
            through = route("https://upstream.test", read_proxy(proxy.url), trusting(authority))
            assert await status_through(through) == 201

    run_on(loop, main())


@on_both_loops
@pytest.mark.parametrize("is_secure", [False, True], ids=["http proxy", "https proxy"])
def test_a_tunnel_leads_to_a_server_with_tls(loop: str, is_secure: bool, authority: trustme.CA) -> None:
    async def main() -> None:
        tls = trusting(authority)
        proxy_tls = server_context(authority) if is_secure else None
        async with (
            Server([answer(201)], tls=server_context(authority, "upstream.test")) as server,
            Server([tunnel(server.port)], tls=proxy_tls) as proxy,
        ):
            through = read_proxy(proxy.url.replace("://", "://me:p%40ss@"))
            assert await status_through(route("https://upstream.test.:8443", through, tls)) == 201
            (asked,) = proxy.asked
            assert (asked.method, asked.target) == ("CONNECT", "upstream.test.:8443")
            assert asked.headers == {
                "host": "upstream.test.:8443",
                "proxy-authorization": "Basic bWU6cEBzcw==",
            }

    run_on(loop, main())


@on_both_loops
def test_plain_http_goes_through_a_proxy_with_tls(loop: str, authority: trustme.CA) -> None:
    async def main() -> None:
        async with Server([answer(202)], tls=server_context(authority)) as proxy:
            through = route("http://upstream.test", read_proxy(proxy.url), trusting(authority))
            assert await status_through(through) == 202

    run_on(loop, main())


@on_both_loops
@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        ([send(b"HTTP/1.1 407 Not for you\r\ncontent-length: 3\r\n\r\nabc")], 407, "Not for you"),
        ([send(b"HTTP/1.1 502\r\n\r\n")], 502, "Bad Gateway"),
        ([send(b"HTTP/1.1 799\r\n\r\n")], 799, ""),
        ([send(b"HTTP/1.1 301 Elsewhere\r\n\r\n")], 301, "Elsewhere"),
    ],
)
def test_a_proxy_that_opens_no_tunnel_is_reported(
    loop: str, script: Script, status: int, message: str, authority: trustme.CA
) -> None:
    async def main() -> None:
        async with Server(script) as proxy:
            with pytest.raises(ProxyRefusal) as caught:
                await dial(
                    route("https://upstream.test", read_proxy(proxy.url), trusting(authority)),
                    UpstreamConnection,
                )
            assert (caught.value.status, caught.value.message) == (status, message)
            await settle()

    run_on(loop, main())


@on_both_loops
@pytest.mark.parametrize("script", [[], [send(b"SSH-2.0-OpenSSH\r\n")]], ids=["closes", "not HTTP"])
def test_a_proxy_that_does_not_answer_is_blamed(loop: str, script: Script, authority: trustme.CA) -> None:
    async def main() -> None:
        async with Server(script) as proxy:
            through = route("https://upstream.test", read_proxy(proxy.url), trusting(authority))
            with pytest.raises(ProxyUnreachable) as caught:
                await dial(through, UpstreamConnection)
            failure = connection_failed(caught.value, "upstream.test", "proxy.test", None)
            assert failure.message.startswith("could not connect to the proxy proxy.test: ")
            assert "InvalidHttp" not in failure.message
            await settle()

    run_on(loop, main())


def test_a_connection_that_is_cancelled_when_it_is_made_keeps_its_socket_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of a closed socket is given to the next one, which the old transport would then use."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        sockets: list[socket.socket] = []

        async def made_and_cancelled(make: Any, *, sock: socket.socket, **_: Any) -> Any:
            sockets.append(sock)
            connection = transport.protocol = make()
            connection.connection_made(transport)
            raise asyncio.CancelledError

        with socket.create_server(("127.0.0.1", 0)) as listener:
            transport = FakeTransport()
            monkeypatch.setattr(loop, "create_connection", made_and_cancelled)
            with pytest.raises(asyncio.CancelledError):
                await dial(route(f"http://127.0.0.1:{listener.getsockname()[1]}"), UpstreamConnection)
            assert transport.is_aborted
            assert sockets[0].fileno() != -1
            sockets[0].close()
            await asyncio.sleep(0)

    asyncio.run(main())


@on_both_loops
@pytest.mark.parametrize("url", ["http://upstream.test", "https://upstream.test"])
def test_an_unreachable_proxy_is_reported(loop: str, url: str, authority: trustme.CA) -> None:
    async def main() -> None:
        with pytest.raises(ProxyUnreachable) as caught:
            await dial(route(url, read_proxy("http://127.0.0.1:1"), trusting(authority)), UpstreamConnection)
        assert isinstance(caught.value.reason, ConnectionRefusedError)

    run_on(loop, main())


@on_both_loops
def test_an_untrusted_server_behind_a_tunnel_is_refused(loop: str, authority: trustme.CA) -> None:
    async def main() -> None:
        async with (
            Server([answer(200)], tls=server_context(authority, "other.test")) as server,
            Server([tunnel(server.port)]) as proxy,
        ):
            with pytest.raises(ssl.SSLCertVerificationError):
                await dial(
                    route("https://upstream.test", read_proxy(proxy.url), trusting(authority)),
                    UpstreamConnection,
                )
            await settle()

    run_on(loop, main())


class PausesOnce(Received):
    """Stops reading as soon as there is data, as a relay does."""

    def __init__(self, connection: UpstreamConnection) -> None:
        super().__init__()
        self._connection = connection

    def data(self, data: bytes) -> None:
        if not self.has_data.is_set():
            self._connection.pause()
        super().data(data)


@on_both_loops
def test_a_body_over_tls_is_paused_resumed_and_its_connection_reused(
    loop: str, authority: trustme.CA
) -> None:
    size = 5_000_000

    async def main() -> None:
        kept = [answer(200, b"x" * size, connection="keep-alive"), keep]
        async with Server(kept, kept, tls=server_context(authority)) as server:
            pool = ConnectionPool(keep_alive=True)
            connection = await dial(
                route(server.url, tls=trusting(authority)), lambda: UpstreamConnection(pool)
            )
            pool.add(connection)
            for _ in range(2):
                await connection.ask("GET", GET)
                received = PausesOnce(connection)
                connection.start(received, lambda error: error)
                await received.has_data.wait()
                await asyncio.sleep(0.05)
                assert len(received.calls) == 1
                connection.resume()
                await received.is_over.wait()
                assert (len(received.body), received.error) == (size, None)
                assert pool.take("") is connection
            pool.close()
            await settle()
            assert server.connections == 1

    run_on(loop, main())


@on_both_loops
def test_a_connection_with_tls_that_is_closed_while_it_is_paused_ends(
    loop: str, authority: trustme.CA
) -> None:
    async def main() -> None:
        async with Server(
            [send(b"HTTP/1.1 200 OK\r\n\r\n"), endlessly], tls=server_context(authority)
        ) as server:
            pool = ConnectionPool(keep_alive=True)
            connection = await dial(
                route(server.url, tls=trusting(authority)), lambda: UpstreamConnection(pool)
            )
            pool.add(connection)
            await connection.ask("GET", GET)
            received = PausesOnce(connection)
            connection.start(received, lambda error: error)
            await received.has_data.wait()
            await asyncio.sleep(0.05)  # both sides have filled their buffers
            connection.close()
            await server.hung_up()
            assert connection.transport is None

    run_on(loop, main())


async def endlessly(connection: Connection) -> None:
    """Send until the client disconnects, and report that to `hung_up`."""
    with suppress(OSError):
        while not connection.writer.transport.is_closing():
            connection.writer.write(b"x" * 65_536)
            await connection.writer.drain()
            await asyncio.sleep(0)  # a disconnect is noticed between two writes
    connection.server.hangups.release()
