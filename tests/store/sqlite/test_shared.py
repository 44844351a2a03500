"""Several processes share one file: nothing is lost, and the turns of one that is killed end in another."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store import open_archive
from penstock.store.peers import PeerTimes
from penstock.store.records import LOCAL, LoggedEvent
from penstock.store.shared import SharedStore
from penstock.store.sqlite.file import is_locked, reading_connection
from penstock.store.sqlite.shared import hold_file, open_shared_sqlite_store
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.builders import NO_DELAYS, closed, event, events, items, opened, read
from tests.store.sqlite.sharing_process import EVENTS, TIMES
from tests.store.workers import NotingHost, until

PROCESSES, TURNS = 4, 25
SLEEPY = PeerTimes(lease=3600, tick=3600)
"""A worker that notices only what the bus reports."""
PATIENT = PeerTimes(lease=3600, tick=0.05)
"""A worker that looks into the store, and takes nothing over."""


@contextmanager
def worker_process(path: Path, name: str, turns: int = 0) -> Iterator[subprocess.Popen[str]]:
    """Run a process that shares the file; it writes so many turns, or runs some until it is killed."""
    command = [sys.executable, "-m", "tests.store.sqlite.sharing_process", str(path), name, str(turns)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@asynccontextmanager
async def worker(path: Path, times: PeerTimes = TIMES) -> AsyncIterator[SharedStore]:
    store = await open_shared_sqlite_store(path, bounds=NO_DELAYS, times=times)
    try:
        yield store
    finally:
        await store.aclose()


# Processes


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = hold_file(path)
    reported: list[str] = []
    with ExitStack() as stack:
        processes = [stack.enter_context(worker_process(path, name, TURNS)) for name in "abcd"[:PROCESSES]]
        for process in processes:
            assert line_of(process) == "refused locked", "only one process holds the file"
            assert line_of(process) == "ready"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
        for process in processes:
            reported += process.communicate(timeout=60)[0].splitlines()
            assert process.returncode == 0

    async def check() -> None:
        async with worker(path) as store:
            assert len(reported) == PROCESSES * TURNS
            for line in reported:
                id = line.removeprefix("closed ")
                assert await read(store, id) == events(0, EVENTS)
                [turn] = await store.chain(LOCAL, id) or []
                assert (turn.status, turn.input, turn.output) == (
                    "completed",
                    items(f"in_{id}"),
                    items(f"out_{id}"),
                )
            assert await read_table(path, "running") == []
            assert len(await read_table(path, "workers")) == 1, "the others have left"

    asyncio.run(check())
    lock.release()


async def read_table(path: Path, name: str) -> list[object]:
    connection = reading_connection(path, 0)
    try:
        return connection.execute(f"SELECT * FROM {name}").fetchall()
    finally:
        connection.close()


def test_turns_of_a_killed_process_end_in_another(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = hold_file(path)

    async def run(process: subprocess.Popen[str]) -> None:
        assert line_of(process) == "refused locked"
        assert line_of(process) == "ready"
        async with worker(path) as store, worker(path, PATIENT) as other, asyncio.timeout(60):
            host = NotingHost()
            store.attach(host)
            assert await asyncio.to_thread(line_of, process) == "stored 0"
            received: list[LoggedEvent] = []
            following = asyncio.create_task(follow(other, received))
            await until(lambda: len(received) >= 20)  # read while it is written, woken by the bus
            assert await status_of(store, "resp_busy") == "in_progress"
            process.kill()
            stored = [*await asyncio.to_thread(iter_lines, process)]
            await following
            log = await read(store, "resp_busy")
            assert received == log
            assert log[:-1] == events(0, len(log) - 1)
            assert len(log) > len(stored), "what was reported as stored is there, and an end"
            assert end_of(log) == "worker_lost"
            assert end_of(await read(store, "resp_silent")) == "worker_lost"
            assert await status_of(store, "resp_silent") == "failed"
            await until(lambda: bool(host.started))
            assert [turn.id for turn in host.started] == ["resp_waiting"], "it had not started"
            assert await store._peers.owner(LOCAL, "resp_waiting") == store._peers.worker

    with worker_process(path, "a") as process:
        asyncio.run(run(process))
    assert process.returncode == -9
    lock.release()


async def follow(store: SharedStore, received: list[LoggedEvent]) -> None:
    async for each in store.events(LOCAL, "resp_busy"):
        received.append(each)  # noqa: PERF401 - the test looks at it meanwhile


def iter_lines(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return [line for line in process.stdout.read().splitlines() if line.startswith("stored")]


async def status_of(store: SharedStore, id: str) -> str:
    stored = await store.get(LOCAL, id)
    return stored.status if stored is not None else ""


def end_of(log: list[LoggedEvent]) -> str:
    code: str = msgspec.json.decode(log[-1].data)["response"]["error"]["code"]
    return code


# The lock


def test_the_file_is_held_by_its_holder_and_not_by_workers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = hold_file(path)

    async def run() -> None:
        async with worker(path):
            with pytest.raises(StoreError) as raised:
                hold_file(path, busy_ms=0)
            assert raised.value.code == StoreError.LOCKED
            lock.release()
            assert not is_locked(path), "workers do not hold it"

    asyncio.run(run())


def test_a_file_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        asyncio.run(open_shared_sqlite_store(tmp_path / "store.db"))
    assert not [*tmp_path.iterdir()]


def test_a_new_holder_ends_the_turns_of_earlier_workers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def leave_a_turn() -> None:
        async with worker(path) as store:
            await store.open(opened("resp_1"), patience=30)
            store.log("resp_1", events(0, 3))

    async def check() -> None:
        async with worker(path) as store:
            assert end_of(await read(store, "resp_1")) == "gateway_restarted"
            assert await store._peers.owner(LOCAL, "resp_1") is None

    for body in (leave_a_turn, check):
        lock = hold_file(path)
        asyncio.run(body())
        lock.release()


def test_a_new_holder_leaves_what_had_not_started_to_its_workers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    queued = replace(opened("resp_1", status="queued"), is_background=True)

    async def leave_a_turn() -> None:
        async with worker(path) as store:
            await store.open(queued, patience=30)
            await store.hand_over("resp_1")

    async def check() -> None:
        async with worker(path) as store, asyncio.timeout(30):
            assert await status_of(store, "resp_1") == "queued"
            store.attach(host := NotingHost())
            await until(lambda: bool(host.started))
            assert [turn.id for turn in host.started] == ["resp_1"]

    async def check_alone() -> None:
        store = await open_sqlite_store(path)
        assert end_of([each async for each in store.events(LOCAL, "resp_1")]) == "gateway_restarted"
        await store.aclose()

    for body in (leave_a_turn, check):
        lock = hold_file(path)
        asyncio.run(body())
        lock.release()
    asyncio.run(check_alone())


def test_what_is_queued_in_a_restored_backup_ends_as_failed_after_the_command(tmp_path: Path) -> None:
    """The original gateway may have started it after the backup was made."""
    path = tmp_path / "store.db"

    async def leave_turns() -> None:
        async with worker(path) as store:
            for id, is_background in (("resp_1", True), ("resp_2", True), ("resp_3", False)):
                await store.open(replace(opened(id), is_background=is_background), patience=30)
            assert await store.start("resp_2")

    async def check() -> None:
        async with worker(path) as store:
            store.attach(host := NotingHost())
            for id in ("resp_1", "resp_2", "resp_3"):
                assert end_of(await read(store, id)) == "gateway_restarted"
            assert not host.started

    lock = hold_file(path)
    asyncio.run(leave_turns())
    lock.release()
    for count in (1, 0):
        with open_archive(path) as archive:
            assert archive.fail_queued() == count
    lock = hold_file(path)
    asyncio.run(check())
    lock.release()


# Busy files


def test_a_worker_waits_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = hold_file(path)

    async def run() -> None:
        async with worker(path, SLEEPY) as store:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            opening = asyncio.create_task(store.open(opened("resp_1"), patience=30))
            await store.get(LOCAL, "resp_2")  # reading does not wait
            await asyncio.sleep(0.05)
            assert not opening.done()
            other.execute("COMMIT")
            other.close()
            assert await opening

    asyncio.run(run())
    lock.release()


def test_a_worker_whose_file_stays_locked_cannot_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = hold_file(path)

    async def run() -> None:
        store = await open_shared_sqlite_store(
            path, bounds=NO_DELAYS, times=PeerTimes(lease=0.4, tick=0.05), busy_ms=0
        )
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await until(lambda: store.is_unavailable)
        other.execute("COMMIT")
        other.close()
        await until(lambda: not store.is_unavailable)
        await store.aclose()

    asyncio.run(run())
    lock.release()


# The bus


def test_a_follower_is_woken_without_looking_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = hold_file(path)

    async def run() -> None:
        async with worker(path, SLEEPY) as first, worker(path, SLEEPY) as second, asyncio.timeout(30):
            await first.open(opened("resp_1"), patience=30)
            reader = second.events(LOCAL, "resp_1")
            for sequence in range(3):
                waiting = asyncio.ensure_future(anext(reader))
                await asyncio.sleep(0.01)
                first.log("resp_1", [event(sequence)])
                assert await waiting == event(sequence)
            ending = asyncio.ensure_future(anext(reader, None))
            await first.close("resp_1", closed("resp_1"), patience=30)
            assert await ending is None

    asyncio.run(run())
    lock.release()


# Closing


def test_a_worker_leaves_after_its_last_turn_is_written(tmp_path: Path) -> None:
    """Else another worker would end the turn in the meantime, as if this one had died."""
    path = tmp_path / "store.db"
    lock = hold_file(path)

    async def run() -> None:
        store = await open_shared_sqlite_store(path, times=SLEEPY, busy_ms=0)
        await store.open(opened("resp_1"), patience=30)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert not await store.close("resp_1", closed("resp_1"), patience=30)
        closing = asyncio.create_task(store.aclose())
        await asyncio.sleep(0.05)
        other.execute("COMMIT")
        other.close()
        assert await closing == []
        assert await read_table(path, "workers") == await read_table(path, "running") == []

    asyncio.run(run())
    lock.release()


def test_a_worker_that_leaves_writes_its_turns_first(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    lock = hold_file(path)

    async def run() -> None:
        async with worker(path) as second:
            first = await open_shared_sqlite_store(path, times=TIMES)
            await first.open(opened("resp_1"), patience=30)
            first.log("resp_1", events(0, 3))
            await first.close("resp_1", closed("resp_1", "out_1"), patience=0)
            await first.open(opened("resp_2"), patience=30)
            first.log("resp_2", events(0, 3))
            assert await first.aclose() == []
            assert await first.aclose() == []
            assert await read(second, "resp_1") == events(0, 3)
            assert await status_of(second, "resp_1") == "completed"
            assert await second._backend.events(LOCAL, "resp_2", -1) == events(0, 3)
            assert second._peers._contact_since is not None
            second._peers._contact_since -= TIMES.lease  # it need not wait for the lease of one that left
            log = await read(second, "resp_2")
            assert (log[:3], end_of(log)) == (events(0, 3), "worker_lost")

    asyncio.run(run())
    lock.release()
