"""`penstock turns`: the ledger as a list, on a file and from a running gateway."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.store.sqlite.store import open_sqlite_store
from tests.cli.running import Result, penstock
from tests.store.ledger_records import NOON, ended, started


@pytest.fixture
def store(tmp_path: Path) -> Path:
    async def fill() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        store.settle_turn(ended(started("a"), tokens=2_000_000, cost=1.5))
        estimated = ended(started("b", NOON + 1, tenant="bob"), tokens=100)
        store.settle_turn(replace(estimated, usage_estimated=True, duration_ms=1234))
        failed = replace(ended(started("c", NOON + 2)), outcome="failed", code="upstream_timeout")
        store.settle_turn(replace(failed, model="a-model-with-a-very-long-name-" + "x" * 60))
        refused = replace(ended(started("d", NOON + 3)), outcome="refused", code="rate_limit_exceeded")
        store.settle_turn(replace(refused, model="e\x1bvil"))
        await store.admit(started("e", NOON + 4))
        await store.aclose()

    asyncio.run(fill())
    return tmp_path / "store.db"


def turns(store: Path, *options: str, columns: str = "") -> Result:
    return penstock("turns", "--store", str(store), *options, COLUMNS=columns)


def test_turns_are_listed_with_the_newest_last(store: Path) -> None:
    result = turns(store)
    assert result.returncode == 0, result.stderr
    head, *lines = [line.split() for line in result.stdout.splitlines()]
    assert head == ["day", "time", "request", "key", "model", "outcome", "in/out", "cost", "took"]
    assert [line[2] for line in lines] == ["req_a", "req_b", "req_c", "req_d", "req_e"]
    assert lines[0][:6] == ["2026-11-18", "12:00:00", "req_a", "alice", "demo", "completed"]
    assert lines[0][6:8] == ["1.0M/1.0M", "$1.5000"]
    assert lines[1][6:] == ["~50/~50", "?", "1.2", "s"]
    assert lines[2][5:7] == ["failed:", "upstream_timeout"]
    assert lines[3][4] == "e\\x1bvil"
    assert lines[4][5:8] == ["running", "-", "-"]


def test_json_has_every_field_of_the_ledger(store: Path) -> None:
    rows = [json.loads(line) for line in turns(store, "--json", "-n", "2").stdout.splitlines()]
    assert [row["request_id"] for row in rows] == ["req_d", "req_e"]
    assert (rows[0]["outcome"], rows[1]["ended_at"]) == ("refused", None)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--failed",), ["c", "d"]),
        (("--failed", "-n", "1"), ["d"]),
        (("--key", "bob"), ["b"]),
        (("--model", "demo", "--limit", "2"), ["b", "e"]),
        (("--since", "2026-11-18T12:00:03"), ["d", "e"]),
    ],
)
def test_turns_are_selected(store: Path, options: tuple[str, ...], found: list[str]) -> None:
    rows = [json.loads(line) for line in turns(store, "--json", *options).stdout.splitlines()]
    assert [row["id"] for row in rows] == found


@pytest.mark.parametrize("columns", [100, 80, 60, 40])
def test_the_list_fits_the_terminal(store: Path, columns: int) -> None:
    result = turns(store, columns=str(columns))
    assert max(map(len, result.stdout.splitlines())) <= columns
    assert "req_c" in result.stdout
    assert "12:00:02" in result.stdout
    if columns >= 80:
        assert "alice" in result.stdout
        assert "$1.5000" in result.stdout


def test_no_turns_is_a_sentence(store: Path, tmp_path: Path) -> None:
    result = turns(store, "--key", "nobody")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no turn matches" in result.stderr

    async def create() -> None:
        await (await open_sqlite_store(tmp_path / "empty.db")).aclose()

    asyncio.run(create())
    result = turns(tmp_path / "empty.db")
    assert result.returncode == 1
    assert "the ledger has no turns yet. Send a request to the gateway" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-n", "0"), "--limit must be at least 1"),
        (("--since", "yesterday"), "--since needs a duration such as 30d"),
        (("--base-url", "http://127.0.0.1:9/v1"), "use --store for a file, or --base-url"),
        (("--api-key-env", "X"), "--api-key-env needs --base-url"),
    ],
)
def test_wrong_options_say_what_to_do(store: Path, options: tuple[str, ...], message: str) -> None:
    result = turns(store, *options)
    assert result.returncode == 2
    assert message in result.stderr
