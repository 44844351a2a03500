"""Proxies: used for other hosts, never for this machine (ask L5)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import trustme

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import InvalidRequestError, NetworkError
from tests.client.asking import KEY, REQUEST, Clock, asking, read
from tests.client.server import Server, answer, run, send, streamed
from tests.net.certificates import server_context
from tests.net.proxies import tunnel

DEAD = "http://127.0.0.1:1"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_reached_without_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, DEAD)
        monkeypatch.setenv(name.lower(), DEAD)

    async def main() -> None:
        async with Server(streamed()) as server:
            config = ClientConfig(f"http://{host}:{server.port}", retries=0)
            async with OpenResponsesClient(config) as client:
                assert len(await read(client.stream(REQUEST))) == 11

    run(main())


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_another_host_is_reached_through_the_proxy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Server(streamed()) as proxy:
            monkeypatch.setenv(name, f"http://me:p%40ss@127.0.0.1:{proxy.port}")
            async with OpenResponsesClient(ClientConfig("http://upstream.test", key=lambda: KEY)) as client:
                assert len(await read(client.stream(REQUEST))) == 11
            (asked,) = proxy.asked
            assert (asked.method, asked.target) == ("POST", "http://upstream.test/v1/responses")
            assert asked.headers["host"] == "upstream.test"
            assert asked.headers["authorization"] == f"Bearer {KEY}"
            assert asked.headers["proxy-authorization"] == "Basic bWU6cEBzcw=="

    run(main())


def test_the_setting_overrides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", DEAD)

    async def main() -> None:
        async with Server([answer(200, [])]) as proxy:
            config = ClientConfig("http://upstream.test", proxy=f"127.0.0.1:{proxy.port}")
            async with OpenResponsesClient(config) as client:
                await client.models()
            assert proxy.asked[0].target == "http://upstream.test/v1/models"

    run(main())


def test_a_host_in_no_proxy_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown host")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def main() -> None:
        async with Server([answer(200, [])]) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("NO_PROXY", "example.org,.test")
            config = ClientConfig("http://upstream.test:9", retries=0)
            async with OpenResponsesClient(config) as client:
                with pytest.raises(
                    NetworkError, match=r"upstream\.test:9: the host name cannot be resolved"
                ) as caught:
                    await client.models()
                assert caught.value.phase == "connect"
            assert proxy.asked == []

    run(main())


def test_an_unreachable_proxy_is_reported_without_its_password(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{KEY}@127.0.0.1:1")

    async def main() -> None:
        clock = Clock()
        async with OpenResponsesClient(ClientConfig("http://upstream.test"), sleep=clock.sleep) as client:
            with pytest.raises(
                NetworkError, match=r"could not connect to the proxy 127\.0\.0\.1:1: .*refused"
            ):
                await client.models()

    run(main())
    assert KEY not in caplog.text


def test_an_unsupported_proxy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"socks5://me:{KEY}@127.0.0.1:1")

    async def main() -> None:
        async with asking(base_url="http://upstream.test") as (client, _):
            with pytest.raises(InvalidRequestError, match="a socks5 proxy is not supported") as caught:
                await client.models()
            assert KEY not in str(caught.value)

    run(main())


def test_a_host_with_tls_is_reached_through_a_tunnel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = server_context(authority, "upstream.test")

    async def main() -> None:
        async with Server(streamed(), tls=context) as server, Server([tunnel(server.port)]) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
            config = ClientConfig("https://upstream.test", key=lambda: KEY, ca_file=str(tmp_path / "ca.pem"))
            async with OpenResponsesClient(config) as client:
                assert len(await read(client.stream(REQUEST))) == 11
            (asked,) = proxy.asked
            assert (asked.method, asked.target) == ("CONNECT", "upstream.test:443")
            assert asked.headers["proxy-authorization"] == "Basic bWU6cEBzcw=="
            assert "authorization" not in asked.headers
            assert server.asked[0].target == "/v1/responses"
            assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
            assert "proxy-authorization" not in server.asked[0].headers

    run(main())


@pytest.mark.parametrize(("status", "attempts"), [(407, 1), (502, 3)])
def test_a_proxy_that_refuses_the_tunnel_is_reported(status: int, attempts: int) -> None:
    async def main() -> None:
        clock = Clock()
        refusal = [send(b"HTTP/1.1 %d Not for you\r\ncontent-length: 0\r\n\r\n" % status)]
        async with Server(*[refusal] * attempts) as proxy:
            config = ClientConfig("https://upstream.test", proxy=proxy.url, key=lambda: KEY)
            async with OpenResponsesClient(config, sleep=clock.sleep) as client:
                with pytest.raises(
                    NetworkError, match=f"the proxy .* returned {status} Not for you"
                ) as caught:
                    await client.models()
                assert (caught.value.code, caught.value.phase) == ("proxy_error", "connect")
                assert caught.value.__context__ is None  # nothing of the request can be in a traceback
            assert len(proxy.asked) == attempts

    run(main())
