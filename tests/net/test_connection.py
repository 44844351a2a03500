"""Connections on both event loops: bodies, timeouts, flow control, and what happens when something breaks."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from typing import Any

import pytest

from penstock.net.connection import MOST_WAITING
from penstock.net.network_errors import InvalidHttp, TimedOut, Truncated, Unanswered, UndecodableBody
from penstock.net.pool import ConnectionPool
from penstock.net.response_parser import MOST_HEAD
from tests.net.connections import (
    GET,
    Link,
    Received,
    link_to,
    on_both_loops,
    playing,
    request,
    run_on,
    settle,
)

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
QUICK = 0.2


def sized(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"content-length: %d" % len(body), *headers, b"", b""]
    return b"\r\n".join(lines) + body


# -- bodies


@on_both_loops
@pytest.mark.parametrize(
    "answer",
    [
        sized(b"hello"),
        CHUNKED + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nx-checksum: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
    ],
    ids=["sized", "chunked", "until close", "1.0"],
)
@pytest.mark.parametrize("is_split", [False, True])
def test_a_body_is_passed_on_to_its_end(loop: str, answer: bytes, is_split: bool) -> None:
    async def main() -> None:
        pieces = [answer[at : at + 1] for at in range(len(answer))] if is_split else [answer]
        async with link_to(playing(pieces, close=True)) as link:
            head, received = await link.get()
            assert (head.status, head.reason) == (200, "OK")
            assert (received.body, received.error, received.ends) == (b"hello", None, 1)
            assert is_split or len(received.calls) == 1

    run_on(loop, main())


@on_both_loops
def test_the_chunks_of_one_read_are_one_call(loop: str) -> None:
    async def main() -> None:
        async with link_to(playing([CHUNKED, b"1\r\na\r\n" * 50, b"1\r\nb\r\n" * 50 + b"0\r\n\r\n"])) as link:
            _, received = await link.get()
            assert received.calls == [b"a" * 50, b"b" * 50]

    run_on(loop, main())


@on_both_loops
@pytest.mark.parametrize(
    ("method", "answer", "status"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", 200),
        ("HEAD", CHUNKED, 200),
        ("GET", b"HTTP/1.1 204 No\r\n\r\n", 204),
        ("GET", b"HTTP/1.1 304 No\r\ncontent-length: 9\r\n\r\n", 304),
        ("GET", b"HTTP/1.1 101 Switch\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nabc", 101),
        ("CONNECT", b"HTTP/1.1 200 Connected\r\n\r\n", 200),
    ],
)
def test_some_responses_have_no_body(loop: str, method: str, answer: bytes, status: int) -> None:
    async def main() -> None:
        async with link_to(playing(answer)) as link:
            head, received = await link.get(method)
            assert head.status == status
            assert (received.body, received.error) == (b"", None)

    run_on(loop, main())


@on_both_loops
def test_informational_responses_are_skipped(loop: str) -> None:
    async def main() -> None:
        hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: </x>\r\ncontent-type: a/b\r\n\r\n"
        async with link_to(playing([hints, sized(b"hello")], sized(b"again"))) as link:
            head, received = await link.get()
            assert (head.reason, head.headers) == ("OK", {"content-length": "5"})
            assert received.body == b"hello"
            _, received = await link.get()
            assert received.body == b"again"
            assert link.connections == 1

    run_on(loop, main())


def test_headers_are_in_lower_case_and_the_first_of_several_counts() -> None:
    async def main() -> None:
        answer = sized(b"", b"X-Id:  one ", b"x-id: two", b"x-bytes: \xff\xc3\xbc")
        async with link_to(playing(answer)) as link:
            head, _ = await link.get()
            assert head.headers == {"content-length": "0", "x-id": "one", "x-bytes": "\ufffdü"}

    run_on("asyncio", main())


# -- reuse

REUSE: list[tuple[str, bytes, bool]] = [
    ("sized", sized(b"x"), True),
    ("chunked", CHUNKED + b"1\r\nx\r\n0\r\n\r\n", True),
    ("no content", b"HTTP/1.1 204 No\r\n\r\n", True),
    ("close", sized(b"x", b"Connection: Close"), False),
    ("1.0", b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", False),
    ("1.0 keep-alive", b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx", True),
    ("bytes after the end", sized(b"x") + b"y", False),
    ("another response", sized(b"x") + sized(b"y"), False),
    ("bytes after no content", b"HTTP/1.1 204 No\r\ncontent-length: 1\r\n\r\nx", False),
]


@on_both_loops
@pytest.mark.parametrize(("name", "answer", "is_reused"), REUSE, ids=[case[0] for case in REUSE])
def test_a_connection_is_reused_only_when_that_is_safe(
    loop: str, name: str, answer: bytes, is_reused: bool
) -> None:
    async def main() -> None:
        async with link_to(playing(answer, sized(b"second"))) as link:
            _, received = await link.get()
            assert received.body == (b"" if "content" in name else b"x")
            assert link.pool.idle == int(is_reused)

    run_on(loop, main())


@on_both_loops
def test_a_connection_that_gets_bytes_while_idle_is_closed(loop: str) -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(sized(b"x"))
            await asyncio.sleep(0.01)
            writer.write(b"HTTP/1.1 408 Timeout\r\n\r\n")
            await reader.read()
            gone.set()

        async with link_to(handler) as link:
            _, received = await link.get()
            assert received.body == b"x"
            await gone.wait()
            assert link.pool.idle == 0

    run_on(loop, main())


# -- timeouts


@on_both_loops
@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2"])
def test_a_head_that_does_not_arrive_times_out(loop: str, first: bytes) -> None:
    async def main() -> None:
        async with link_to(playing(first)) as link:
            connection = await link.connect()
            with pytest.raises(TimedOut) as caught:
                await connection.ask("GET", GET, first_byte_timeout=QUICK)
            assert (caught.value.phase, caught.value.seconds) == ("first_byte", QUICK)
            await settle()
            assert connection.transport is None

    run_on(loop, main())


@on_both_loops
@pytest.mark.parametrize(
    ("pieces", "phase"),
    [
        ([CHUNKED], "first_byte"),
        ([CHUNKED + b"1\r\nx\r\n"], "idle"),
        ([CHUNKED, b"1\r\nx\r\n"], "idle"),
    ],
    ids=["head", "head with data", "head, then data"],
)
def test_a_body_that_stops_times_out(loop: str, pieces: list[bytes], phase: str) -> None:
    async def main() -> None:
        async with link_to(playing(pieces)) as link:
            limits: dict[str, Any] = {"first_byte_timeout": 60.0, "idle_timeout": 60.0}
            _, received = await link.get(**{**limits, f"{phase}_timeout": QUICK})
            assert received.body == (b"x" if phase == "idle" else b"")
            assert isinstance(received.error, TimedOut)
            assert received.error.phase == phase

    run_on(loop, main())


def test_the_idle_timeout_begins_with_each_read() -> None:
    async def main() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(CHUNKED)
            for _ in range(6):
                writer.write(b"1\r\nx\r\n")
                await asyncio.sleep(0.1)
            writer.write(b"0\r\n\r\n")

        async with link_to(handler) as link:
            _, received = await link.get(first_byte_timeout=0.5, idle_timeout=0.5)
            assert (received.body, received.error) == (b"x" * 6, None)

    run_on("asyncio", main())


def test_time_does_not_count_while_paused() -> None:
    async def main() -> None:
        may_send = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(CHUNKED + b"1\r\nx\r\n")
            await may_send.wait()
            writer.write(b"1\r\ny\r\n0\r\n\r\n")
            await reader.read()

        async with link_to(handler) as link:
            connection, _ = await link.head(idle_timeout=QUICK)
            received = Received()
            connection.start(received, lambda error: error)
            await received.has_data.wait()
            connection.pause()
            await asyncio.sleep(2 * QUICK)
            may_send.set()
            connection.resume()
            await received.is_over.wait()
            assert (received.body, received.error) == (b"xy", None)

    run_on("asyncio", main())


# -- flow control


@on_both_loops
@pytest.mark.parametrize("is_started", [True, False])
def test_a_paused_or_unstarted_body_is_not_read_further(loop: str, is_started: bool) -> None:
    size = 40_000_000

    async def main() -> None:
        is_sent = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(sized(b"x" * size))
            await writer.drain()
            is_sent.set()
            await reader.read()

        async with link_to(handler) as link:
            connection, _ = await link.head()
            received = Received()
            if is_started:
                connection.start(received, lambda error: error)
                connection.pause()
            await asyncio.sleep(0.2)
            assert not is_sent.is_set()
            assert len(received.body) < MOST_WAITING + 512 * 1024
            if is_started:
                connection.resume()
            else:
                connection.start(received, lambda error: error)
            await received.is_over.wait()
            assert len(received.body) == size

    run_on(loop, main())


@on_both_loops
def test_a_large_request_body_is_sent_as_fast_as_it_is_read(loop: str) -> None:
    body = bytes(range(256)) * 40_000

    async def main() -> None:
        may_read, got = asyncio.Event(), bytearray()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            await may_read.wait()
            while len(got) < len(body):
                got.extend(await reader.read(1 << 20))
            writer.write(sized(b"done"))
            await reader.read()

        async with link_to(handler) as link:
            connection = await link.connect()
            asking = asyncio.ensure_future(connection.ask("POST", GET, body))
            await asyncio.sleep(0.05)
            assert connection.transport is not None
            assert connection.transport.get_write_buffer_size() < 1 << 20
            may_read.set()
            assert (await asking).status == 200
            assert got == body
            connection.close()
            assert link.pool.idle == 1

    run_on(loop, main())


@on_both_loops
def test_an_early_response_is_used_and_ends_the_request(loop: str) -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
            size = 0
            while data := await reader.read(1 << 16):
                size += len(data)
            assert size < 50_000_000
            gone.set()

        async with link_to(handler) as link:
            connection, head = await link.head(body=b"x" * 50_000_000)
            received = Received()
            connection.start(received, lambda error: error)
            await received.is_over.wait()
            assert (head.status, received.body, received.error) == (413, b"no", None)
            assert link.pool.idle == 0
            await gone.wait()

    run_on(loop, main())


@on_both_loops
def test_an_early_response_is_not_lost_when_the_server_closes_the_connection(loop: str) -> None:
    """A server that leaves a part of the request unread resets the connection. Sending more would fail before
    the response is read."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            link = Link(ConnectionPool(keep_alive=True), listening.getsockname()[1])
            connection = await link.connect()
            asking = asyncio.create_task(connection.ask("POST", GET, b"x" * 50_000_000))
            await asyncio.sleep(0)  # the first pieces are sent, and the next ones are scheduled
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.recv(len(GET)) == GET
                accepted.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
            head, received = await asking, Received()
            connection.start(received, lambda error: error)
            await received.is_over.wait()
            assert (head.status, received.body, received.error) == (413, b"no", None)
            assert link.pool.idle == 0

    run_on(loop, main())


def test_a_request_is_not_sent_further_while_its_early_response_is_read() -> None:
    size = 50_000_000

    async def main() -> None:
        got: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(CHUNKED)
            count = 0
            while data := await reader.read(1 << 20):
                count += len(data)
            got.set_result(count)

        async with link_to(handler) as link:
            connection, _ = await link.head(body=b"x" * size)
            await asyncio.sleep(0.3)
            connection.close()
            assert await got < size

    run_on("asyncio", main())


# -- what breaks


@on_both_loops
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", Unanswered),
        (b"HTTP/1.1 200 OK\r\ncontent-", Unanswered),
        (b"SSH-2.0-OpenSSH_9.6\r\n", InvalidHttp),
        (b"\x15\x03\x01\x00\x02\x02\x16", InvalidHttp),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 2 * MOST_HEAD, InvalidHttp),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 2 * MOST_HEAD + b"\r\n\r\n", InvalidHttp),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * MOST_HEAD + b"\r\n", InvalidHttp),
        (b"HTTP/1.1 103 Hints\r\n\r\n" * MOST_HEAD, InvalidHttp),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", InvalidHttp),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx", InvalidHttp),
    ],
)
def test_a_response_without_a_valid_head_is_a_failure(
    loop: str, answer: bytes, kind: type[Exception]
) -> None:
    async def main() -> None:
        async with link_to(playing(answer, close=True)) as link:
            with pytest.raises(kind):
                await link.head()

    run_on(loop, main())


@on_both_loops
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
        CHUNKED + b"9\r\nhello",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello\r\nno size\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\nx: " + b"y" * 5 * MOST_HEAD,
    ],
    ids=["sized", "in a chunk", "between chunks", "invalid size", "endless trailer"],
)
@pytest.mark.parametrize("close", [True, False])
def test_bytes_before_a_break_are_passed_on_before_the_failure(loop: str, answer: bytes, close: bool) -> None:
    async def main() -> None:
        async with link_to(playing([answer], close=close)) as link:
            _, received = await link.get(idle_timeout=None if close else QUICK)
            assert received.body == b"hello"
            assert isinstance(received.error, (Truncated, TimedOut))
            assert received.ends == 1
            await settle()
            assert link.pool.idle == 0

    run_on(loop, main())


@on_both_loops
def test_closing_the_pool_ends_every_exchange(loop: str) -> None:
    async def main() -> None:
        async with link_to(playing([b"HTTP/1.1 200 OK\r\n\r\nx"])) as link:
            connection, _ = await link.head()
            received = Received()
            connection.start(received, lambda error: error)
            await received.has_data.wait()
            link.pool.close()
            await received.is_over.wait()
            assert isinstance(received.error, Truncated)  # although the body would end with the connection

    run_on(loop, main())


@pytest.mark.parametrize("way", ["close", "finish"])
def test_a_receiver_may_end_the_exchange_while_it_is_called(way: str) -> None:
    async def main() -> None:
        async with link_to(playing([CHUNKED + b"1\r\nx\r\n", b"1\r\ny\r\n0\r\n\r\n"])) as link:
            connection, _ = await link.head()

            class Leaving(Received):
                def data(self, data: bytes) -> None:
                    super().data(data)
                    connection.close() if way == "close" else connection.finish(5.0)

            received = Leaving()
            connection.start(received, lambda error: error)
            await received.has_data.wait()
            await asyncio.sleep(0.05)
            assert (received.calls, received.ends) == ([b"x"], 0)
            assert link.pool.idle == int(way == "finish")

    run_on("asyncio", main())


def test_an_exception_of_the_receiver_is_its_own_failure() -> None:
    async def main() -> None:
        class Broken(Received):
            def data(self, data: bytes) -> None:
                super().data(data)
                raise RuntimeError("a bug on our side")

        async with link_to(playing(sized(b"hello"))) as link:
            connection, _ = await link.head()
            received = Broken()
            connection.start(received, lambda _: ValueError("explained"))
            await received.is_over.wait()
            assert isinstance(received.error, RuntimeError)
            assert link.pool.idle == 0

    run_on("asyncio", main())


def test_a_fault_is_explained_for_the_receiver() -> None:
    async def main() -> None:
        async with link_to(playing([CHUNKED], close=True)) as link:
            connection, _ = await link.head()
            received = Received()
            connection.start(received, lambda error: ValueError(type(error).__name__))
            await received.is_over.wait()
            assert repr(received.error) == "ValueError('Truncated')"

    run_on("asyncio", main())


def test_cancelling_a_request_disconnects() -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await request(reader)
            await reader.read()
            gone.set()

        async with link_to(handler) as link:
            connection = await link.connect()
            asking = asyncio.ensure_future(connection.ask("GET", GET))
            await settle()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            connection.close()
            await gone.wait()

    run_on("asyncio", main())


# -- compressed bodies


@on_both_loops
def test_a_compressed_body_is_decoded_in_bounded_steps(loop: str) -> None:
    size = 20_000_000

    async def main() -> None:
        body = gzip.compress(b"x" * size)
        async with link_to(playing(sized(body, b"Content-Encoding: GZip"), sized(b"again"))) as link:
            _, received = await link.get()
            assert len(received.body) == size
            assert max(map(len, received.calls)) <= 64 * 1024
            _, received = await link.get()
            assert received.body == b"again"
            assert link.connections == 1

    run_on(loop, main())


def test_decoding_stops_while_the_receiver_is_paused() -> None:
    async def main() -> None:
        body = gzip.compress(b"x" * 5_000_000)
        async with link_to(playing(sized(body, b"content-encoding: gzip"))) as link:
            connection, _ = await link.head()

            class Pausing(Received):
                def data(self, data: bytes) -> None:
                    super().data(data)
                    connection.pause()

            received = Pausing()
            connection.start(received, lambda error: error)
            for calls in range(1, 5):
                await settle(50)
                assert len(received.calls) == calls
                connection.resume()
            connection.close()

    run_on("asyncio", main())


def test_decoding_stops_when_the_source_is_paused_from_outside() -> None:
    async def main() -> None:
        body = gzip.compress(b"x" * 5_000_000)
        async with link_to(playing(sized(body, b"content-encoding: gzip"))) as link:
            connection, _ = await link.head()
            received = Received()
            connection.start(received, lambda error: error)
            await received.has_data.wait()
            connection.pause()
            calls = len(received.calls)
            await settle(50)
            assert len(received.calls) == calls
            connection.close()

    run_on("asyncio", main())


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"not gzip", UndecodableBody),
        (gzip.compress(b"hello", mtime=0)[:-3], Truncated),
        (gzip.compress(b"hello", mtime=0) + b"rest", UndecodableBody),
    ],
    ids=["invalid", "truncated", "data after the end"],
)
def test_a_body_that_cannot_be_decoded_is_a_failure(body: bytes, kind: type[Exception]) -> None:
    async def main() -> None:
        async with link_to(playing(sized(body, b"content-encoding: gzip"))) as link:
            _, received = await link.get()
            assert isinstance(received.error, kind)
            assert link.pool.idle == 0

    run_on("asyncio", main())


def test_a_body_in_an_unknown_encoding_is_passed_on_unchanged() -> None:
    async def main() -> None:
        body = zlib.compress(b"x")
        async with link_to(playing(sized(body, b"content-encoding: compress"))) as link:
            _, received = await link.get()
            assert received.body == body

    run_on("asyncio", main())
