"""The table of turns: turns that follow later get the same columns."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.cli.terminal import Terminal
from penstock.cli.turns_table import TurnPrinter, short_number
from tests.store.ledger_records import NOON, ended, started


def test_later_turns_get_the_columns_of_the_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printer = TurnPrinter(Terminal(), is_json=False, is_open=True)
    printer.print([], NOON)
    printer.print([ended(started("a"), tokens=10)], NOON)
    late = replace(ended(started("b"), tokens=2_000_000), model="a-model-with-a-name-" + "x" * 60)
    printer.print([late], NOON)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.index("request") == first.index("req_a") == second.index("req_b")
    assert max(map(len, (head, first, second))) <= 80


def test_numbers_are_short() -> None:
    assert [short_number(each) for each in (0, 950, 12_345, 1_200_000)] == ["0", "950", "12.3k", "1.2M"]
