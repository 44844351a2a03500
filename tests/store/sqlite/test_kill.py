"""`kill -9` under load, repeatedly on one file: reported ends are stored, and no turn seems to run."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from penstock.store.records import LOCAL, RUNNING
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.builders import items, read
from tests.store.sqlite.writer_process import response_of

pytestmark = pytest.mark.e2e

TIMES = 10


def test_reported_ends_survive_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    chance = random.Random(7)
    reported: dict[str, int] = {}
    opened: set[str] = set()
    for time in range(TIMES):
        for line in _run_and_kill(path, time * 1_000_000, chance.randrange(1, 1_000)):
            what, _, id = line.partition(" ")
            if what == "closed":
                reported[id] = int(id.rpartition("_")[2])
            elif what == "opened":
                opened.add(id)
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
    assert len(reported) > TIMES
    asyncio.run(_check(path, reported, opened))


def _run_and_kill(path: Path, begin: int, lines: int) -> list[str]:
    """Run the writer process, kill it after so many lines, and return its output."""
    command = [sys.executable, "-m", "tests.store.sqlite.writer_process", str(path), str(begin)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        lines_read = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        lines_read.extend(process.stdout.read().splitlines(keepends=True))
    assert process.returncode == -9
    return [line.strip() for line in lines_read if line.endswith("\n")]


async def _check(path: Path, reported: dict[str, int], opened: set[str]) -> None:
    store = await open_sqlite_store(path)
    try:
        for id, number in reported.items():
            found = await store.get(LOCAL, id)
            assert found is not None, "an end that was reported is lost"
            assert (found.status, found.response) == ("completed", response_of(id, number))
            assert [event.sequence for event in await read(store, id)] == list(range(30))
            chain = await store.chain(LOCAL, id)
            assert chain is not None
            assert chain[-1].output == items(f"out_{id}")
        failed = 0
        for id in opened - reported.keys():
            found = await store.get(LOCAL, id)
            if found is None:
                continue  # It was opened just before the kill.
            assert found.status not in RUNNING
            if found.status == "failed":
                failed += 1
                body = msgspec.json.decode(found.response)
                log = await read(store, id)
                assert body["error"]["code"] == "gateway_restarted"
                assert [event.sequence for event in log] == list(range(len(log)))
                finished = [event for event in log if b"output_item.done" in event.data]
                assert len(body["output"]) == len(finished)
        assert failed, "no turn was running when the process was killed: the test tests nothing"
    finally:
        await store.aclose()
