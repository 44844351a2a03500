"""A URL with the wrong scheme is explained for every request, with one short check of the server at most."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import OpenResponsesError
from penstock.net import dialing, transport
from tests.client.asking import Clock
from tests.client.server import run

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
MODELS = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n" + b'{"data":[]}'


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """Serve on a port of this machine."""

    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def answer_without_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")


async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


class Probes:
    """Replaces the checks of servers, and keeps how long each may take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *results: bool) -> None:
        self.seconds: list[float] = []
        self._results = list(results)
        monkeypatch.setattr(transport, "supports_tls", self._probe)
        monkeypatch.setattr(transport, "supports_plain_http", self._probe)

    async def _probe(self, _: str, __: int, seconds: float) -> bool:
        self.seconds.append(seconds)
        return self._results.pop(0)


async def failures_at(address: str, count: int = 1, **settings: Any) -> list[OpenResponsesError]:
    """Return the failures of several requests of one client."""
    failures: list[OpenResponsesError] = []
    config = ClientConfig(address, proxy="", **{"retries": 0, **settings})
    async with OpenResponsesClient(config, sleep=Clock().sleep) as client:
        for _ in range(count):
            with pytest.raises(OpenResponsesError) as caught:
                await client.models()
            failures.append(caught.value)
    return failures


@pytest.mark.parametrize(("scheme", "words"), [("http", "use https://"), ("https", "use http://")])
def test_the_wrong_scheme_is_explained_for_every_request_after_one_check(
    monkeypatch: pytest.MonkeyPatch, scheme: str, words: str
) -> None:
    probes = Probes(monkeypatch, True)

    async def main() -> None:
        async with listening(reset) as port:
            errors = await failures_at(f"{scheme}://127.0.0.1:{port}", count=3)
        assert [error.code for error in errors] == ["tls_error"] * 3
        assert all(words in error.message for error in errors)
        assert probes.seconds == [2.0]

    run(main())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_right_scheme_is_not_checked_again(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    probes = Probes(monkeypatch, False)

    async def main() -> None:
        async with listening(reset) as port:
            errors = await failures_at(f"{scheme}://127.0.0.1:{port}", count=3)
        assert [error.code for error in errors] == ["network_error"] * 3
        assert probes.seconds == [2.0]

    run(main())


def test_a_server_that_has_answered_is_never_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = Probes(monkeypatch, True, False)
    answers = [b"", MODELS, b""]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))

    async def main() -> None:
        async with listening(serve) as port:
            config = ClientConfig(f"http://127.0.0.1:{port}", retries=0)
            async with OpenResponsesClient(config) as client:
                with pytest.raises(OpenResponsesError, match="requires TLS"):
                    await client.models()
                assert await client.models() == []
                with pytest.raises(OpenResponsesError, match="closed it without a response"):
                    await client.models()
        assert len(probes.seconds) == 1

    run(main())


@pytest.mark.parametrize(("timeout", "most"), [(0.05, 0.05), (0.6, 0.5)])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_check_after_a_timeout_takes_half_a_second_at_most_and_not_longer_than_the_timeout(
    monkeypatch: pytest.MonkeyPatch, scheme: str, timeout: float, most: float
) -> None:
    probes = Probes(monkeypatch, False)

    async def main() -> None:
        async with listening(say_nothing) as port:
            await failures_at(
                f"{scheme}://127.0.0.1:{port}",
                first_byte_timeout=timeout,
                connect_timeout=timeout if scheme == "https" else 10,
            )
        assert probes.seconds == [most]

    run(main())


def test_a_server_that_cannot_be_reached_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = Probes(monkeypatch, True)

    async def connect(_: str, __: int) -> socket.socket:
        return await asyncio.Future()

    monkeypatch.setattr(dialing, "connect", connect)

    async def main() -> None:
        (error,) = await failures_at("https://127.0.0.1:1", connect_timeout=0.05)
        assert error.message == "could not connect to 127.0.0.1:1 within 0.05 seconds (connect_timeout)"
        assert probes.seconds == []

    run(main())


@pytest.mark.parametrize(
    ("serve", "code", "words"),
    [
        (reset, "network_error", "closed during the TLS handshake; check the address"),
        (say_nothing, "network_error", "did not complete the TLS handshake within 0.2 seconds"),
        (answer_without_tls, "tls_error", "did not complete a TLS handshake: check the scheme"),
    ],
)
def test_plain_http_is_not_advised_for_a_host_that_is_not_private(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, code: str, words: str
) -> None:
    probes = Probes(monkeypatch)
    connect = dialing.connect

    async def main() -> None:
        async with listening(serve) as port:

            async def connect_here(host: str, _: int) -> socket.socket:
                assert host == "api.example.com"
                return await connect("127.0.0.1", port)

            monkeypatch.setattr(dialing, "connect", connect_here)
            (error,) = await failures_at("https://api.example.com", connect_timeout=0.2)
        assert error.code == code
        assert words in error.message
        assert "http://" not in error.message
        assert probes.seconds == []

    run(main())
