"""The ledger in the file: its columns, interrupted turns, and numbers that do not fit."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.store import ledger_tables
from penstock.store.ledger import HOUR, Dimension, TurnFilter, TurnRecord
from penstock.store.sqlite import ledger
from penstock.store.sqlite.archive import SqliteArchive
from penstock.store.sqlite.file import connect
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import Clock
from tests.store.ledger_records import NOON, ended, started
from tests.store.sqlite.stores import do_nothing, use_store

EVERYTHING = TurnFilter()


def test_every_field_of_a_record_is_a_column(tmp_path: Path) -> None:
    use_store(tmp_path / "store.db", do_nothing)
    with sqlite3.connect(tmp_path / "store.db") as file:
        columns = [row[1] for row in file.execute("PRAGMA table_info(turns)")]
    file.close()
    assert columns == [*TurnRecord.__struct_fields__, "search", "worker"]


def test_a_turn_of_a_killed_process_is_settled_when_the_store_is_opened(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock(NOON)
    use_store(path, do_nothing, clock=clock)
    with sqlite3.connect(path) as file:  # as if the process had been killed: the store never settles it
        ledger.write_records(file, [started("resp_1", tokens=100, cost=0.5)])
    file.close()
    clock.now += 9.0

    async def check(store: SqliteStore) -> None:
        [record] = (await store.turns(EVERYTHING)).turns
        assert (record.outcome, record.closer, record.code) == ("failed", "gateway", "gateway_restarted")
        assert (record.ended_at, record.duration_ms) == (NOON + 9, 9000)
        assert (record.input_tokens, record.output_tokens, record.cost) == (0, 0, None)
        assert record.usage_estimated
        [totals] = await store.totals(EVERYTHING, ("key",))
        assert (totals.group, totals.turns, totals.failed) == ({"key": "alice"}, 1, 1)

    use_store(path, check, clock=clock)
    use_store(path, check, clock=clock)  # and only once


def test_numbers_and_texts_that_do_not_fit_are_written_as_near_as_possible(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        odd = replace(
            ended(started("resp_1")), input_tokens=10**30, cost=float("inf"), model="\ud800", code="ü"
        )
        store.settle_turn(odd)
        store.settle_turn(ended(started("resp_2"), tokens=2))
        by_id = {record.id: record for record in (await store.turns(EVERYTHING)).turns}
        assert by_id["resp_1"].input_tokens == 2**40
        assert (by_id["resp_1"].cost, by_id["resp_1"].model, by_id["resp_1"].code) == (0.0, "?", "ü")
        [totals] = await store.totals(EVERYTHING, ())
        assert totals.turns == 2

    use_store(tmp_path / "store.db", check)


def test_the_archive_reads_the_ledger_while_a_gateway_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def check(store: SqliteStore) -> None:
        for number in range(3):
            store.settle_turn(ended(started(f"resp_{number}", NOON + number), tokens=10))
        await store.admit(started("resp_9", NOON + 9, tenant="bob"))
        await store.totals(EVERYTHING, ())  # everything is written
        with SqliteArchive(path) as archive:
            page = archive.turns(EVERYTHING, limit=3)
            assert [turn.id for turn in page.turns] == ["resp_9", "resp_2", "resp_1"]
            assert [turn.id for turn in archive.turns(EVERYTHING, after=page.next).turns] == ["resp_0"]
            assert [totals.turns for totals in archive.totals(EVERYTHING, ("day",))] == [3]
            assert archive.last_used() == {"alice": NOON + 2, "bob": NOON + 9}

    use_store(path, check)


def test_a_report_reads_sums_instead_of_turns(tmp_path: Path) -> None:
    """Only the hours at both ends of the time are read turn by turn."""
    path = tmp_path / "store.db"

    async def fill(store: SqliteStore) -> None:
        for number in range(300):
            store.settle_turn(ended(started(f"resp_{number}", NOON - number * HOUR), tokens=1))

    use_store(path, fill)
    with SqliteArchive(path) as archive:
        whole = archive.totals(EVERYTHING, ())
        cut = archive.totals(TurnFilter(since=NOON - 100.5 * HOUR, until=NOON + 1), ())
    assert ([each.turns for each in whole], [each.turns for each in cut]) == ([300], [101])
    file = sqlite3.connect(path)
    with file:
        file.execute("DELETE FROM turns")
    days: Sequence[Dimension] = ("key", "day")
    assert sum(each.turns for each in ledger.totals(file, EVERYTHING, days)) == 300
    # Noon itself is in an hour that is not over.
    [rest] = ledger.totals(file, TurnFilter(since=NOON - 100.5 * HOUR, until=NOON + 1), ())
    assert rest.turns == 100
    file.close()


def test_the_size_of_the_ledger_does_not_displace_responses(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        for number in range(2000):
            store.settle_turn(ended(started(f"resp_{number}", NOON + number)))
        await store.totals(EVERYTHING, ())
        used = (await store.stats()).bytes
        size = await store._writer.do(ledger.approximate_bytes)
        assert used * 0.5 < size < used * 2

    use_store(tmp_path / "store.db", check)


@pytest.mark.parametrize(("by", "table"), [("hour", "turn_hours"), ("day", "turn_days")])
def test_sums_are_added_up_in_the_order_of_their_rows(tmp_path: Path, by: Dimension, table: str) -> None:
    path, queries = tmp_path / "store.db", list[str]()
    use_store(path, do_nothing)
    connection = connect(path, 0)
    connection.set_trace_callback(queries.append)
    ledger.totals(connection, EVERYTHING, ("key", by))
    connection.set_trace_callback(None)
    [source] = re.findall(rf"SELECT (?:(?!SELECT).)*? FROM {table} .*?GROUP BY hour, tenant", queries[0])
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {source}")]
    connection.close()
    assert plan == [f"SEARCH {table} USING PRIMARY KEY (hour>? AND hour<?)"]  # and nothing is sorted


def test_a_turn_is_looked_up_by_its_primary_key(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    use_store(path, do_nothing)
    with sqlite3.connect(path) as file:
        query = f"SELECT rowid FROM {ledger.indexed(TurnFilter(id='x'))} WHERE id = ?"
        plan = file.execute(f"EXPLAIN QUERY PLAN {query}", "x")
        details = [row[3] for row in plan]
    file.close()
    assert [each for each in details if each.startswith("SEARCH turns USING")] == details


def test_rows_that_cannot_be_read_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.db"
    ledger_tables._report_unreadable.cache_clear()

    async def check(store: SqliteStore) -> None:
        for number in range(4):
            store.settle_turn(ended(started(f"resp_{number}", NOON + number)))
        await store.stats()  # what is damaged next is written
        with sqlite3.connect(path) as file:
            file.execute("UPDATE turns SET diagnostics = '[' WHERE id = 'resp_1'")
            file.execute("UPDATE turns SET model = x'ff00' WHERE id = 'resp_2'")
        file.close()
        assert [each.id for each in (await store.turns(EVERYTHING)).turns] == ["resp_3", "resp_0"]
        page = await store.turns(EVERYTHING, limit=3)
        assert [each.id for each in page.turns] == ["resp_3"]
        assert [each.id for each in (await store.turns(EVERYTHING, after=page.next)).turns] == ["resp_0"]
        for by in ((), ("model",)):
            assert sum(each.turns for each in await store.totals(EVERYTHING, by)) == 4
            assert await store.latencies(replace(EVERYTHING, since=NOON + 0.5), by)

    use_store(path, check)
    assert [each.getMessage() for each in caplog.records if "cannot be read" in each.getMessage()] == [
        "a row of the ledger cannot be read: such rows are left out"
    ]
