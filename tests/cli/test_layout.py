"""Tables at different widths."""

from __future__ import annotations

import pytest

from penstock.cli.layout import Column, TableLayout

COLUMNS = (
    Column("name", least=6),
    Column("size", is_right=True),
    Column("note", least=6, leaves=1),
    Column("cost", is_right=True, leaves=2),
)
ROWS = [["a-long-name-of-a-model", "12", "some more words", "$1.00"], ["日本語", "3,456", "", "?"]]


def table(room: int | None) -> list[str]:
    layout = TableLayout(COLUMNS, ROWS, room)
    lines = [line for row in ROWS for line in layout.lines(row)]
    return lines if layout.is_stacked else [layout.head(), *lines]


@pytest.mark.parametrize("room", [None, 80])
def test_a_table_with_room_is_aligned(room: int | None) -> None:
    assert table(room) == [
        "name                     size  note              cost",
        "a-long-name-of-a-model     12  some more words  $1.00",
        "日本語                  3,456                       ?",
    ]


def test_long_names_are_shortened_first() -> None:
    head, *rows = table(40)
    assert head.split() == ["name", "size", "note", "cost"]
    assert max(map(len, rows)) == 40
    assert rows[0].endswith("…  $1.00")


def test_then_columns_are_left_out_in_their_order() -> None:
    assert table(22)[0].split() == ["name", "size", "cost"]
    assert table(15)[0].split() == ["name", "size"]


def test_then_rows_are_stacked_without_losing_a_column() -> None:
    lines = table(12)
    assert lines[:3] == ["a-long-name-of-a-mod", "  el", "  size 12"]  # 20 columns at least
    assert [line for line in lines if "cost" in line] == ["  cost $1.00", "  cost ?"]


def test_a_table_without_rows_has_a_head() -> None:
    assert TableLayout(COLUMNS, [], 80).head() == "name  size  note  cost"
