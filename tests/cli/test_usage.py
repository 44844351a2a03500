"""`penstock usage`: sums of the ledger, as a table and as JSON."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.store.sqlite.store import open_sqlite_store
from tests.cli.running import Result, penstock
from tests.store.ledger_records import NOON, ended, started

ALL = ("--since", "2026-11-01")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    async def fill() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        store.settle_turn(ended(started("a"), tokens=2_000_000, cost=1.5))
        store.settle_turn(replace(ended(started("b", NOON + 1), tokens=100), usage_estimated=True))
        store.settle_turn(
            replace(ended(started("c", NOON + 2, tenant="bob")), outcome="failed", model="x" * 90)
        )
        store.settle_turn(ended(started("d", NOON - 86_400, tenant="e\x1bve"), cost=0.0))
        await store.aclose()

    asyncio.run(fill())
    return tmp_path / "store.db"


def run(store: Path, *options: str, columns: str = "80") -> Result:
    return penstock("usage", "--store", str(store), *options, COLUMNS=columns)


def test_the_table_has_a_row_per_key_and_a_total(store: Path) -> None:
    result = run(store, *ALL)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["key", "turns", "failed", "input", "cached", "output", "cost"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:5]}
    assert rows["alice"] == ["2", "0", "~1.00M", "~0", "~1.00M", "$1.5000+"]
    assert rows["bob"] == ["1", "1", "0", "0", "0", "?"]
    assert rows["e\\x1bve"] == ["1", "0", "0", "0", "0", "$0.0000"]
    assert rows["total"][:2] == ["4", "1"]
    assert "~ includes estimates: the upstreams of 1 turn reported no usage" in lines
    assert "The cost does not include 2 turns with models whose price is not known." in lines
    assert len({len(line) for line in lines[:5]}) == 1  # numbers are aligned to the right


def test_a_single_sum_is_its_own_total(store: Path) -> None:
    lines = run(store, *ALL, "--key", "bob", "--by", "").stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["turns", "1"]
    assert not any(line.startswith("    1") for line in lines[2:])


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_the_table_fits_the_terminal(store: Path, columns: int) -> None:
    result = run(store, *ALL, "--by", "key,model,outcome,day", columns=str(columns))
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert "$1.5000+" in result.stdout


def test_a_pipe_gets_whole_names(store: Path) -> None:
    assert "x" * 90 in run(store, *ALL, "--by", "key,model", columns="").stdout


def test_json_has_one_object_per_line_with_every_sum(store: Path) -> None:
    result = run(store, *ALL, "--by", "day,key", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [tuple(row["group"].values()) for row in rows] == [
        ("2026-11-17", "e\x1bve"),
        ("2026-11-18", "alice"),
        ("2026-11-18", "bob"),
    ]
    assert (rows[1]["turns"], rows[1]["estimated"], rows[1]["unpriced"]) == (2, 1, 1)


def test_turns_are_selected_by_time_key_and_model(store: Path) -> None:
    result = run(store, "--since", "2026-11-17", "--until", "2026-11-18", "--json")
    assert [json.loads(line)["turns"] for line in result.stdout.splitlines()] == [1]
    assert '"turns":1' in run(store, *ALL, "--key", "bob", "--by", "", "--json").stdout
    assert '"turns":3' in run(store, *ALL, "--model", "demo", "--by", "", "--json").stdout


def test_no_turns_is_an_exit_code_of_its_own(store: Path) -> None:
    result = run(store, *ALL, "--key", "nobody")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no turns have ended in this time" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "weather"), "--by: 'weather' is unknown; available: day, hour, key"),
        (("--since", "yesterday"), "--since needs a duration such as 30d"),
        (("--base-url", "http://127.0.0.1:9/v1"), "use --store for a file, or --base-url"),
        (("--api-key-env", "X"), "--api-key-env needs --base-url"),
    ],
)
def test_wrong_options_say_what_to_do(store: Path, options: tuple[str, ...], message: str) -> None:
    result = run(store, *options)
    assert result.returncode == 2
    assert message in result.stderr


def test_a_gateway_that_does_not_run_is_an_error() -> None:
    result = penstock("usage", "--base-url", "http://127.0.0.1:9/v1")
    assert result.returncode == 2
    assert "no answer from http://127.0.0.1:9/v1/usage: connection refused" in result.stderr


def test_the_default_is_the_last_seven_days(tmp_path: Path) -> None:
    async def fill() -> None:
        store = await open_sqlite_store(tmp_path / "store.db")
        for number, days in enumerate((1, 6, 8)):
            store.settle_turn(ended(started(f"resp_{number}", time.time() - days * 86_400), tokens=1))
        await store.aclose()

    asyncio.run(fill())
    result = run(tmp_path / "store.db", "--json")
    assert json.loads(result.stdout)["turns"] == 2
