"""Closing a stream early closes its connection at once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from typing import Any

import pytest

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.client.event_stream import EventStream
from penstock.client.retries import Retrier, RetryPolicy
from penstock.errors import NetworkError
from penstock.protocol.request import CreateResponse
from tests.client.asking import REQUEST, asking
from tests.client.server import (
    CHUNKED_HEAD,
    HELLO,
    Connection,
    Script,
    Server,
    answer,
    chunk,
    head,
    open_files,
    run,
    send,
    sse,
    stall,
)

STARTED = send(CHUNKED_HEAD + chunk(sse(HELLO[:2])))

STALLS: dict[str, Script] = {
    "before the headers": [stall],
    "after the headers": [send(CHUNKED_HEAD), stall],
    "in the stream": [STARTED, stall],
}
ANYWHERE = pytest.mark.parametrize("script", STALLS.values(), ids=STALLS.keys())


async def drain(stream: Any, begun: asyncio.Event | None = None) -> int:
    count = 0
    async for _ in stream:
        count += 1
        if begun is not None and count == 2:
            begun.set()
    return count


async def asked(server: Server) -> None:
    """Wait until the server has a request."""
    while not server.asked:
        await asyncio.sleep(0.001)


def test_leaving_the_block_closes_the_connection() -> None:
    async def main() -> None:
        async with asking([STARTED, stall]) as (client, server):
            async with client.stream(REQUEST) as events:
                await anext(events)
            assert events.is_over
            await server.hung_up()
            with pytest.raises(StopAsyncIteration):
                await anext(events)  # not even events that were already read

    run(main())


def test_an_exception_in_the_block_closes_the_connection() -> None:
    async def main() -> None:
        async with asking([STARTED, stall]) as (client, server):
            stream = client.stream(REQUEST)

            async def fail() -> None:
                async with stream as events:
                    await anext(events)
                    raise KeyError

            with pytest.raises(KeyError):
                await fail()
            await server.hung_up()

    run(main())


@ANYWHERE
def test_cancelling_the_task_closes_the_connection(script: Script) -> None:
    async def main() -> None:
        async with asking(script) as (client, server):
            stream = client.stream(REQUEST)
            task = asyncio.create_task(drain(stream))
            await asked(server)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert stream.is_over
            await server.hung_up()

    run(main())


@ANYWHERE
def test_closing_from_another_task_ends_the_iteration(script: Script) -> None:
    async def main() -> None:
        async with asking(script) as (client, server):
            stream = client.stream(REQUEST)
            task = asyncio.create_task(drain(stream))
            await asked(server)
            await asyncio.gather(stream.aclose(), stream.aclose())
            assert await task in (0, 2)
            assert task.cancelling() == 0
            await server.hung_up()

    run(main())


def test_a_slow_name_resolution_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for, may_answer = threading.Event(), threading.Event()

    def resolve(*_: object, **__: object) -> None:
        asked_for.set()
        may_answer.wait(10)
        raise socket.gaierror(socket.EAI_NONAME, "unknown host")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def main() -> None:
        async with OpenResponsesClient(ClientConfig("http://upstream.test", proxy="")) as client:
            task = asyncio.create_task(drain(client.stream(REQUEST)))
            while not asked_for.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        may_answer.set()  # the resolver's thread belongs to the loop, and waits for the system

    run(main())


def test_closing_ends_the_wait_before_a_retry() -> None:
    async def main() -> None:
        waiting = asyncio.Event()

        async def sleep(_: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        async with (
            Server([answer(503)]) as server,
            OpenResponsesClient(ClientConfig(server.url), sleep=sleep) as client,
        ):
            stream = client.stream(REQUEST)
            task = asyncio.create_task(drain(stream))
            await waiting.wait()
            await stream.aclose()
            assert await task == 0

    run(main())


def test_closing_the_client_ends_its_streams() -> None:
    async def main() -> None:
        async with asking([STARTED, stall], [stall]) as (client, server):
            begun = asyncio.Event()
            first = asyncio.create_task(drain(client.stream(REQUEST), begun))
            await begun.wait()
            second = asyncio.create_task(drain(client.stream(REQUEST)))
            while len(server.asked) < 2:
                await asyncio.sleep(0.001)
            await client.aclose()
            assert [await first, await second] == [2, 0]
            await server.hung_up(2)

    run(main())


def test_closing_the_client_ends_its_requests() -> None:
    async def main() -> None:
        async with asking([stall]) as (client, server):
            task = asyncio.create_task(client.models())
            await asked(server)
            await client.aclose()
            with pytest.raises(NetworkError, match="closed during the request") as caught:
                await task
            assert (caught.value.code, caught.value.phase) == ("client_closed", "cut")
            await server.hung_up()

    run(main())


@pytest.mark.parametrize("way", ["read on", "aclose", "client"])
def test_the_end_of_a_stream_does_not_wait_for_the_end_of_the_body(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "client":  # closing the client ends a connection that still reads the end of a body
        monkeypatch.setattr("penstock.net.answer._LAST_CHUNK", 60)

    async def main() -> None:
        kept = head(transfer_encoding="chunked", connection="keep-alive")
        async with asking([send(kept + chunk(sse(HELLO))), stall]) as (client, server):
            stream = client.stream(REQUEST)
            for _ in HELLO:
                await anext(stream)
            assert stream.is_over
            if way == "client":
                await client.aclose()
            elif way == "aclose":
                await stream.aclose()
            assert await drain(stream) == 0
            await server.hung_up()

    run(main())


def test_breaking_out_of_the_loop_closes_the_connection() -> None:
    async def main() -> None:
        async with asking([STARTED, stall]) as (client, server):
            async for _ in client.stream(REQUEST):
                break
            gc.collect()
            await server.hung_up()

    run(main())


def test_a_stream_that_was_never_read_sends_nothing() -> None:
    async def main() -> None:
        async with asking() as (client, server), client.stream(REQUEST):
            pass
        assert server.asked == []

    run(main())


def test_a_server_that_does_not_read_cannot_delay_closing() -> None:
    """A large request fills the buffers: a graceful close would wait forever for them to empty."""

    async def main() -> None:
        arrived, may_go = asyncio.Event(), asyncio.Event()

        async def ignore(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            arrived.set()
            await may_go.wait()
            writer.close()

        server = await asyncio.start_server(ignore, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with OpenResponsesClient(ClientConfig(f"http://127.0.0.1:{port}")) as client:
            before = open_files()
            request = CreateResponse(model="m", input="x" * 20_000_000)
            task = asyncio.create_task(drain(client.stream(request)))
            await arrived.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            assert open_files() == before + 2  # both ends
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(5):
                await asyncio.sleep(0)
            assert open_files() == before + 1  # only the server's end
        may_go.set()
        server.close()
        await server.wait_closed()

    run(main())


def test_two_hundred_cancelled_streams_leave_nothing_behind() -> None:
    async def main() -> None:
        scripts = [script for script in STALLS.values() for _ in range(67)]
        async with asking(*scripts) as (client, server):
            before, threads = open_files(), threading.active_count()
            tasks = [asyncio.create_task(drain(client.stream(REQUEST))) for _ in scripts]
            while len(server.asked) < len(scripts):
                await asyncio.sleep(0.001)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            await server.hung_up(len(scripts))
            for _ in range(10):
                await asyncio.sleep(0)
            assert open_files() == before
            assert threading.active_count() == threads

    run(main())  # checks that no task is left


def test_two_readers_of_one_stream_share_its_events() -> None:
    async def main() -> None:
        async with asking([send(head() + sse(HELLO))]) as (client, _):
            stream = client.stream(REQUEST)
            counts = await asyncio.gather(drain(stream), drain(stream))
            assert sum(counts) == 11

    run(main())


def test_a_stream_may_outlive_its_event_loop() -> None:
    async def main() -> Any:
        server = await Server([STARTED, stall]).__aenter__()
        client = OpenResponsesClient(ClientConfig(server.url))
        stream = client.stream(REQUEST)
        await anext(stream)
        await client.aclose()
        await server.__aexit__()
        return stream

    stream = run(main())
    del stream
    gc.collect()


def test_a_connection_that_is_established_during_closing_is_closed() -> None:
    class Late:
        content_type, request_id, is_closed = "text/event-stream", None, False

        async def read(self) -> bytes:
            return sse(HELLO[:2])

        def close(self) -> None:
            self.is_closed = True

    answer = Late()

    async def first() -> Any:
        stream.abandon()
        return answer

    async def main() -> None:
        assert await stream.batch() == []

    stream = EventStream(first, None, Retrier(RetryPolicy(0, 0, lambda: 0.0), asyncio.sleep), 0)
    run(main())
    assert answer.is_closed


def test_a_disconnect_during_closing_is_not_raised() -> None:
    async def main() -> None:
        async def cut_slowly(connection: Connection) -> None:
            await asyncio.sleep(0)
            connection.writer.transport.abort()

        async with asking([STARTED, cut_slowly]) as (client, _):
            stream = client.stream(CreateResponse(model="m", input="x", store=False))
            await anext(stream)
            await stream.aclose()
            assert await drain(stream) == 0

    run(main())


def test_a_timeout_around_the_loop_is_raised_to_the_caller() -> None:
    async def main() -> None:
        async with asking([STARTED, stall]) as (client, server):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1), client.stream(REQUEST) as events:
                    await drain(events)
            await server.hung_up()

    run(main())


def test_connecting_ends_after_connect_timeout() -> None:
    async def main() -> None:
        # A listener whose queue is full does not answer further connections.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            waiting = []
            for _ in range(4):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
                waiting.append(each)
            config = ClientConfig(f"http://127.0.0.1:{port}", connect_timeout=0.2, retries=0)
            async with OpenResponsesClient(config) as client:
                with pytest.raises(
                    NetworkError, match=r"could not connect to .* within 0\.2 seconds"
                ) as caught:
                    await client.create(REQUEST)
                assert caught.value.phase == "connect"
            for each in waiting:
                each.close()

    run(main())
