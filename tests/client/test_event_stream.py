"""Streams: delivery, the end of the connection, and retries before the first event."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import (
    NetworkError,
    OpenResponsesError,
    ProtocolError,
    RateLimitError,
)
from penstock.protocol.events import LifecycleEvent, OutputTextDeltaEvent
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import to_builtins
from penstock.stream.checker import StreamChecker
from tests.cli import streams
from tests.client.asking import QUICK, REQUEST, Clock, asking, read, read_until_failure
from tests.client.server import (
    CHUNKED_HEAD,
    HELLO,
    LAST_CHUNK,
    Connection,
    Script,
    answer,
    chunk,
    cut,
    gate,
    head,
    keep,
    run,
    send,
    sse,
    stall,
    streamed,
)


@pytest.mark.parametrize("events", [streams.hello(), streams.interleaved()], ids=["hello", "interleaved"])
def test_a_lawful_stream_is_delivered_completely_and_typed(events: list[streams.Event]) -> None:
    async def main() -> None:
        async with asking(streamed(events, **{"x-request-id": "req_1"})) as (client, server):
            stream = client.stream(REQUEST)
            assert (stream.response_id, stream.last_sequence, stream.request_id) == (None, None, None)
            received = await read(stream)
            assert [event.type for event in received] == [event["type"] for event in events]
            assert isinstance(received[0], LifecycleEvent)
            assert isinstance(received[4], OutputTextDeltaEvent)
            checker = StreamChecker()
            assert (
                not [found for event in received for found in checker.feed(to_builtins(event))]
                + checker.end()
            )
            assert (stream.response_id, stream.request_id) == ("resp_1", "req_1")
            assert (stream.last_sequence, stream.skipped, stream.is_over) == (len(events) - 1, 0, True)
            assert await read(stream) == []
        (asked,) = server.asked
        assert asked.json == {"model": "test-model", "input": "Hello", "stream": True}
        assert asked.headers["accept"] == "text/event-stream"

    run(main())


def test_an_event_is_delivered_at_once_and_counted_when_delivered() -> None:
    async def main() -> None:
        script = [send(CHUNKED_HEAD + chunk(sse(HELLO[:3]))), gate, send(chunk(sse(HELLO[3:])) + LAST_CHUNK)]
        async with asking(script) as (client, server), client.stream(REQUEST) as events:
            assert [(await anext(events)).sequence_number, events.last_sequence] == [0, 0]
            assert [(await anext(events)).sequence_number, events.last_sequence] == [1, 1]
            assert (await anext(events)).sequence_number == 2
            server.opened.set()
            assert [event.sequence_number async for event in events] == list(range(3, 11))

    run(main())


def test_the_connection_of_a_finished_stream_is_reused() -> None:
    async def main() -> None:
        script = [*streamed(connection="keep-alive"), keep]
        async with asking(script, script) as (client, server):
            await read(client.stream(REQUEST))
            await read(client.stream(REQUEST))
            assert server.connections == 1

    run(main())


KEEP_ALIVE = head(transfer_encoding="chunked", connection="keep-alive")

TAILS: list[Script] = [
    [send(KEEP_ALIVE + chunk(sse(HELLO))), gate, send(chunk(b"data: [DONE]\n\n") + LAST_CHUNK)],
    [send(KEEP_ALIVE + chunk(sse(HELLO, done=True))), gate, send(LAST_CHUNK)],
]


@pytest.mark.parametrize("script", TAILS, ids=["done and last chunk", "last chunk"])
def test_a_connection_is_reused_if_the_body_ends_after_the_last_event(script: Script) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def end(_: Connection) -> None:
            ended.set()

        async with asking(*[[*script, end, keep]] * 2) as (client, server):
            for _ in range(2):
                async with client.stream(REQUEST) as events:
                    for _ in range(11):
                        await anext(events)  # even the last event, before the server has ended the body
                    assert [event async for event in events] == []
                    assert events.is_over
                server.opened.set()
                await ended.wait()
                ended.clear()
                for _ in range(10):
                    await asyncio.sleep(0)  # the connection reads the end by itself
            assert server.connections == 1

    run(main())


def test_a_connection_is_closed_if_the_body_does_not_end() -> None:
    async def main() -> None:
        async with asking([send(KEEP_ALIVE + chunk(sse(HELLO))), stall], streamed()) as (client, server):
            async with asyncio.timeout(5):
                assert len(await read(client.stream(REQUEST))) == 11
                await server.hung_up()
            assert len(await read(client.stream(REQUEST))) == 11
            assert server.connections == 2

    run(main())


@pytest.mark.parametrize("last", [cut, send(b"no chunk\r\n")])
def test_a_disconnect_after_the_last_event_is_not_a_failure(
    last: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with asking([send(KEEP_ALIVE + chunk(sse(HELLO))), gate, last], streamed()) as (client, server):
            stream = client.stream(REQUEST)
            assert len([await anext(stream) for _ in range(11)]) == 11
            server.opened.set()
            assert await read(stream) == []
            assert len(await read(client.stream(REQUEST))) == 11
            assert server.connections == 2

    run(main())
    assert caplog.records == []


def test_the_last_event_ends_the_stream_without_waiting_for_the_server() -> None:
    async def main() -> None:
        async with asking([send(head() + sse([*HELLO, HELLO[0]])), stall]) as (client, server):
            assert len(await read(client.stream(REQUEST))) == 11
            await server.hung_up()

    run(main())


# Retries before the first event.
BEFORE: list[tuple[Script, list[float]]] = [
    ([answer(429, retry_after="7")], [7.0]),
    ([answer(500)], [0.5]),
    ([answer(503, retry_after="2")], [2.0]),
    ([answer(529)], [0.5]),
    ([answer(200, {"error": {"type": "overloaded_error", "message": "busy"}})], [0.5]),
    ([cut], [0.5]),
    ([], [0.5]),
    ([send(CHUNKED_HEAD), cut], [0.5]),
    ([send(head())], [0.5]),
    ([send(head() + b": welcome\n\n")], [0.5]),
    ([send(head() + b": welcome\n\ndata: garbage\n\n")], [0.5]),
    ([send(CHUNKED_HEAD + chunk(b": welcome\n\n")), cut], [0.5]),
    ([send(head() + b"data: [DONE]\n\n")], [0.5]),
    ([stall], [0.5]),
    ([send(CHUNKED_HEAD), stall], [0.5]),
    ([send(CHUNKED_HEAD + chunk(b": welcome\n\n")), stall], [0.5]),
]


@pytest.mark.parametrize(("script", "waits"), BEFORE)
def test_a_request_is_retried_before_the_first_event(script: Script, waits: list[float]) -> None:
    async def main() -> None:
        clock = Clock()
        async with asking(script, streamed(), clock=clock, first_byte_timeout=QUICK, idle_timeout=QUICK) as (
            client,
            server,
        ):
            numbers, error = await read_until_failure(client.stream(REQUEST))
            assert (numbers, error) == (list(range(11)), None)
            assert [asked.method for asked in server.asked] == ["POST", "POST"]
            assert server.asked[0].body == server.asked[1].body
        assert clock.waits == waits

    run(main())


def test_after_the_last_attempt_the_failure_is_raised() -> None:
    async def main() -> None:
        clock = Clock()
        async with asking([answer(500)], [answer(503)], [answer(429)], clock=clock) as (client, server):
            with pytest.raises(RateLimitError):
                await read(client.stream(REQUEST))
            assert len(server.asked) == 3
        assert clock.waits == [0.5, 1.0]

    run(main())


def test_a_wait_that_is_too_long_is_the_callers_to_decide() -> None:
    async def main() -> None:
        clock = Clock()
        async with asking([answer(429, retry_after="61")], clock=clock) as (client, _):
            with pytest.raises(RateLimitError) as caught:
                await read(client.stream(REQUEST))
            assert caught.value.retry_after == 61.0
        assert clock.waits == []

    run(main())


def test_a_spent_quota_is_not_waited_for() -> None:
    async def main() -> None:
        body = {"error": {"message": "You exceeded your current quota", "code": "quota_hit"}}
        async with asking([answer(429, body, retry_after="1")]) as (client, server):
            with pytest.raises(RateLimitError) as caught:
                await read(client.stream(REQUEST))
            assert caught.value.code == "insufficient_quota"
            assert len(server.asked) == 1

    run(main())


# After the first event: never.
UNSTORED = CreateResponse(model="test-model", input="Hello", store=False)

AFTER: list[tuple[Script, type[OpenResponsesError], str, str | None]] = [
    ([send(CHUNKED_HEAD + chunk(sse(HELLO[:1]))), gate, cut], NetworkError, "network_error", "cut"),
    ([send(CHUNKED_HEAD + chunk(sse(HELLO[:1])))], NetworkError, "network_error", "cut"),
    ([send(head() + sse(HELLO[:1]))], ProtocolError, "stream_truncated", None),
    ([send(head() + sse(HELLO[:1], done=True)), stall], ProtocolError, "stream_truncated", None),
    ([send(head() + sse(HELLO[:1])), stall], NetworkError, "network_error", "idle"),
    ([send(head() + sse(HELLO[:1])[:-2])], ProtocolError, "stream_truncated", None),
]


@pytest.mark.parametrize(("script", "kind", "code", "phase"), AFTER)
def test_after_the_first_event_nothing_is_sent_again(
    script: Script, kind: type[OpenResponsesError], code: str, phase: str | None
) -> None:
    async def main() -> None:
        clock = Clock()
        async with asking(script, clock=clock, idle_timeout=QUICK) as (client, server):
            stream = client.stream(UNSTORED)
            assert (await anext(stream)).sequence_number == 0
            server.opened.set()
            with pytest.raises(kind) as caught:
                await anext(stream)
            assert (caught.value.code, caught.value.phase) == (code, phase)
            assert await read(stream) == []
            assert len(server.asked) == 1
        assert clock.waits == []

    run(main())


def test_any_byte_counts_as_a_heartbeat() -> None:
    async def main() -> None:
        async def murmur(connection: Any) -> None:
            for byte in b": still here, wait\n\n":
                connection.writer.write(bytes([byte]))
                await connection.writer.drain()
                await asyncio.sleep(0.05)

        script = [send(head() + sse(HELLO[:3])), murmur, send(sse(HELLO[3:]))]
        async with asking(script, idle_timeout=0.7) as (client, server):
            assert len(await read(client.stream(REQUEST))) == 11
            assert len(server.asked) == 1

    run(main())


def test_a_slow_reader_gets_all_events_before_a_disconnect() -> None:
    async def main() -> None:
        script = [
            send(CHUNKED_HEAD + chunk(sse(HELLO[:2]))),
            gate,
            send(chunk(sse(HELLO[2:6]))),
            cut_in_order,
        ]
        ended = asyncio.Event()

        async def note(connection: Any) -> None:
            connection.writer.close()
            await connection.writer.wait_closed()
            ended.set()

        async with asking([*script, note]) as (client, server):
            stream = client.stream(UNSTORED)
            assert (await anext(stream)).sequence_number == 0
            server.opened.set()
            await ended.wait()
            for _ in range(20):
                await asyncio.sleep(0)  # the disconnect reaches the client while it does not read
            numbers, error = await read_until_failure(stream)
            assert numbers == [1, 2, 3, 4, 5]
            assert isinstance(error, NetworkError)
            assert error.phase == "cut"

    async def cut_in_order(connection: Any) -> None:
        """End the connection in the middle of the chunks, without losing data that was sent."""

    run(main())
