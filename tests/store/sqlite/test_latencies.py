"""Times and causes in the file: a file of an older version, and how they are stored."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from penstock.store.latencies import compact
from penstock.store.ledger import DIMENSIONS, HOUR, TurnFilter
from penstock.store.ledger_tables import SUMS
from penstock.store.sqlite import latencies, ledger
from penstock.store.sqlite.file import connect
from penstock.store.sqlite.schema import STEPS, migrate
from tests.store.ledger_records import NOON, started, varied

BEFORE = 8
"""The number of migration steps before times were kept."""


def file_at(path: Path, steps: int = len(STEPS)) -> sqlite3.Connection:
    connection = connect(path, 0)
    migrate(connection, STEPS[:steps])
    return connection


def test_an_older_file_gets_the_times_and_causes_of_its_turns(tmp_path: Path) -> None:
    new, old = file_at(tmp_path / "new.db"), file_at(tmp_path / "old.db", BEFORE)
    ledger.write_records(new, [*varied(600), started("running")])
    old.execute("ATTACH ? AS other", (str(tmp_path / "new.db"),))
    old.execute("INSERT INTO turns SELECT * FROM other.turns")
    columns = ", ".join(("hour", "tenant", "model", "target", "outcome", *SUMS))
    for table in ("turn_hours", "turn_days"):
        old.execute(f"INSERT INTO {table} SELECT {columns} FROM other.{table}")
    old.execute("DETACH other")
    migrate(old)
    filters = (TurnFilter(), TurnFilter(since=NOON - 99.5 * HOUR, tenant="bob"), TurnFilter(outcome="failed"))
    for filter in filters:
        assert latencies.causes(old, filter) == latencies.causes(new, filter) != []
        for by in ((), ("hour",), ("day", "model"), DIMENSIONS):
            assert latencies.latencies(old, filter, by) == latencies.latencies(new, filter, by) != []
    ledger.write_records(old, varied(700)[600:])  # it goes on as any other file
    [found] = latencies.latencies(old, TurnFilter(), ())
    assert found.duration.count == 700
    for connection in (new, old):
        connection.close()


def test_a_text_stays_short_however_many_turns_are_added(tmp_path: Path) -> None:
    file = file_at(tmp_path / "store.db")
    file.execute("BEGIN")
    ledger.write_records(file, varied(12_000))
    file.execute("COMMIT")
    rows = file.execute("SELECT latencies, turns FROM turn_days").fetchall()
    file.close()
    assert max(turns for _, turns in rows) > 500
    for text, turns in rows:
        assert len(text) <= min(len(compact(text)) + 4 * 1000, 4 * turns)
