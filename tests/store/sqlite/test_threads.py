"""Threads in the file: what is not written yet, and a file of an older version."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from penstock.store.records import LOCAL
from penstock.store.sqlite.schema import STEPS, migrate
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import closed, complete_turn, opened
from tests.store.sqlite.stores import stuck_disk, use_store


def test_a_turn_that_is_not_written_yet_continues_another(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        await complete_turn(store, "a")
        async with stuck_disk(store):
            await store.open(opened("b", previous="a"), patience=0)
            assert await store.continuations(LOCAL, "a") == ["b"]
        await store.close("b", closed("b"), patience=30)
        assert await store.continuations(LOCAL, "a") == ["b"]

    use_store(tmp_path / "store.db", check)


def test_chains_of_an_older_file_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    file = sqlite3.connect(path, isolation_level=None)
    migrate(file, STEPS[:7])
    for number, previous in enumerate((None, "resp_0", "resp_1")):
        file.execute(
            "INSERT INTO responses (tenant, id, created_at, ended_at, status, previous_id, is_background, "
            "request, response) VALUES (?, ?, ?, 9.0, 'completed', ?, 0, x'', x'')",
            (LOCAL, f"resp_{number}", number, previous),
        )
    file.close()

    async def check(store: SqliteStore) -> None:
        [thread] = (await store.threads(LOCAL)).threads
        assert (thread.id, thread.turns, thread.last_id, thread.changed_at) == ("resp_0", 3, "resp_2", 2.0)

    use_store(path, check)
