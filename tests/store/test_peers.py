"""Workers that share a store: who is alive, what happens to the turns of the dead, and to forgotten ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast
from unittest.mock import patch

import msgspec
import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.peers import PeerTimes
from penstock.store.records import LOCAL, HeldKey, LoggedEvent, Opened
from penstock.store.shared import SharedBackend, SharedStore
from penstock.store.sqlite.shared import SharedSqliteBackend, hold_file, open_shared_sqlite_store
from tests.store.builders import NO_DELAYS, closed, event, events, opened, read
from tests.store.workers import (
    FAST,
    NotingHost,
    for_two_workers,
    resume_renewing,
    stop_renewing,
    until,
)

BACKGROUND = replace(opened("resp_1", "in_1", status="queued"), is_background=True)
ASLEEP = PeerTimes(lease=60, tick=3600)
"""A worker that looks at nothing by itself."""


def with_worker(folder: Path, body: Callable[[SharedStore], Awaitable[None]], times: PeerTimes) -> None:
    async def run() -> None:
        lock = hold_file(folder / "store.db")
        store = await open_shared_sqlite_store(folder / "store.db", bounds=NO_DELAYS, times=times)
        try:
            async with asyncio.timeout(30):
                await body(store)
        finally:
            await store.aclose()
            lock.release()

    asyncio.run(run())


def backend_of(store: SharedStore) -> SharedBackend:
    return cast(SharedBackend, store._backend)


async def let_die(store: SharedStore, *turns: Opened) -> None:
    """Store turns of a worker whose lease has expired."""
    backend = backend_of(store)
    assert isinstance(backend, SharedSqliteBackend)
    await backend.renew("dead", -1.0)
    dead = SharedSqliteBackend(backend._writer, backend._readers, worker="dead", clock=store._clock)
    for turn in turns:
        await dead.open_background(turn, f"token of {turn.id}")


async def status_of(store: SharedStore, id: str = "resp_1") -> str:
    stored = await store.get(LOCAL, id)
    return stored.status if stored is not None else ""


def code_of(log: list[LoggedEvent]) -> str:
    code: str = msgspec.json.decode(log[-1].data)["response"]["error"]["code"]
    return code


# Contact


def test_a_worker_takes_nothing_over_before_it_had_contact_for_a_lease(tmp_path: Path) -> None:
    async def body(store: SharedStore) -> None:
        peers = store._peers
        await let_die(store, opened("resp_1"))
        await peers._take_over_orphans()
        assert await peers.owner(LOCAL, "resp_1") == "dead", "it has just joined"
        assert peers._contact_since is not None
        peers._contact_since -= ASLEEP.lease
        await peers._take_over_orphans()
        await until(lambda: is_status(store, "failed"))

    async def is_status(store: SharedStore, status: str) -> bool:
        return await status_of(store) == status

    with_worker(tmp_path, body, ASLEEP)


@pytest.mark.parametrize("is_lost", [True, False], ids=["it lost contact", "it was stopped for a lease"])
def test_contact_begins_again(tmp_path: Path, is_lost: bool) -> None:
    async def body(store: SharedStore) -> None:
        peers = store._peers
        assert peers.has_contact
        assert peers._contact_since is not None
        peers._contact_since = None if is_lost else peers._contact_since - 90.0
        peers._renewed_at -= 0.0 if is_lost else 70.0
        assert not peers.has_contact
        assert store.is_unavailable
        await let_die(store, opened("resp_1"))
        await peers._renew()
        assert peers.has_contact
        await peers._take_over_orphans()
        assert await peers.owner(LOCAL, "resp_1") == "dead", "the others could not renew either"

    with_worker(tmp_path, body, ASLEEP)


def test_a_store_that_cannot_be_reached_is_tried_again(tmp_path: Path) -> None:
    async def body(store: SharedStore) -> None:
        renew, attempts = store._peers._backend.renew, 0

        async def fail(worker: str, lease: float) -> None:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise StoreError(StoreError.IO, "the store could not be written")
            await renew(worker, lease)

        store._peers._backend.renew = fail  # type: ignore[method-assign]
        await until(lambda: store.is_unavailable)
        await until(lambda: not store.is_unavailable)
        assert attempts >= 3

    with_worker(tmp_path, body, FAST)


# Turns of dead workers


def test_all_turns_of_a_dead_worker_are_taken_over_at_once(tmp_path: Path) -> None:
    async def body(store: SharedStore) -> None:
        ids = [f"resp_{number}" for number in range(120)]
        await let_die(store, *(opened(id) for id in ids))
        assert store._peers._contact_since is not None
        store._peers._contact_since -= ASLEEP.lease
        await store._peers._take_over_orphans()
        for id in ids:
            assert code_of(await read(store, id)) == "worker_lost"
            assert await status_of(store, id) == "failed"

    with_worker(tmp_path, body, ASLEEP)


@for_two_workers
async def test_a_log_that_cannot_be_read_now_is_read_later(first: SharedStore, second: SharedStore) -> None:
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 3))
    await first.settle("resp_1")
    read_events, failures = second._backend.events, 0

    async def fail(tenant: str, id: str, after: int) -> list[LoggedEvent]:
        nonlocal failures
        failures += 1
        if failures < 3:
            raise StoreError(StoreError.IO, "the disk reports an I/O error")
        return await read_events(tenant, id, after)

    second._backend.events = fail  # type: ignore[method-assign]
    await stop_renewing(first)
    await until(lambda: failures > 3)
    log = await read(second, "resp_1")
    assert log[:3] == events(0, 3)
    assert code_of(log) == "worker_lost"


@for_two_workers
async def test_a_log_that_can_never_be_read_ends_nevertheless(
    first: SharedStore, second: SharedStore
) -> None:
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 3))
    await first.settle("resp_1")
    read_events, failures = second._backend.events, 0

    async def fail(tenant: str, id: str, after: int) -> list[LoggedEvent]:
        nonlocal failures
        failures += 1
        if failures == 1:
            raise msgspec.DecodeError("damaged")
        return await read_events(tenant, id, after)

    second._backend.events = fail  # type: ignore[method-assign]
    await stop_renewing(first)
    await until(lambda: failures > 0)
    log = await read(second, "resp_1")
    assert [each.sequence for each in log] == [0, 1, 2, 3], "the numbers continue"
    assert code_of(log) == "worker_lost"


@for_two_workers
async def test_a_host_that_fails_to_start_a_turn_lets_it_end(first: SharedStore, second: SharedStore) -> None:
    class FailingHost(NotingHost):
        async def start(self, turn: Opened, last_sequence: int) -> bool:  # noqa: ARG002
            raise RuntimeError("the host has a bug")

    second.attach(FailingHost())
    await first.open(BACKGROUND, patience=30)
    await stop_renewing(first)
    log = await read(second, "resp_1")
    assert code_of(log) == "worker_lost"


@for_two_workers
async def test_work_is_handed_over_when_the_store_can_be_reached_again(
    first: SharedStore, second: SharedStore
) -> None:
    second.attach(host := NotingHost())
    await first.open(BACKGROUND, patience=30)
    backend = backend_of(first)
    hand_over, failures = backend.hand_over, 0

    async def fail(token: str) -> None:
        nonlocal failures
        failures += 1
        if failures < 20:  # for longer than a lease
            raise StoreError(StoreError.IO, "the store could not be written")
        await hand_over(token)

    backend.hand_over = fail  # type: ignore[method-assign]
    await first.hand_over("resp_1")
    assert failures == 1
    await until(lambda: bool(host.started))
    assert failures == 20


@for_two_workers
async def test_a_started_turn_continues_its_log(first: SharedStore, second: SharedStore) -> None:
    host = NotingHost()
    second.attach(host)
    await first.open(BACKGROUND, patience=30)
    first.log("resp_1", [event(0)])
    await first.settle("resp_1")
    reader = asyncio.create_task(read(second, "resp_1"))
    await stop_renewing(first)
    await until(lambda: bool(host.started))
    late = asyncio.create_task(read(second, "resp_1"))
    await asyncio.sleep(0.01)
    second.log("resp_1", events(1, 4))
    await second.close("resp_1", closed("resp_1"), patience=30)
    assert await reader == events(0, 4), "a reader moves from one worker to the other"
    assert await late == events(0, 4), "what the other worker has stored comes first"


@for_two_workers
async def test_a_worker_can_take_back_what_it_has_lost(first: SharedStore, second: SharedStore) -> None:
    """It was stopped, lost its turn to another one, and that one died."""
    host = NotingHost()
    first.attach(host)
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", [event(0)])
    await first.settle("resp_1")
    await stop_renewing(first)
    await stop_renewing(second)
    earlier = first._turns["resp_1"]
    backend, other = backend_of(second), second._peers.worker
    await until(lambda: is_done(lambda: backend.claim_orphans(other, 1)))
    await backend.renew(other, -1.0)
    await first._peers._renew()
    first._peers._contact_since = 0.0
    await first._peers._take_over_orphans()  # before it looks at its own turns
    await until(lambda: earlier.is_taken_over)
    assert host.lost == ["resp_1"]
    log = await read(first, "resp_1")
    assert [each.sequence for each in log] == [0, 1]
    assert code_of(log) == "worker_lost"


async def is_done(action: Callable[[], Awaitable[object]]) -> bool:
    return bool(await action())


@for_two_workers
async def test_a_reader_at_the_worker_that_lost_a_turn_gets_its_end(
    first: SharedStore, second: SharedStore
) -> None:
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 2))
    await first.settle("resp_1")
    reader = asyncio.create_task(read(first, "resp_1"))
    follow_up = asyncio.create_task(first.chain(LOCAL, "resp_1"))
    await stop_renewing(first)
    await until(lambda: is_status(second, "failed"))
    await resume_renewing(first)
    log = await reader
    assert log[:2] == events(0, 2)
    assert code_of(log) == "worker_lost"
    chain = await follow_up
    assert chain is not None
    assert [turn.status for turn in chain] == ["failed"], "as the store has it"
    assert await status_of(first) == "failed"
    assert not await first.close("resp_1", closed("resp_1", "out_1"), patience=30)


@for_two_workers
async def test_the_logs_of_two_workers_that_ended_a_turn_are_not_mixed(
    first: SharedStore, second: SharedStore
) -> None:
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 3))
    await first.settle("resp_1")
    with patch.object(first._writer, "_start_in"):  # it is cut off from the store
        first.log("resp_1", events(3, 9))
        assert not await first.close("resp_1", closed("resp_1"), patience=0)
        await stop_renewing(first)
        await until(lambda: is_status(second, "failed"))
        assert await first.events_so_far(LOCAL, "resp_1") == events(0, 9)
        assert await read(first, "resp_1") == events(0, 9)
    log = await read(second, "resp_1")
    assert log[:3] == events(0, 3)
    assert code_of(log) == "worker_lost"


async def is_status(store: SharedStore, status: str) -> bool:
    return await status_of(store) == status


# Forgotten turns and keys


@for_two_workers
async def test_a_turn_that_its_own_worker_forgot_ends(first: SharedStore, second: SharedStore) -> None:
    """As if its end could not be written, and was discarded."""
    await first.open(opened("resp_1"), patience=30)
    first._writer.lose(first._turns["resp_1"])
    assert not await first.close("resp_1", closed("resp_1"), patience=30)
    assert code_of(await read(second, "resp_1")) == "worker_lost"
    assert await status_of(first) == "failed"


@for_two_workers
async def test_a_forgotten_background_turn_is_not_started(first: SharedStore, second: SharedStore) -> None:
    hosts = NotingHost(), NotingHost()
    first.attach(hosts[0])
    second.attach(hosts[1])
    await backend_of(first).open_background(BACKGROUND, "a token")
    assert code_of(await read(second, "resp_1")) == "worker_lost"
    assert not [turn for host in hosts for turn in host.started]


@for_two_workers
async def test_a_background_turn_that_was_stored_too_late_is_deleted(
    first: SharedStore, second: SharedStore
) -> None:
    with pytest.raises(StoreError):
        await first.open(BACKGROUND, patience=0)
    await until(lambda: is_gone(first, second))
    assert await backend_of(first).claimed(first._peers.worker) == []


async def is_gone(first: SharedStore, second: SharedStore) -> bool:
    await first._writer.flush()
    return await second.get(LOCAL, "resp_1") is None


@for_two_workers
async def test_a_key_is_held_by_one_worker(first: SharedStore, second: SharedStore) -> None:
    assert await first.hold(LOCAL, "key", b"first") is None
    assert await second.hold(LOCAL, "key", b"second") == HeldKey(b"first", is_alive=True)
    assert await second.hold("another tenant", "key", b"second") is None
    await second.release(LOCAL, "key")
    held = await second.hold(LOCAL, "key", b"second")
    assert held == HeldKey(b"first", is_alive=True), "it is not the second worker's"
    await first.release(LOCAL, "key")
    assert await second.hold(LOCAL, "key", b"second") is None


@for_two_workers
async def test_a_key_of_a_dead_worker_stays_held(first: SharedStore, second: SharedStore) -> None:
    assert await first.hold(LOCAL, "key", b"first") is None
    await stop_renewing(first)

    async def is_orphaned() -> bool:
        return await second.hold(LOCAL, "key", b"second") == HeldKey(b"first", is_alive=False)

    await until(is_orphaned)
    await second._peers._take_over_orphans()  # which forgets dead workers
    assert await is_orphaned()


@for_two_workers
async def test_a_retired_key_cannot_be_held_for_a_while(first: SharedStore, second: SharedStore) -> None:
    for key, seconds in (("key", 60.0), ("old key", -1.0)):
        await first.hold(LOCAL, key, b"first")
        await first.retire(LOCAL, key, b"answered", seconds)
    for store in (first, second):
        assert await store.hold(LOCAL, "key", b"") == HeldKey(b"answered", is_alive=False)
    assert await second.hold(LOCAL, "old key", b"") is None


@for_two_workers
async def test_a_key_is_retired_later_if_need_be(first: SharedStore, second: SharedStore) -> None:
    retire, error = first._peers._backend.retire, StoreError(StoreError.IO, "no")
    with patch.object(first._peers._backend, "retire", side_effect=error) as failing:
        await first.hold(LOCAL, "key", b"first")
        with pytest.raises(StoreError):
            await first.retire(LOCAL, "key", b"answered", 60)
        failing.side_effect = retire
        await until_retired(second)


async def until_retired(store: SharedStore) -> None:
    async def is_retired() -> bool:
        return await store.hold(LOCAL, "key", b"") == HeldKey(b"answered", is_alive=False)

    await until(is_retired)


@for_two_workers
async def test_a_key_is_released_later_if_need_be(first: SharedStore, second: SharedStore) -> None:
    release, failures = first._peers._backend.release, 0

    async def fail(tenant: str, key: str, worker: str) -> None:
        nonlocal failures
        failures += 1
        if failures == 1:
            raise StoreError(StoreError.LOCKED, "another program holds a lock on it")
        await release(tenant, key, worker)

    first._peers._backend.release = fail  # type: ignore[method-assign]
    assert await first.hold(LOCAL, "key", b"first") is None
    with pytest.raises(StoreError):
        await first.release(LOCAL, "key")

    async def is_free() -> bool:
        return await second.hold(LOCAL, "key", b"second") is None

    await until(is_free)


@for_two_workers
async def test_a_key_that_is_held_again_while_it_is_released_stays_held(
    first: SharedStore, second: SharedStore
) -> None:
    release, may_go_on = first._peers._backend.release, asyncio.Event()

    async def wait(tenant: str, key: str, worker: str) -> None:
        await may_go_on.wait()
        await release(tenant, key, worker)

    with patch.object(first._peers._backend, "release", side_effect=wait):
        assert await first.hold(LOCAL, "key", b"first") is None
        releasing = asyncio.create_task(first.release(LOCAL, "key"))
        await asyncio.sleep(0)
        holding = asyncio.create_task(first.hold(LOCAL, "key", b"again"))
        await asyncio.sleep(0.05)
        may_go_on.set()
        await asyncio.gather(releasing, holding)
    assert await second.hold(LOCAL, "key", b"second") == HeldKey(b"again", is_alive=True)


@for_two_workers
async def test_a_key_whose_request_was_cancelled_meanwhile_is_released(
    first: SharedStore, second: SharedStore
) -> None:
    holding = asyncio.create_task(first.hold(LOCAL, "key", b"first"))
    await asyncio.sleep(0)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)

    async def is_free() -> bool:
        return await second.hold(LOCAL, "key", b"second") is None

    await first._writer.flush()
    await until(is_free)


# Following


@for_two_workers
async def test_an_owner_knows_that_its_turn_is_followed_elsewhere(
    first: SharedStore, second: SharedStore
) -> None:
    """A client that reconnects to another worker keeps its turn running (decision 16)."""
    host = NotingHost()
    first.attach(host)
    await first.open(opened("resp_1"), patience=30)
    reader = asyncio.create_task(read(second, "resp_1"))
    await until(lambda: host.follows == [("resp_1", True)])
    await first.close("resp_1", closed("resp_1"), patience=30)
    await reader
    await until(lambda: host.follows == [("resp_1", True), ("resp_1", False)])


@for_two_workers
async def test_followers_end_when_their_worker_closes(first: SharedStore, second: SharedStore) -> None:
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 2))
    await first.settle("resp_1")
    reader = asyncio.create_task(read(second, "resp_1"))
    waiting = asyncio.create_task(second.chain(LOCAL, "resp_1"))
    await until(lambda: bool(second._news._followed))
    await asyncio.sleep(0.02)
    await second.aclose()
    assert await reader == events(0, 2)
    with pytest.raises(StoreError):
        await waiting
    assert not second._news._followed
    assert await first.close("resp_1", closed("resp_1"), patience=30)


@for_two_workers
async def test_a_reader_that_stops_leaves_nothing_behind(first: SharedStore, second: SharedStore) -> None:
    await first.open(opened("resp_1"), patience=30)
    first.log("resp_1", events(0, 2))
    reader = second.events(LOCAL, "resp_1")
    assert await anext(reader) == event(0)
    assert second._news._followed
    await reader.aclose()
    assert not second._news._followed
