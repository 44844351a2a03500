"""Moving a file into a database: everything is the same afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store import import_file, open_archive
from penstock.store.contract import StoreArchive
from penstock.store.export import export_all
from penstock.store.ledger import DIMENSIONS, Budget, KeyLimits, TurnFilter
from penstock.store.records import LOCAL, Imported, StoredConversation, StoredItem
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.builders import NO_DELAYS, Clock, closed, complete_turn, events, item, opened, trace
from tests.store.ledger_records import NOON, ended, started
from tests.store.postgres.databases import on_postgres, rows, worker_on

DAY = 86_400.0


class _InterruptedImport(Exception):  # noqa: N818 - named after what happened
    """The import was interrupted."""


@contextmanager
def file_of_a_store() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "responses.sqlite"


async def fill(file: Path) -> None:
    clock = Clock(NOON - 20 * DAY)
    store = await open_sqlite_store(file, clock=clock, bounds=NO_DELAYS)
    for number in range(3):
        conversation = StoredConversation(f"conv_{number}", number, b'{"n":"%d"}' % number)
        await store.create_conversation(LOCAL, conversation)
        clock.now += 1
        await store.add_items(LOCAL, f"conv_{number}", [item("talk", "a"), item("talk", "b")])
    for number in range(250):
        clock.now += 3_600
        id, tenant = f"resp_{number}", LOCAL if number % 5 else "other"
        previous = f"resp_{number - 5}" if number % 25 > 5 else None
        turn = opened(id, f"in_{number}", "again", tenant=tenant, previous=previous, conversation="conv_1")
        turn = replace(turn, created_at=int(clock.now), is_background=number % 7 == 0, accent="copilot")
        await store.open(turn, patience=30)
        store.log(id, events(0, number % 40))
        store.trace(id, [trace(size) for size in range(number % 4)])
        await store.remember(tenant, id, f"key_{number % 90}", b"%d" % number)
        status = ("completed", "failed", "cancelled")[number % 3]
        await store.close(id, closed(id, f"out_{number}", status=status), patience=30)
        if number % 2:
            record = ended(started(id, clock.now, tenant=tenant), tokens=number, cost=number / 8)
            store.settle_turn(replace(record, first_output_ms=number, duration_ms=number * 9))
    large = StoredItem("large", b'"' + b"x" * 2_000_000 + b'"')
    await store.open(replace(opened("resp_large"), input=(large,)), patience=30)
    await store.close("resp_large", replace(closed("resp_large"), response=large.data), patience=30)
    await store.admit(started("resp_open", clock.now))
    await store.prune_ledger(older_than=NOON - 15 * DAY)
    await store.open(opened("resp_cut", "in_cut"), patience=30)
    store.log("resp_cut", events(0, 3))
    await store.stats()
    await store.aclose()


def exported(archive: StoreArchive) -> list[bytes]:
    return [line for line in export_all(archive, 0.0) if b'"resp_cut"' not in line]


def compare(file: Path, url: str) -> None:
    with open_archive(file) as old, open_archive(url) as new:
        lines = exported(old)
        assert exported(new) == lines
        assert len(lines) == 254
        for one, other in zip(old.responses(), new.responses(), strict=True):
            if one.id != "resp_cut":
                assert replace(other, has_log=True) == one
        cut = new.find("resp_cut")
        assert cut is not None
        assert cut.status == "failed"
        assert b"gateway_restarted" in cut.response
        log = new.events(LOCAL, "resp_cut")
        assert log[:3] == events(0, 3)
        assert b'"response.failed"' in log[-1].data
        records = [turn for turn in old.turns(TurnFilter(), limit=1_000).turns if turn.id != "resp_open"]
        moved = new.turns(TurnFilter(), limit=1_000).turns
        assert [turn for turn in moved if turn.id != "resp_open"] == records
        [interrupted] = [turn for turn in moved if turn.id == "resp_open"]
        assert (interrupted.outcome, interrupted.code) == ("failed", "gateway_restarted")
        without = TurnFilter(outcome="completed")
        for by in ((), *((dimension,) for dimension in DIMENSIONS), DIMENSIONS):
            assert new.totals(without, by) == old.totals(without, by)


@on_postgres
async def test_everything_is_the_same_after_an_import_and_after_a_repeated_one(url: str) -> None:
    with file_of_a_store() as file:
        await fill(file)
        seen: list[int] = []

        def note(so_far: Imported) -> None:
            seen.append(so_far.responses)

        done = await asyncio.to_thread(import_file, file, url, note)
        assert (done.responses, done.conversations, done.known) == (252, 3, 0)
        assert seen[-1] == 252
        await asyncio.to_thread(compare, file, url)
        memories = "SELECT tenant, key, data FROM penstock.memories ORDER BY 1, 2"
        days = "SELECT * FROM penstock.tenant_days ORDER BY 1, 2"
        before = await rows(url, memories), await rows(url, days)
        assert len(before[0]) == 90
        assert ("local", "key_89", b"179") in before[0]
        again = await asyncio.to_thread(import_file, file, url, note)
        assert (again.responses, again.conversations, again.turns) == (0, 0, 0)
        assert again.known == done.responses + done.conversations + done.turns
        await asyncio.to_thread(compare, file, url)
        assert (await rows(url, memories), await rows(url, days)) == before


@on_postgres
async def test_an_import_that_was_interrupted_is_continued(url: str) -> None:
    with file_of_a_store() as file:
        await fill(file)

        def fail(so_far: Imported) -> None:
            if so_far.responses >= 150:
                raise _InterruptedImport

        with pytest.raises(_InterruptedImport):
            await asyncio.to_thread(import_file, file, url, fail)
        assert 150 <= len(await rows(url, "SELECT id FROM penstock.responses")) < 252
        await asyncio.to_thread(import_file, file, url, lambda _: None)
        await asyncio.to_thread(compare, file, url)


@on_postgres
async def test_what_was_imported_can_be_used(url: str) -> None:
    with file_of_a_store() as file:
        await fill(file)
        await asyncio.to_thread(import_file, file, url, lambda _: None)
        old = await open_sqlite_store(file)
        times = await old.latencies(TurnFilter(outcome="completed"), DIMENSIONS)
        await old.aclose()
    async with worker_on(url) as store:
        assert await store.latencies(TurnFilter(outcome="completed"), DIMENSIONS) == times != []
        assert await store.causes(TurnFilter()) == [("gateway_restarted", 1)]
        chain = await store.chain("other", "resp_20")
        assert chain is not None
        assert [turn.id for turn in chain] == ["resp_5", "resp_10", "resp_15", "resp_20"]
        assert await complete_turn(store, "resp_new", previous="resp_21")
        assert await store.recall(LOCAL, ["key_89"]) == {"key_89": b"179"}
        limits = KeyLimits(budgets=(Budget(1, "tokens", "month"),))
        assert await store.admit(started("x", NOON - 15 * DAY, tenant="local"), limits) is not None


@on_postgres
async def test_a_file_that_a_gateway_uses_is_not_imported(url: str) -> None:
    with file_of_a_store() as file:
        store = await open_sqlite_store(file)
        with pytest.raises(StoreError) as caught:
            import_file(file, url, lambda _: None)
        assert caught.value.code == StoreError.LOCKED
        await store.aclose()
        with pytest.raises(StoreError) as caught:
            import_file(file.with_name("missing.sqlite"), url, lambda _: None)
        assert caught.value.code == StoreError.MISSING
