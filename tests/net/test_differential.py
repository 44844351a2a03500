"""The same responses through our connections and through aiohttp: the same outcome, or a reason why not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import aiohttp
import pytest

from penstock.net import network_errors
from penstock.net.connection import UpstreamConnection
from penstock.net.dialing import UpstreamRoute, dial
from penstock.net.urls import read_address
from tests.net.connections import Received, request, run_on, settle
from tests.net.exchanges import BODY, EXCHANGES, Exchange

HEADERS = ("content-type", "x-a", "x-99", "content-encoding", "set-cookie")
LIMIT = 64 * 1024
REQUEST_BODY = b"x" * 100_000

KINDS: list[tuple[type[BaseException], str]] = [
    (network_errors.InvalidHttp, "invalid"),
    (network_errors.Unanswered, "unanswered"),
    (network_errors.Truncated, "truncated"),
    (network_errors.UndecodableBody, "truncated"),
    (aiohttp.ClientResponseError, "invalid"),
    (aiohttp.ServerDisconnectedError, "unanswered"),
    (aiohttp.ClientPayloadError, "truncated"),
    (TimeoutError, "hangs"),
]


@dataclass(frozen=True)
class Outcome:
    """What a client makes of a response: its content, or the kind of failure."""

    status: int = 0
    headers: tuple[str | None, ...] = ()
    body: bytes = b""
    failure: str = ""


def failed(error: BaseException) -> Outcome:
    return Outcome(failure=next((name for kind, name in KINDS if isinstance(error, kind)), repr(error)))


def split(data: bytes, seed: int) -> list[bytes]:
    """Return the data in one piece, or cut at random places."""
    places = {0, len(data)}
    if seed and data:
        draw = random.Random(seed)
        places |= {draw.randrange(len(data)) for _ in range(6)}
        places |= {draw.randrange(min(len(data), 120)) for _ in range(6)}
    return [data[start:end] for start, end in pairwise(sorted(places))]


class PlayingServer:
    """Sends one scripted response per connection, and closes it."""

    def __init__(self, exchange: Exchange, seed: int) -> None:
        self._exchange, self._seed = exchange, seed

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await request(reader)
            if self._exchange.method == "POST":
                await reader.readexactly(len(REQUEST_BODY))
            for piece in split(self._exchange.answer, self._seed):
                writer.write(piece)
                await writer.drain()
                if self._seed:
                    await settle(4)
            writer.write_eof()
            while await reader.read(65536):
                pass
        writer.close()


async def ours(method: str, port: int) -> Outcome:
    route = UpstreamRoute(read_address(f"http://127.0.0.1:{port}"), None, None, None)
    connection = await dial(route, UpstreamConnection)
    body = REQUEST_BODY if method == "POST" else b""
    head = f"{method} / HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    try:
        answer = await connection.ask(method, head, body)
    except network_errors.ConnectionFault as error:
        return failed(error)
    received = Received()
    connection.start(received, lambda error: error)
    await received.is_over.wait()
    if received.error is not None:
        return failed(received.error)
    return Outcome(answer.status, tuple(map(answer.headers.get, HEADERS)), received.body)


def _readable(value: str | None) -> str | None:
    """Return a header as we read it: aiohttp keeps invalid bytes as surrogates, which cannot be written."""
    return None if value is None else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def theirs(method: str, port: int) -> Outcome:
    session = aiohttp.ClientSession(max_line_size=LIMIT, max_field_size=LIMIT)
    session._retry_connection = False
    data = REQUEST_BODY if method == "POST" else None
    try:
        async with (
            session,
            asyncio.timeout(1),
            session.request(method, f"http://127.0.0.1:{port}/", data=data, allow_redirects=False) as answer,
        ):
            body = await answer.read()
            return Outcome(
                answer.status, tuple(_readable(answer.headers.get(each)) for each in HEADERS), body
            )
    except (aiohttp.ClientError, TimeoutError) as error:
        return failed(error)


async def outcome(exchange: Exchange, seed: int, client: Callable[[str, int], Awaitable[Outcome]]) -> Outcome:
    server = await asyncio.start_server(PlayingServer(exchange, seed).serve, "127.0.0.1", 0)
    try:
        return await client(exchange.method, server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await settle()


DECODED = Outcome(200, (None,) * len(HEADERS), BODY)
INVALID, TRUNCATED = Outcome(failure="invalid"), Outcome(failure="truncated")


def encoded(name: str) -> Outcome:
    return replace(
        DECODED, headers=tuple(name if header == "content-encoding" else None for header in HEADERS)
    )


PACKETS = (
    "aiohttp fails only if the bytes after the response arrive together with its head; we use the response, "
    "and not the connection"
)
CHUNKS = (
    "aiohttp reports an invalid head if the invalid chunk arrives together with the head, and may wait "
    "forever otherwise; we pass on the data before it, then fail"
)
DIFFERENCES: dict[str, dict[str, Outcome]] = {
    "the limit of aiohttp is 128 headers; ours is their size": {
        "header: a thousand headers": replace(
            DECODED, headers=tuple("99" if header == "x-99" else None for header in HEADERS)
        ),
    },
    "the limit of aiohttp is for each header; ours is for the whole head": {
        "header: many large headers": INVALID,
    },
    PACKETS: {
        "length: too short": replace(DECODED, body=BODY[:5]),
        "length: zero": replace(DECODED, body=b""),
        "chunks: bytes after it": DECODED,
        "204 with a body": replace(DECODED, status=204, body=b""),
        "204 chunked": replace(DECODED, status=204, body=b""),
        "HEAD with a body": replace(DECODED, body=b""),
    },
    CHUNKS: {
        f"chunks: {name}": TRUNCATED
        for name in (
            "an empty extension",
            "an extension with spaces",
            "a space before the size",
            "an invalid trailer",
            "a trailer with a length",
            "an empty size",
            "a size that is not a number",
            "a negative size",
            "a size with 0x",
            "a size beyond 64 bits",
            "a size that is too small",
            "no CRLF after the data",
            "a bare LF after the size",
            "bare LFs everywhere",
            "a CR without LF after the size",
        )
    },
    "aiohttp does not decode it; RFC 9110 says that x-gzip is gzip": {"encoding: x-gzip": encoded("x-gzip")},
    "aiohttp takes a truncated body for a complete one, or waits forever": {
        "encoding: truncated gzip": TRUNCATED,
        "encoding: truncated deflate": TRUNCATED,
        "encoding: truncated br": TRUNCATED,
        "encoding: truncated zstd": TRUNCATED,
    },
}
"""By reason: the exchanges that have another outcome with aiohttp, and our outcome."""
EXPECTED = {name: ours for cases in DIFFERENCES.values() for name, ours in cases.items()}


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_outcome_is_that_of_aiohttp(exchange: Exchange, seed: int) -> None:
    mine = run_on("asyncio", outcome(exchange, seed, ours))
    if exchange.name in EXPECTED:
        assert mine == EXPECTED[exchange.name]
    else:
        assert mine == run_on("asyncio", outcome(exchange, seed, theirs))


@pytest.mark.parametrize("name", EXPECTED)
def test_no_difference_is_stale(name: str) -> None:
    (exchange,) = [each for each in EXCHANGES if each.name == name]
    assert run_on("asyncio", outcome(exchange, 0, theirs)) != EXPECTED[name]
