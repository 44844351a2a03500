"""Two workers share a store, in any order of operations: turns move, workers seem dead and come back.

Leases expire when a step says so, not by time. A follower sees exactly the stored log. Only one that got
events before they were stored may have seen more than a worker could store before it was taken for dead.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from penstock.store import news
from penstock.store.batch_writer import WriteLimits
from penstock.store.peers import PeerTimes
from penstock.store.records import LOCAL, RUNNING, LoggedEvent, Opened
from penstock.store.shared import SharedStore
from penstock.store.sqlite.shared import hold_file, open_shared_sqlite_store
from tests.effort import examples
from tests.store.builders import closed, event, opened
from tests.store.workers import Network, NotingHost, open_on_network

LEASE = 3600.0
SLEEPY = PeerTimes(lease=LEASE, tick=LEASE)
"""A worker that looks at nothing by itself."""
IDS = ("resp_1", "resp_2", "resp_3")
BACKGROUND = IDS[2]
TERMINAL = ("response.completed", "response.incomplete", "response.failed")

WORKERS, SLOTS = st.integers(0, 1), st.integers(0, 2)
ANY = st.just(0)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("log"), WORKERS, SLOTS, st.integers(1, 3)),
        st.tuples(st.just("log"), WORKERS, SLOTS, st.integers(1, 3)),
        st.tuples(st.just("log"), WORKERS, SLOTS, st.integers(1, 70)),
        st.tuples(st.just("follow"), WORKERS, SLOTS, st.integers(-1, 5)),
        st.tuples(st.just("close"), WORKERS, SLOTS, st.booleans()),
        st.tuples(st.just("cancel"), WORKERS, SLOTS, ANY),
        st.tuples(st.just("die"), WORKERS, ANY, ANY),
        st.tuples(st.just("lose"), WORKERS, ANY, ANY),
        st.tuples(st.just("resume"), WORKERS, ANY, ANY),
        st.tuples(st.just("take_over"), WORKERS, ANY, ANY),
        st.tuples(st.just("check"), WORKERS, ANY, ANY),
        st.tuples(st.just("settle"), WORKERS, SLOTS, ANY),
        st.tuples(st.just("pause"), ANY, ANY, st.integers(1, 5)),
    ),
    max_size=40,
)


def end_event(sequence: int, type: str) -> LoggedEvent:
    data = msgspec.json.encode({"type": type, "sequence_number": sequence, "response": {}})
    return LoggedEvent(sequence, 100.0 + sequence, data)


def is_terminal(event: LoggedEvent) -> bool:
    return msgspec.json.decode(event.data)["type"] in TERMINAL


class Follower(Struct):
    id: str
    after: int
    is_remote: bool
    """Whether it reads from a worker that has never run the turn."""
    reading: asyncio.Task[None]
    received: list[LoggedEvent]


class RunningHost(NotingHost):
    """Runs the turns of one worker as the gateway does."""

    def __init__(self, run: Run, worker: int) -> None:
        super().__init__()
        self._run, self._worker = run, worker

    def cancel(self, tenant: str, id: str) -> None:  # noqa: ARG002
        self._run.end(self._worker, id, "response.incomplete")

    def lose(self, tenant: str, id: str) -> None:  # noqa: ARG002
        self._run.next.pop((self._worker, id), None)

    async def start(self, turn: Opened, last_sequence: int) -> bool:
        self._run.next[self._worker, turn.id] = last_sequence + 1
        self._run.owners[turn.id].add(self._worker)
        return True


class Run:
    """Applies the steps to two workers."""

    def __init__(self, *stores: SharedStore) -> None:
        self.stores = stores
        self.owners: dict[str, set[int]] = {}
        """The workers that have run each turn."""
        self.next: dict[tuple[int, str], int] = {}
        """The next sequence number of each turn that a worker believes to run."""
        self.dead: set[int] = set()
        self.followers: list[Follower] = []
        self.closing: set[asyncio.Task[None]] = set()
        for worker, store in enumerate(stores):
            store.attach(RunningHost(self, worker))

    async def do(self, step: tuple[str, int, int, int]) -> None:
        name, worker, slot, number = step
        if name in ("die", "lose", "resume", "take_over", "check"):
            await getattr(self, name)(worker)
        elif name == "pause":
            await asyncio.sleep(number / 1000)
        else:
            await getattr(self, name)(worker, IDS[slot], number)

    async def begin(self) -> None:
        """Run a turn on each worker, and one in the background; follow each at both workers."""
        for worker, id in ((0, IDS[0]), (1, IDS[1]), (0, BACKGROUND)):
            await self.open(worker, id)
            for each in (0, 1):
                await self.follow(each, id, -1)

    async def open(self, worker: int, id: str) -> None:
        self.owners[id] = {worker}
        turn = opened(id, "in_1")
        if id == BACKGROUND:
            turn = replace(turn, is_background=True, status="queued")
        self.next[worker, id] = 0
        await self.stores[worker].open(turn, patience=30)

    async def log(self, worker: int, id: str, number: int) -> None:
        begin = await self.started(worker, id)
        if begin is not None:
            text = f"of {worker}"
            self.stores[worker].log(id, [event(begin + place, text) for place in range(number)])
            self.next[worker, id] = begin + number
            await asyncio.sleep(0.001 * (number % 2))

    async def close(self, worker: int, id: str, is_patient: bool) -> None:
        self.end(worker, id, "response.completed")
        if is_patient and self.closing:
            await asyncio.wait(self.closing)

    def end(self, worker: int, id: str, type: str) -> None:
        closing = asyncio.create_task(self._end(worker, id, type))
        self.closing.add(closing)
        closing.add_done_callback(self.closing.discard)

    async def _end(self, worker: int, id: str, type: str) -> None:
        if await self.started(worker, id) is not None:
            sequence = self.next.pop((worker, id))
            self.stores[worker].log(id, [end_event(sequence, type)])
            await self.stores[worker].close(id, closed(id), patience=30)

    async def started(self, worker: int, id: str) -> int | None:
        """Return the next number of a turn that this worker runs. One in the background is started first."""
        if id == BACKGROUND and (worker, id) in self.next and not await self.stores[worker].start(id):
            self.next.pop((worker, id), None)
        return self.next.get((worker, id))

    async def follow(self, worker: int, id: str, after: int) -> None:
        received: list[LoggedEvent] = []

        async def read() -> None:
            async for each in self.stores[worker].events(LOCAL, id, after):
                received.append(each)  # noqa: PERF401 - what was received before an error is shown

        task = asyncio.create_task(read())
        self.followers.append(Follower(id, after, worker not in self.owners[id], task, received))

    async def cancel(self, worker: int, id: str, _: int) -> None:
        await self.stores[worker].cancel(LOCAL, id)

    async def settle(self, worker: int, id: str, _: int) -> None:
        await self.stores[worker].settle(id)

    # Life and death

    async def die(self, worker: int) -> None:
        self.dead.add(worker)
        peers = self.stores[worker]._peers
        await peers._backend.renew(peers.worker, -1.0)

    async def lose(self, worker: int) -> None:
        """Let the other worker take over what this one runs."""
        await self.die(worker)
        await self.take_over(1 - worker)

    async def resume(self, worker: int) -> None:
        self.dead.discard(worker)
        await self.stores[worker]._peers._renew()

    async def take_over(self, worker: int) -> None:
        peers = self.stores[worker]._peers
        if worker not in self.dead:
            peers._contact_since = peers._loop.time() - 2 * LEASE
            await peers._take_over_orphans()

    async def check(self, worker: int) -> None:
        if worker not in self.dead:
            await self.stores[worker]._peers._check_turns()

    # The end

    async def finish(self) -> None:
        for worker in (0, 1):
            await self.resume(worker)
        for worker in (0, 1):
            await self.check(worker)
            await asyncio.gather(*self.stores[worker]._peers._adopting)
        for worker, id in [*self.next]:
            self.end(worker, id, "response.completed")
        await asyncio.gather(*self.closing)
        for follower in self.followers:
            while not follower.reading.done():
                for store in self.stores:
                    store._news._something_changed()
                await asyncio.wait({follower.reading}, timeout=0.005)
            follower.reading.result()
        for id in IDS:
            await self.compare(id)
        for store in self.stores:
            assert not store._turns
            assert not store._news._followed
            assert await store._peers._backend.claimed(store._peers.worker) == []

    async def compare(self, id: str) -> None:
        logs = [[each async for each in store.events(LOCAL, id)] for store in self.stores]
        assert logs[0] == logs[1]
        log = logs[0]
        assert [each.sequence for each in log] == list(range(len(log)))
        assert [is_terminal(each) for each in log] == [False] * (len(log) - 1) + [True]
        for store in self.stores:
            stored = await store.get(LOCAL, id)
            assert stored is not None
            assert stored.status not in RUNNING
            assert (stored.status == "failed") == (b"worker_lost" in log[-1].data)
        for follower in self.followers:
            if follower.id == id:
                check_received(follower, log, self.stores[0]._news._bus.most_bytes > 0)


def check_received(follower: Follower, log: list[LoggedEvent], has_messages: bool) -> None:
    received, expected = follower.received, log[follower.after + 1 :]
    if b"worker_lost" not in log[-1].data or (follower.is_remote and not has_messages):
        assert received == expected
        return
    # It may have seen events that the worker could not store before it was taken for dead. Their numbers are
    # those of the events that end the stored log.
    begin = follower.after + 1
    assert [each.sequence for each in received] == list(range(begin, begin + len(received)))
    logged = [each for each in expected if b'"of ' in each.data]
    assert received[: len(logged)] == logged
    ends = [is_terminal(each) for each in received]
    assert sum(ends) <= 1
    assert ends[-1:] == [True] or len(received) >= len(expected)


async def run_steps(kind: str, folder: Path, steps: list[tuple[str, int, int, int]], late: bool) -> None:
    lock, path = hold_file(folder / "store.db"), folder / "store.db"
    bounds = WriteLimits(commit_delay=0, log_delay=LEASE if late else 0.0)
    network = Network()
    if kind == "a bus that loses messages":
        network.is_lost = lambda _: len(network.sent) % 3 == 0
    stores = [
        await open_shared_sqlite_store(path, bounds=bounds, times=SLEEPY)
        if kind == "no bus"
        else await open_on_network(path, network, f"worker {number}", bounds=bounds, times=SLEEPY)
        for number in range(2)
    ]
    try:
        with patch.object(news, "_SEND_DELAY", 0):
            run = Run(*stores)
            await run.begin()
            for step in steps:
                await run.do(step)
            await run.finish()
    finally:
        for store in stores:
            await store.aclose()
        lock.release()


@pytest.mark.parametrize("kind", ["no bus", "a bus", "a bus that loses messages"])
@given(steps, st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_a_follower_sees_the_stored_log(
    kind: str, steps: list[tuple[str, int, int, int]], late: bool
) -> None:
    """`late`: events are not written before somebody waits for them."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_steps(kind, Path(folder), steps, late))
