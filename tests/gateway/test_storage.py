"""The store of a gateway: where it is, and that it does not grow forever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.gateway.settings import Limits
from penstock.gateway.storage import (
    default_path,
    open_gateway_store,
    own_files,
    prune_regularly,
    secret_folder,
)
from penstock.store.contract import Store
from penstock.store.ledger import TurnFilter
from penstock.store.memory import MemoryStore
from penstock.store.records import Closed, Opened
from tests.client.server import run
from tests.store.builders import Clock
from tests.store.ledger_records import ended, started

DAY = 86400


async def keep(store: Store, id: str) -> None:
    await store.open(Opened(id=id, created_at=1, response=b"{}"))
    await store.close(id, Closed(status="completed", response=b"{}"))


@asynccontextmanager
async def pruning(store: Store, limits: Limits, *, every: float = 0) -> AsyncIterator[None]:
    """Pruning that has run once, and without `every` several times."""
    task = asyncio.create_task(prune_regularly(store, lambda: limits, every=every))
    for _ in range(50):
        await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def days_of(store: Store) -> list[int]:
    return [day for day in range(5) if await store.get("local", f"resp_{day}")]


def test_what_is_too_old_goes_and_the_rest_stays() -> None:
    async def kept() -> list[int]:
        clock = Clock(0)
        store = MemoryStore(clock=clock)
        for day in range(5):
            clock.now = day * DAY
            await keep(store, f"resp_{day}")
        clock.now = 5 * DAY
        async with pruning(store, Limits(store_days=3)):
            found = await days_of(store)
        await store.aclose()
        return found

    assert run(kept()) == [2, 3, 4]


def test_nothing_goes_for_its_age_when_the_gateway_starts() -> None:
    async def kept() -> list[int]:
        clock = Clock(0)
        store = MemoryStore(clock=clock)
        await keep(store, "resp_0")
        for _ in range(40 * 4):  # the store has seen all of this time
            clock.now += DAY / 4
            await store.advance_time()
        async with pruning(store, Limits(store_days=3), every=3600):
            return await days_of(store)

    assert run(kept()) == [0]


def test_the_ledger_has_a_retention_of_its_own() -> None:
    async def kept() -> list[str]:
        clock = Clock(0)
        store = MemoryStore(clock=clock)
        for day in range(5):
            clock.now = day * DAY
            store.settle_turn(ended(started(f"resp_{day}", clock.now)))
            await keep(store, f"resp_{day}")
        clock.now = 5 * DAY
        async with pruning(store, Limits(store_days=1, ledger_days=3)):
            turns = (await store.turns(TurnFilter())).turns
        await store.aclose()
        return [turn.id for turn in turns]

    assert run(kept()) == ["resp_4", "resp_3", "resp_2"]


class Counting(MemoryStore):
    """Counts how often a worker asks whether it prunes by age, and how often one does."""

    asked = pruned = 0

    async def advance_time(self, *, every: float = 0.0) -> float | None:
        self.asked += 1
        return await super().advance_time(every=every)

    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:
        self.pruned += older_than > 0
        return await super().prune(older_than=older_than, most_bytes=most_bytes)


def test_of_several_workers_one_prunes_each_time() -> None:
    async def counts() -> list[int]:
        clock, found = Clock(100 * DAY), []
        store = Counting(clock=clock)
        async with pruning(store, Limits(), every=1e-6), pruning(store, Limits(), every=1e-6):
            for _ in range(3):
                before, clock.now = store.asked, clock.now + 1
                while store.asked < before + 10:
                    await asyncio.sleep(0)
                found.append(store.pruned)
        return [each - found[0] for each in found]

    assert run(counts()) == [0, 1, 2]


class Broken(MemoryStore):
    async def prune(self, *, older_than: float, most_bytes: int | None = None) -> int:  # noqa: ARG002
        raise StoreError(StoreError.UNWRITABLE, "no room")


def test_a_store_that_cannot_be_tidied_is_tried_again() -> None:
    async def twice() -> bool:
        task = asyncio.create_task(prune_regularly(Broken(), Limits, every=0))
        for _ in range(20):
            await asyncio.sleep(0)
        alive = not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return alive

    assert run(twice())


# Which store


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/me"}, "/data/penstock"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/me"}, "/home/me/.local/share/penstock"),
        ({"HOME": "/home/me"}, "/home/me/.local/share/penstock"),
        ({"USERPROFILE": "/users/me"}, "/users/me/.local/share/penstock"),
        ({}, ".local/share/penstock"),
    ],
)
def test_without_a_name_the_store_is_in_the_users_data_folder(
    environment: dict[str, str], folder: str
) -> None:
    assert default_path(environment) == Path(folder) / "responses.sqlite"
    assert secret_folder("", environment) == Path(folder)


def test_the_secret_is_next_to_the_file_of_the_store() -> None:
    assert secret_folder("/srv/store.sqlite", {}) == Path("/srv")
    assert secret_folder("none", {"HOME": "/home/me"}) is None


def test_a_second_gateway_falls_back_to_memory_only_for_the_default_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 15: starting a second gateway to try something must not require naming a file first."""
    environment = {"XDG_DATA_HOME": str(tmp_path)}

    async def test() -> None:
        first = await open_gateway_store("", environment)
        await keep(first, "resp_1")
        second = await open_gateway_store("", environment)
        assert await second.get("local", "resp_1") is None
        with pytest.raises(StoreError) as caught:
            await open_gateway_store(str(default_path(environment)), {})
        assert caught.value.code == StoreError.LOCKED
        await second.aclose()
        await first.aclose()
        again = await open_gateway_store("", environment)
        assert await again.get("local", "resp_1") is not None
        await again.aclose()

    with caplog.at_level(logging.WARNING):
        run(test())
    assert len(caplog.records) == 1
    assert "--store" in caplog.text


def test_none_keeps_nothing_on_the_disk(tmp_path: Path) -> None:
    async def test() -> None:
        store = await open_gateway_store("none", {"XDG_DATA_HOME": str(tmp_path)})
        await keep(store, "resp_1")
        await store.aclose()

    run(test())
    assert list(tmp_path.iterdir()) == []


def test_something_else_can_be_pruned_each_time() -> None:
    calls = []

    async def also() -> None:
        calls.append(1)

    async def prune() -> None:
        task = asyncio.create_task(prune_regularly(MemoryStore(), Limits, every=0, also=also))
        async with asyncio.timeout(10):
            while len(calls) < 3:
                await asyncio.sleep(0)
        task.cancel()

    asyncio.run(prune())


def test_a_private_gateway_has_more_files_than_one_in_the_same_folder(tmp_path: Path) -> None:
    assert own_files("none", {}) == ["none"]
    first, second, *_ = own_files("", {"XDG_DATA_HOME": str(tmp_path)})
    assert first == str(default_path({"XDG_DATA_HOME": str(tmp_path)}))
    assert second == str(tmp_path / "penstock" / "responses-2.sqlite")
    named = own_files(str(tmp_path / "mine.db"), {})
    assert named[:2] == [str(tmp_path / "mine.db"), str(tmp_path / "mine-2.db")]
    assert len(set(named)) == len(named)
    assert len({secret_folder(each, {}) for each in named}) == 1
