"""A worker in this process, which the test supervises."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from penstock.application import open_app
from penstock.errors import StoreError
from penstock.gateway.app import GatewayApp
from penstock.gateway.server import listen
from penstock.gateway.settings import Settings
from penstock.gateway.storage import hold_gateway_store
from penstock.gateway.workers import worker as module
from penstock.gateway.workers.messages import (
    PROTOCOL,
    ApplySettings,
    AskForMetrics,
    CannotStart,
    Collect,
    CountedByWorker,
    Drain,
    DrainSoon,
    FromWorker,
    Link,
    MetricsText,
    StartWorker,
    StopTurns,
    WorkerDrains,
    WorkerEnds,
    WorkerReady,
    link_to_worker,
)
from penstock.gateway.workers.worker import NotAWorker, Worker, receive_orders
from tests.client.server import run

M = TypeVar("M")
SETTINGS = Settings(log_level="error")


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Keep what a worker does to its process away from the tests."""
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    with hold_gateway_store("", os.environ):
        yield


class Supervised:
    """A worker, and the supervisor's end of its connection."""

    def __init__(self, link: Link[FromWorker], task: asyncio.Task[int], address: tuple[str, int]) -> None:
        self.link, self.task, self.address = link, task, address

    async def expect(self, kind: type[M]) -> M:
        """The next message that is not a report of what was counted, unless that is expected."""
        while True:
            message = await self.link.receive()
            if isinstance(message, WorkerEnds):
                self.link.close()
            if isinstance(message, kind):
                return message
            assert isinstance(message, CountedByWorker), message

    async def get(self, path: str) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split()[1]), body


async def open_worker() -> GatewayApp:
    return await open_app(SETTINGS, is_worker=True)


@asynccontextmanager
async def supervised() -> AsyncIterator[Supervised]:
    ours, theirs = socket.socketpair()
    with listen("127.0.0.1", 0) as listening:
        descriptor = os.dup(listening.fileno())
        start = StartWorker(
            protocol=PROTOCOL, number=1, settings=SETTINGS, url="", started=1234.5, listening=descriptor
        )
        task = asyncio.create_task(Worker(start, theirs).serve(open_worker))
        found = Supervised(await link_to_worker(ours), task, listening.getsockname())
        await found.expect(WorkerReady)
        yield found
        await found.link.aclose()
        await task


def test_what_it_counts_is_sent_once() -> None:
    async def count() -> None:
        async with supervised() as worker:
            assert (await worker.get("/healthz"))[0] == 200
            found: dict[str, list[tuple[tuple[str, ...], float]]] = {}
            for _ in range(2):
                worker.link.send(Collect())
                while not (answer := await worker.expect(CountedByWorker)).is_answer:
                    found |= answer.counted.counters
                found |= answer.counted.counters
                assert answer.counted.gauges["penstock_turns_running"] == 0
            assert found == {"penstock_requests_total": [(("healthz", "200"), 1.0)]}

    run(count())


def test_metrics_are_those_that_the_supervisor_answers() -> None:
    async def scrape() -> None:
        async with supervised() as worker:
            scraping = asyncio.create_task(worker.get("/metrics"))
            asked = await worker.expect(AskForMetrics)
            worker.link.send(MetricsText(asked.question + 1, b"another question's\n"))
            worker.link.send(MetricsText(asked.question, b"all workers\n"))
            assert await scraping == (200, b"all workers\n")

    run(scrape())


def test_without_an_answer_of_the_supervisor_there_are_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_METRICS_SECONDS", 0.05)

    async def scrape() -> None:
        async with supervised() as worker:
            status, body = await worker.get("/metrics")
            assert (status, b"metrics_unavailable" in body) == (503, True)

    run(scrape())


def test_it_drains_once_and_says_how_it_ended() -> None:
    async def drain() -> None:
        async with supervised() as worker:
            worker.link.send(Drain())
            worker.link.send(Drain())
            await worker.expect(WorkerDrains)
            assert await worker.expect(WorkerEnds) == WorkerEnds(0)
            assert await worker.link.receive() is None
            assert await worker.task == 0

    run(drain())


def test_a_worker_that_was_replaced_still_answers_those_who_have_connected() -> None:
    async def replace_it() -> None:
        async with supervised() as worker:
            reader, writer = await asyncio.open_connection(*worker.address)
            assert (await worker.get("/healthz"))[0] == 200  # by then, the first connection is accepted
            worker.link.send(DrainSoon())
            worker.link.send(Collect())
            while not (await worker.expect(CountedByWorker)).is_answer:
                pass
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert b"200 OK" in await reader.readline()
            await worker.expect(WorkerDrains)
            await reader.read()
            writer.close()
            await writer.wait_closed()
            assert await worker.expect(WorkerEnds) == WorkerEnds(0)

    run(replace_it())


def test_sigterm_drains_however_often_it_comes() -> None:
    async def drain() -> None:
        async with supervised() as worker:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            await worker.expect(WorkerDrains)
            assert await worker.expect(WorkerEnds) == WorkerEnds(0)

    run(drain())


def test_running_turns_are_stopped_when_the_supervisor_says_so() -> None:
    async def stop() -> None:
        async with supervised() as worker:
            reader, writer = await asyncio.open_connection(*worker.address)
            body = b'{"model": "demo", "input": "write 100000 words", "stream": true}'
            head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await reader.readuntil(b"response.output_text.delta")
            worker.link.send(Drain())
            await worker.expect(WorkerDrains)
            worker.link.send(StopTurns())
            rest = await reader.read()
            assert b"shutting_down" in rest
            writer.close()
            await writer.wait_closed()
            await worker.expect(WorkerEnds)

    run(stop())


def test_without_a_supervisor_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        async with supervised() as worker:
            await worker.link.aclose()
            assert await worker.task == 0

    run(leave())
    assert "the supervisor has ended: this worker stops, too" in caplog.text


def test_settings_of_the_supervisor_are_used() -> None:
    async def apply() -> None:
        async with supervised() as worker:
            worker.link.send(ApplySettings(replace(SETTINGS, aliases={"mine": "demo"})))
            worker.link.send(Collect())
            while not (await worker.expect(CountedByWorker)).is_answer:
                pass
            _, body = await worker.get("/v1/models")
            assert b'"mine"' in body

    run(apply())


def test_a_store_that_cannot_be_opened_is_reported() -> None:
    async def fail() -> GatewayApp:
        raise StoreError(StoreError.FULL, "the disk is full")

    async def start() -> None:
        ours, theirs = socket.socketpair()
        listening = listen("127.0.0.1", 0)
        start = StartWorker(
            protocol=PROTOCOL, number=1, settings=SETTINGS, url="", started=0.0, listening=listening.detach()
        )
        link = await link_to_worker(ours)
        with pytest.raises(StoreError):
            await Worker(start, theirs).serve(fail)
        assert await link.receive() == CannotStart("--store: the disk is full")
        await link.aclose()

    run(start())


def test_a_supervisor_of_another_version_learns_why_there_is_no_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    async def start() -> None:
        ours, theirs = socket.socketpair()
        link = await link_to_worker(ours)
        link.send(
            StartWorker(protocol=PROTOCOL + 1, number=1, settings=SETTINGS, url="", started=0.0, listening=0)
        )
        await link.flush()
        descriptor = str(theirs.detach())
        with pytest.raises(NotAWorker, match="restart it"):
            await asyncio.to_thread(receive_orders, descriptor)
        assert await link.receive() == CannotStart(
            "the installed version is another one than the running gateway's: restart it"
        )
        await link.aclose()

    run(start())


def test_a_process_without_a_supervisor_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(NotAWorker, match="only `penstock serve --workers` starts workers"):
        receive_orders("1000000")
