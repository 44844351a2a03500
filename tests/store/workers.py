"""Two workers that share a store, and hosts that note what the store asks of them."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.store.batch_writer import WriteLimits
from penstock.store.peers import PeerTimes
from penstock.store.postgres.store import open_postgres_store
from penstock.store.records import Opened
from penstock.store.shared import SharedStore
from penstock.store.sqlite.file import BUSY_MS, connect_existing, prepare_for_writing
from penstock.store.sqlite.reader_pool import ReaderPool
from penstock.store.sqlite.shared import SharedSqliteBackend, hold_file, open_shared_sqlite_store
from penstock.store.sqlite.writer import SqliteWriter
from tests.store.builders import NO_DELAYS, Clock
from tests.store.postgres.cluster import empty, shared_cluster

SHARED_KINDS = ("sqlite-shared", "sqlite-bus", pytest.param("postgres", marks=pytest.mark.store))
FAST = PeerTimes(lease=0.4, tick=0.05)
"""Death is noticed within a second."""

OpenWorker = Callable[[], Awaitable[SharedStore]]


class NotingHost:
    """Notes what the store asks of a worker."""

    def __init__(self, *, can_start: bool = True, is_draining: bool = False) -> None:
        self.is_draining = is_draining
        self.cancelled: list[str] = []
        self.lost: list[str] = []
        self.follows: list[tuple[str, bool]] = []
        self.started: list[Opened] = []
        self._can_start = can_start

    def cancel(self, tenant: str, id: str) -> None:  # noqa: ARG002
        self.cancelled.append(id)

    def lose(self, tenant: str, id: str) -> None:  # noqa: ARG002
        self.lost.append(id)

    def followed(self, tenant: str, id: str, is_followed: bool) -> None:  # noqa: ARG002
        self.follows.append((id, is_followed))

    async def start(self, turn: Opened, last_sequence: int) -> bool:  # noqa: ARG002
        self.started.append(turn)
        return self._can_start


class Network:
    """Connects the buses of several workers in one process."""

    def __init__(self) -> None:
        self.receivers: dict[str, Callable[[bytes], None]] = {}
        self.sent: list[bytes] = []
        self.is_lost: Callable[[bytes], bool] = lambda _: False
        """Whether a message is lost."""

    def send(self, worker: str, data: bytes) -> None:
        self.sent.append(data)
        if worker in self.receivers and not self.is_lost(data):
            asyncio.get_running_loop().call_soon(self.receivers[worker], data)


class MemoryBus:
    """See `penstock.store.news.Bus`."""

    most_bytes = 1024 * 1024

    def __init__(self, network: Network) -> None:
        self._network = network
        self._worker = ""

    def listen(self, worker: str, receive: Callable[[bytes], None], changed: Callable[[], None]) -> None:  # noqa: ARG002
        self._worker = worker
        self._network.receivers[worker] = receive

    def send(self, worker: str, data: bytes) -> None:
        self._network.send(worker, data)

    async def aclose(self) -> None:
        self._network.receivers.pop(self._worker, None)


async def open_on_network(
    path: Path, network: Network, worker: str, *, bounds: WriteLimits = NO_DELAYS, times: PeerTimes = FAST
) -> SharedStore:
    """Open a file that several workers share, with a bus that carries events between them."""
    connection = connect_existing(path, BUSY_MS)
    prepare_for_writing(connection)
    writer, clock = SqliteWriter(connection, bounds, worker=worker), Clock()
    backend = SharedSqliteBackend(writer, ReaderPool(path, BUSY_MS), worker=worker, clock=clock)
    store = SharedStore(backend, writer, MemoryBus(network), worker, clock, times)
    await store.join()
    return store


@asynccontextmanager
async def shared_place(kind: str, folder: Path) -> AsyncIterator[OpenWorker]:
    """Prepare a place for a store, and yield a function that opens it for one more worker."""
    if kind == "postgres":
        url = shared_cluster().url()
        await empty(url)
        yield lambda: open_postgres_store(url, bounds=NO_DELAYS, times=FAST)
        return
    lock = await asyncio.to_thread(hold_file, folder / "store.db")

    network, names = Network(), count(1)

    async def open_worker() -> SharedStore:
        if kind == "sqlite-bus":
            return await open_on_network(folder / "store.db", network, f"worker {next(names)}")
        return await open_shared_sqlite_store(folder / "store.db", bounds=NO_DELAYS, times=FAST)

    try:
        yield open_worker
    finally:
        lock.release()


Body = Callable[[SharedStore, SharedStore], Awaitable[None]]


def for_two_workers(body: Body) -> Callable[..., None]:
    """Turn an async function of two workers into a test for every store that workers can share."""

    @pytest.mark.parametrize("kind", SHARED_KINDS)
    @functools.wraps(body)
    def test(kind: str, tmp_path: Path) -> None:
        async def run() -> None:
            async with AsyncExitStack() as stack:
                open_worker = await stack.enter_async_context(shared_place(kind, tmp_path))
                workers = [await open_worker(), await open_worker()]
                for worker in workers:
                    stack.push_async_callback(worker.aclose)
                async with asyncio.timeout(30):
                    await body(*workers)

        asyncio.run(run())

    # Pytest reads the parameters from here, and the file and line from the wrapped function.
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("kind", "tmp_path")]
    found = cast(Any, test)
    found.__signature__ = inspect.Signature(parameters)
    return cast(Callable[..., None], found)


async def until(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    """Wait until something is true; the test's own timeout ends the waiting."""
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        await asyncio.sleep(0.01)


async def stop_renewing(store: SharedStore) -> None:
    """Let a worker seem dead to the others, while it can still write."""
    task = store._peers._task
    assert task is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def resume_renewing(store: SharedStore) -> None:
    """Let a worker return that seemed dead to the others."""
    await stop_renewing(store)
    store._peers._task = asyncio.create_task(store._peers._run())
