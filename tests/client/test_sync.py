"""The synchronous client: the same behaviour without an event loop, and threads and interrupts."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.client.config import ClientConfig
from penstock.client.event_stream import EventStream
from penstock.client.sync import SyncOpenResponsesClient, _BackgroundLoop
from penstock.errors import (
    AuthenticationError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    ProtocolError,
)
from penstock.protocol.items import Message
from tests.cli import streams
from tests.client.asking import KEY, QUICK, REQUEST, Clock
from tests.client.server import (
    CHUNKED_HEAD,
    HELLO,
    LAST_CHUNK,
    Connection,
    Script,
    Served,
    answer,
    chunk,
    gate,
    head,
    open_files,
    send,
    served,
    sse,
    stall,
    streamed,
)

RESPONSE = HELLO[-1]["response"]
STARTED = send(CHUNKED_HEAD + chunk(sse(HELLO[:2])))

IN_THE_MAIN_THREAD = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread"
)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = threading.active_count(), open_files()
    yield
    assert (threading.active_count(), open_files()) == before


@contextmanager
def asking(
    *scripts: Script, clock: Clock | None = None, **settings: Any
) -> Iterator[tuple[SyncOpenResponsesClient, Served]]:
    with served(*scripts) as server:
        config = ClientConfig(**{"base_url": server.url, **settings})
        with SyncOpenResponsesClient(config, sleep=(clock or Clock()).sleep, random=lambda: 1.0) as client:
            yield client, server


@contextmanager
def in_thread(function: Any, *arguments: Any) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(function, *arguments)


@pytest.mark.parametrize("events", [streams.hello(), streams.interleaved()], ids=["hello", "interleaved"])
def test_a_lawful_stream_is_delivered_completely(events: list[streams.Event]) -> None:
    with asking(streamed(events, **{"x-request-id": "req_1"}), key=lambda: KEY) as (client, server):
        with client.stream(REQUEST) as stream:
            assert (stream.response_id, stream.last_sequence) == (None, None)
            assert next(stream).type == "response.created"
            assert stream.last_sequence == 0
            assert [event.type for event in stream] == [event["type"] for event in events[1:]]
        assert (stream.response_id, stream.request_id) == ("resp_1", "req_1")
        assert (stream.last_sequence, stream.skipped) == (len(events) - 1, 0)
        assert list(stream) == []
        assert server.asked[0].json["stream"] is True
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_threads_switch_once_per_read(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    batch = EventStream.batch

    async def counted(stream: EventStream) -> list[Any]:
        events = await batch(stream)
        batches.append(len(events))
        return events

    monkeypatch.setattr(EventStream, "batch", counted)
    script = [send(CHUNKED_HEAD + chunk(sse(HELLO[:6]))), gate, send(chunk(sse(HELLO[6:])) + LAST_CHUNK)]
    with asking(script) as (client, server):
        stream = client.stream(REQUEST)
        first = [next(stream).sequence_number for _ in range(6)]
        server.release()
        assert first + [event.sequence_number for event in stream] == list(range(11))
    assert batches == [6, 5]


def test_every_method_of_the_asynchronous_client_is_available() -> None:
    def page(text: str, has_more: bool) -> Any:
        return {"data": [{"role": "user", "content": text}], "has_more": has_more, "last_id": text}

    bodies = [
        RESPONSE,
        RESPONSE,
        RESPONSE,
        {},
        page("a", False),
        page("a", True),
        page("b", False),
        {"data": []},
        {"n_ctx": 4096},
        {"ok": True},
    ]
    with asking(*[[answer(200, body)] for body in bodies], streamed()) as (client, server):
        assert client.create(REQUEST).id == "resp_1"
        assert client.retrieve("resp_1").id == "resp_1"
        assert client.cancel("resp_1").id == "resp_1"
        client.delete("resp_1")
        assert client.input_items("resp_1", limit=1).last_id == "a"
        items = list(client.all_input_items("resp_1"))
        assert [item.content for item in items if isinstance(item, Message)] == ["a", "b"]
        assert client.models() == []
        assert client.fetch("/props") == {"n_ctx": 4096}
        assert client.fetch("/api/show", {"model": "m"}) == {"ok": True}
        resumed = client.resume("resp_1", starting_after=8)
        assert resumed.last_sequence == 8
        assert [event.sequence_number for event in resumed] == [9, 10]
        methods = ["POST", "GET", "POST", "DELETE", "GET", "GET", "GET", "GET", "GET", "POST", "GET"]
        assert [asked.method for asked in server.asked] == methods


def test_the_same_failures_are_raised() -> None:
    broken = [send(head() + sse(HELLO[:2]))]
    with asking([answer(401)], [answer(404)], broken, [answer(404)]) as (client, _):
        with pytest.raises(AuthenticationError):
            client.create(REQUEST)
        with pytest.raises(NotFoundError):
            next(client.stream(REQUEST))
        stream = client.stream(REQUEST)
        assert [next(stream).sequence_number for _ in range(2)] == [0, 1]
        with pytest.raises(ProtocolError) as caught:
            next(stream)
        assert isinstance(caught.value.__cause__, NotFoundError)
        assert list(stream) == []
        with pytest.raises(InvalidRequestError):
            client.resume("")


def test_streams_are_retried_and_resumed() -> None:
    clock = Clock()
    broken = [send(head() + sse(HELLO[:4]))]
    with asking([answer(503)], broken, streamed(HELLO[4:]), clock=clock) as (client, server):
        assert [event.sequence_number for event in client.stream(REQUEST)] == list(range(11))
        assert [asked.method for asked in server.asked] == ["POST", "POST", "GET"]
    assert clock.waits == [0.5]


def test_a_timeout_is_raised() -> None:
    with asking([stall], first_byte_timeout=QUICK, retries=0) as (client, server):
        with pytest.raises(NetworkError) as caught:
            next(client.stream(REQUEST))
        assert caught.value.phase == "first_byte"
        server.hung_up()


def test_leaving_the_block_closes_the_connection() -> None:
    with asking([STARTED, stall]) as (client, server):
        with client.stream(REQUEST) as stream:
            next(stream)
        server.hung_up()
        assert list(stream) == []
        stream.close()


def test_breaking_out_of_the_loop_closes_the_connection() -> None:
    with asking([STARTED, stall]) as (client, server):
        for _ in client.stream(REQUEST):
            break
        gc.collect()
        server.hung_up()


@pytest.mark.parametrize("script", [[stall], [send(CHUNKED_HEAD), stall], [STARTED, stall]])
def test_closing_from_another_thread_ends_the_iteration(script: Script) -> None:
    with asking(script) as (client, server):
        stream = client.stream(REQUEST)
        with in_thread(list, stream) as reading:
            while not server.asked:
                pass
            stream.close()
            assert len(reading.result(10)) in (0, 2)
        server.hung_up()


def test_closing_the_client_ends_streams_and_requests_in_other_threads() -> None:
    with served([STARTED, stall], [stall]) as server:
        client = SyncOpenResponsesClient(ClientConfig(server.url))
        stream = client.stream(REQUEST)
        with in_thread(list, stream) as reading, in_thread(client.create, REQUEST) as creating:
            while len(server.asked) < 2:
                pass
            client.close()
            assert len(reading.result(10)) in (0, 2)
            with pytest.raises(NetworkError, match="closed during the request") as caught:
                creating.result(10)
            assert caught.value.code == "client_closed"
        server.hung_up(2)
        client.close()
        stream.close()


def test_a_closed_client_cannot_be_used() -> None:
    client = SyncOpenResponsesClient(ClientConfig("http://127.0.0.1:1"))
    stream = client.stream(REQUEST)
    client.close()
    assert list(stream) == []
    stream.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.models()
    with pytest.raises(RuntimeError, match="closed"):
        client.resume("resp_1")
    with asking([answer(200, [])]) as (client, _):
        client.models()
        stream = client.stream(REQUEST)
        client.close()
        assert list(stream) == []
        with pytest.raises(RuntimeError, match="closed"):
            client.stream(REQUEST)
        with pytest.raises(RuntimeError, match="closed"):
            client.create(REQUEST)


def test_a_stream_that_was_never_read_starts_no_thread() -> None:
    before = threading.active_count()
    with SyncOpenResponsesClient(ClientConfig("http://127.0.0.1:1")) as client, client.stream(REQUEST):
        assert threading.active_count() == before


@IN_THE_MAIN_THREAD
@pytest.mark.parametrize("begins", [True, False])
def test_an_interrupt_closes_the_connection(begins: bool) -> None:
    async def interrupt(_: Connection) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    script: Script = [STARTED, interrupt, stall] if begins else [interrupt, stall]
    with asking(script) as (client, server):
        stream = client.stream(REQUEST)
        with pytest.raises(KeyboardInterrupt):
            list(stream)
        server.hung_up()


def test_an_interrupt_at_the_end_of_a_read_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = _BackgroundLoop.run

    def interrupted(loop: _BackgroundLoop, coroutine: Any) -> Any:
        run(loop, coroutine)
        raise KeyboardInterrupt

    with asking([STARTED, stall]) as (client, server):
        stream = client.stream(REQUEST)
        with monkeypatch.context() as patch:
            patch.setattr(_BackgroundLoop, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                next(stream)
        server.hung_up()


@IN_THE_MAIN_THREAD
def test_an_interrupt_ends_a_waiting_request() -> None:
    async def interrupt(_: Connection) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with asking([interrupt, stall]) as (client, server):
        with pytest.raises(KeyboardInterrupt):
            client.create(REQUEST)
        server.hung_up()


def test_an_interrupt_before_the_call_is_scheduled_ends_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule = asyncio.run_coroutine_threadsafe
    reached = threading.Event()

    async def arrive(_: Connection) -> None:
        reached.set()

    def interrupted(coroutine: Any, loop: asyncio.AbstractEventLoop) -> Any:
        schedule(coroutine, loop)
        assert reached.wait(10)
        raise KeyboardInterrupt

    with asking([arrive, stall]) as (client, server):
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.create(REQUEST)
        server.hung_up()


def test_a_key_source_cannot_use_the_client_that_calls_it() -> None:
    clients: list[SyncOpenResponsesClient] = []

    def key() -> str:
        return str(clients[0].models())

    with asking(key=key) as (client, _):
        clients.append(client)
        with pytest.raises(RuntimeError, match="key source"):
            client.models()


def test_many_threads_share_one_client() -> None:
    with asking(*[streamed()] * 20) as (client, _), ThreadPoolExecutor(8) as pool:
        counts = pool.map(lambda _: len(list(client.stream(REQUEST))), range(20))
        assert list(counts) == [11] * 20


def test_the_client_works_inside_a_running_event_loop() -> None:
    async def main() -> int:
        with asking(streamed()) as (client, _):
            return len(list(client.stream(REQUEST)))

    assert asyncio.run(main()) == 11
