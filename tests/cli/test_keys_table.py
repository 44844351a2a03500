"""`penstock keys list`: what it shows, also of files with other errors and in narrow terminals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.keys_table import print_keys
from penstock.cli.terminal import Terminal
from penstock.gateway.http.access import create_key
from penstock.gateway.settings import ClientKey
from penstock.store.ledger import Budget, KeyLimits, TurnRecord
from penstock.store.sqlite.store import open_sqlite_store
from tests.cli.running import penstock

Shown = Callable[[tuple[ClientKey, ...], int | None, dict[str, float] | None], list[str]]

NOON = 1_800_000_000.0  # 2027-01-15 08:00 UTC
LIMITS = (
    "models fast, gpt-*; 60 requests/minute; 50000 tokens/minute; 4 concurrent turns; 20 USD/month; "
    "1000000 tokens/day"
)
KEYS = (
    ClientKey(name="laptop", digest=b"a"),
    ClientKey(
        name="a-client-with-a-name-that-is-as-long-as-names-are-allowed-to-be!",
        digest=b"b",
        admin=True,
        expires_at=NOON,
        models=("fast", "gpt-*"),
        limits=KeyLimits(
            requests_per_minute=60,
            tokens_per_minute=50_000,
            concurrent_turns=4,
            budgets=(Budget(20.0, "cost", "month"), Budget(1_000_000.0, "tokens", "day")),
        ),
    ),
)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    def show(keys: tuple[ClientKey, ...], room: int | None, used: dict[str, float] | None) -> list[str]:
        terminal = Terminal()
        terminal.room = room
        print_keys(keys, used, NOON, terminal)
        return capsys.readouterr().out.splitlines()

    return show


@pytest.mark.parametrize("room", [None, 120])
def test_a_row_per_key_with_its_limits_below(shown: Shown, room: int | None) -> None:
    assert shown(KEYS, room, {"laptop": NOON - 60}) == [
        f"name{'':62}expires                   last use",
        f"laptop{'':60}never                     2027-01-15 07:59",
        f"{KEYS[1].name}  expired 2027-01-15 08:00  never             admin",
        f"  {LIMITS}",
    ]


@pytest.mark.parametrize("room", [80, 66, 40])
def test_blocks_of_lines_where_the_columns_do_not_fit(shown: Shown, room: int) -> None:
    lines = shown(KEYS, room, None)
    assert lines[:2] == ["laptop", "  expires never  last use unknown"]
    assert max(map(len, lines)) <= room
    words = " ".join(line.strip() for line in lines)
    assert "expires expired 2027-01-15 08:00 last use unknown admin" in " ".join(words.split())
    assert words.endswith(LIMITS)


def test_a_control_character_in_a_file_is_escaped(shown: Shown) -> None:
    assert shown((ClientKey(name="a\x1b[2J", digest=b""),), 80, {})[1].startswith("a\\x1b[2J")


def test_other_errors_in_the_file_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f'{create_key("laptop")[1]}[targets.a]\npreset = "openai"\nkeys = ["NOT_SET_HERE"]\n')
    assert penstock("config", "check", str(file)).returncode == 1
    listed = penstock("keys", "list", "--config", str(file))
    assert (listed.returncode, listed.stdout.splitlines()[1].split()[0]) == (0, "laptop")


def test_an_error_in_a_key_is_shown_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[[keys]]\nname = "a"\nhash = "x"\n')
    listed = penstock("keys", "list", "--config", str(file))
    assert (listed.returncode, listed.stdout) == (2, "")
    assert f'{file}:3: keys[0].hash: must be "sha256:"' in listed.stderr


def test_the_last_use_comes_from_the_store(tmp_path: Path) -> None:
    file, store = tmp_path / "penstock.toml", tmp_path / "store.db"
    file.write_text(f'{create_key("used")[1]}{create_key("new")[1]}[server]\nstore = "{store}"\n')

    async def use() -> None:
        opened = await open_sqlite_store(store)
        await opened.admit(TurnRecord(id="resp_1", tenant="used", started_at=NOON))
        await opened.aclose()

    asyncio.run(use())
    listed = penstock("keys", "list", "--json", "--config", str(file))
    assert [(each["name"], each["last_used_at"]) for each in json.loads(listed.stdout)] == [
        ("used", NOON),
        ("new", None),
    ]
    file.write_text(create_key("a")[1] + '[server]\nstore = "none"\n')
    unknown = penstock("keys", "list", "--config", str(file))
    assert "unknown" in unknown.stdout
    assert "the last use is unknown: this configuration stores nothing" in unknown.stderr
