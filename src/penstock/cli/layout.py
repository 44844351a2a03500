"""Tables that fit the terminal: narrower names, then fewer columns, then one block of lines per row.

Without a width (the output is a pipe) nothing is shortened, left out or wrapped: programs read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.cli.terminal import Terminal
from penstock.cli.terminal_text import shortened
from penstock.formatting import columns as columns_of
from penstock.formatting import wrapped

_GAP = "  "
_INDENT = "  "
_FEWEST = 2
"""Columns that make a table. With fewer, rows are stacked."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    is_right: bool = False
    least: int = 0
    """How narrow the column may become: its cells are shortened. 0: they never are."""
    leaves: int = 0
    """The order in which columns are left out of a narrow table, from 1. 0: never."""


class TableLayout:
    """The columns that fit, and their widths; or, if they do not, rows as blocks of lines (`is_stacked`)."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None) -> None:
        """`rows`: cells without control characters. `room`: the terminal's width, None for a pipe."""
        self._columns, self._room = columns, room
        natural = [
            max(columns_of(column.name), *(columns_of(row[at]) for row in rows), 0)
            for at, column in enumerate(columns)
        ]
        shown = _fitting(columns, natural, room)
        self.is_stacked = shown is None
        self._shown = list(range(len(columns))) if shown is None else shown
        self.left_out = [column.name for at, column in enumerate(columns) if at not in self._shown]
        self._widths = natural if shown is None or room is None else _narrowed(columns, natural, shown, room)

    def head(self) -> str:
        """Return the line with the names. Stacked rows need none: each has them."""
        return self._line([column.name for column in self._columns])

    def lines(self, row: Sequence[str]) -> list[str]:
        """Return the lines of a row."""
        return self._stacked(row) if self.is_stacked else [self._line(row)]

    def _line(self, row: Sequence[str]) -> str:
        return _GAP.join(self._cell(row[at], at) for at in self._shown).rstrip()

    def _cell(self, text: str, at: int) -> str:
        column, width = self._columns[at], self._widths[at]
        if column.least and self._room is not None:
            text = shortened(text, width)
        space = " " * (width - columns_of(text))
        return space + text if column.is_right else text + space

    def _stacked(self, row: Sequence[str]) -> list[str]:
        """Return the first cell, and below it the others with their names, as many per line as fit."""
        room = self._room or 0
        lines = wrapped(row[0], room, _INDENT)
        entry = ""
        for column, cell in zip(self._columns[1:], row[1:], strict=True):
            named = f"{column.name} {cell}".strip() if cell else ""
            if entry and named and columns_of(entry + _GAP + named) <= room:
                entry += _GAP + named
            elif named:
                lines += [entry] if entry else []
                *full, entry = wrapped(named, room, _INDENT * 2, first=_INDENT)
                lines += full
        return [*lines, entry] if entry else lines


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], terminal: Terminal) -> TableLayout:
    """Print rows below the names of their columns; return the layout, for later rows."""
    layout = TableLayout(columns, rows, terminal.room)
    if not layout.is_stacked:
        terminal.line(terminal.paint(layout.head(), "dim"))
    for row in rows:
        for line in layout.lines(row):
            terminal.line(line)
    return layout


def _fitting(columns: Sequence[Column], natural: Sequence[int], room: int | None) -> list[int] | None:
    """Return the columns to show: all, or as many as fit if they are as narrow as they may be."""
    shown = list(range(len(columns)))
    if room is None:
        return shown
    leaving = sorted((at for at in shown if columns[at].leaves), key=lambda at: columns[at].leaves)
    while _total([_least(columns[at], natural[at]) for at in shown]) > room:
        if not leaving or len(shown) <= _FEWEST:
            return None
        shown.remove(leaving.pop(0))
    return shown


def _narrowed(
    columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], room: int
) -> list[int]:
    """Narrow the widest column that may be narrowed, again and again, until a line fits."""
    widths = list(natural)
    while (excess := _total([widths[at] for at in shown]) - room) > 0:
        elastic = [at for at in shown if widths[at] > _least(columns[at], natural[at])]
        if not elastic:
            break
        widest, *others = sorted(elastic, key=lambda at: -widths[at])
        second = max((widths[at] for at in others), default=0)
        least = max(_least(columns[widest], natural[widest]), min(second, widths[widest] - 1))
        widths[widest] = max(least, widths[widest] - excess)
    return widths


def _least(column: Column, natural: int) -> int:
    return min(natural, max(column.least, columns_of(column.name))) if column.least else natural


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)
