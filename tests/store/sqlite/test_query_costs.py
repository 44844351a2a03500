"""Queries do not get slower as the store grows, counted in steps of SQLite's virtual machine."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.store.ledger import Budget, KeyLimits, TurnFilter
from penstock.store.records import LOCAL, StoredConversation
from penstock.store.sqlite import latencies, ledger, queries, statements, threads
from penstock.store.sqlite.file import connect
from penstock.store.sqlite.store import open_sqlite_store
from tests.store.builders import closed, events, items, opened
from tests.store.ledger_records import NOON, ended, started

FEW, MANY = 50, 2_000

pytestmark = pytest.mark.e2e

QUERIES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "a response": lambda file: queries.response(file, LOCAL, "resp_20"),
    "its log": lambda file: queries.events(file, LOCAL, "resp_20", 3),
    "its traces": lambda file: queries.traces(file, LOCAL, "resp_20"),
    "its chain": lambda file: queries.chain(file, LOCAL, "resp_20"),
    "its history": lambda file: queries.history(file, LOCAL, "resp_20", False),
    "an item": lambda file: queries.items_of(file, LOCAL, ["out_20"]),
    "an item of a conversation": lambda file: queries.items_of(file, LOCAL, ["talk_20"]),
    "a memory": lambda file: queries.reasoning_memory(file, LOCAL, ["rs_20"]),
    "a conversation": lambda file: queries.conversation_items(file, LOCAL, "conv_20", None, 20, True),
    "its continuations": lambda file: threads.continuations(file, LOCAL, "resp_20"),
    "all of its chain": lambda file: threads.chain_turns(file, LOCAL, "resp_25", 20),
    "a page of threads": lambda file: threads.threads(file, LOCAL, "", 3),
    "a later page of threads": lambda file: threads.threads(file, LOCAL, "25_resp_25", 2),
    "nothing": lambda file: queries.response(file, "other", "resp_20"),
    "what is unfinished": lambda file: statements.end_unfinished(file, 1.0),
    "what is old": lambda file: statements.delete_ended(file, 0.0, 10),
    "deleting": lambda file: _deleted(file),
    "a page of the ledger": lambda file: ledger.turns(file, TurnFilter(), "", 10),
    "a later page": lambda file: ledger.turns(file, TurnFilter(tenant="alice"), f"{NOON + 30!r}_x", 10),
    "turns that run": lambda file: ledger.turns(file, TurnFilter(outcome="running"), "", 10),
    "usage by day": lambda file: ledger.totals(file, TurnFilter(), ("key", "day")),
    "times by day": lambda file: latencies.latencies(file, TurnFilter(), ("key", "day")),
    "causes": lambda file: latencies.causes(file, TurnFilter()),
    "limits": lambda file: _admitted(file),
}

LIMITS = KeyLimits(
    requests_per_minute=0, tokens_per_minute=0, concurrent_turns=0, budgets=(Budget(0.0, "tokens", "month"),)
)


def _admitted(file: sqlite3.Connection) -> None:
    assert ledger.admit(file, started("resp_new", NOON + 86_400), LIMITS) is not None


def _deleted(file: sqlite3.Connection) -> None:
    file.execute("BEGIN")
    assert statements.delete_response(file, LOCAL, "resp_25")
    file.execute("ROLLBACK")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("lookups")
    return {count: _filled(folder / f"{count}.db", count) for count in (FEW, MANY)}


def _filled(path: Path, count: int) -> Path:
    async def fill() -> None:
        store = await open_sqlite_store(path)
        for number in range(count):
            store.settle_turn(ended(started(f"resp_{number}", NOON + number / count), tokens=10))
            id = f"resp_{number}"
            previous = f"resp_{number - 1}" if number % 10 else None
            turn = opened(id, f"in_{number}", previous=previous)
            await store.open(replace(turn, created_at=number))
            store.log(id, events(0, 5))
            await store.remember(LOCAL, id, f"rs_{number}", b"secret")
            await store.close(id, closed(id, f"out_{number}"), patience=0)
            if number in (0, 20) or number % 100 == 99:
                await store.create_conversation(LOCAL, StoredConversation(f"conv_{number}", 1, b"{}"))
                await store.add_items(LOCAL, f"conv_{number}", items(f"talk_{number}"))
        await store.aclose()

    asyncio.run(fill())
    return path


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_takes_as_many_steps_in_a_large_store(files: dict[int, Path], query: str) -> None:
    few, many = (_steps(files[count], QUERIES[query]) for count in (FEW, MANY))
    assert few > 0
    assert many <= few * 1.2 + 10


def _steps(path: Path, query: Callable[[sqlite3.Connection], object]) -> int:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection = connect(path, 0)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.set_progress_handler(step, 1)
    query(connection)
    connection.set_progress_handler(None, 1)
    connection.close()
    return count
