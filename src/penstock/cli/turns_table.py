"""The table of `penstock turns`: one line per turn, or a block of lines in a narrow terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.cli.layout import Column, TableLayout
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.store.ledger import TurnRecord

_COLUMNS = (
    Column("day", leaves=1),
    Column("time"),
    Column("request"),
    Column("key", least=5, leaves=3),
    Column("model", least=8),
    Column("outcome", least=10),
    Column("in/out", is_right=True),
    Column("cost", is_right=True, leaves=2),
    Column("took", is_right=True, leaves=4),
)
_USUAL = (
    "2026-01-31",
    "12:00:00",
    "req_01234567",
    "laptop",
    "some-model-1.5",
    "incomplete",
    "~123.4k/~12.3k",
    "$0.0123",
    "12.3 s",
)
"""A turn that sets the widths for `--follow`, which does not know the turns to come."""
_SHORT_ID = 12
"""Characters of an id on a terminal. `penstock explain` needs no more."""
_COLOURS = {"failed": "red", "refused": "red", "running": "yellow"}


class TurnPrinter:
    """Prints turns. If it `is_open`, more turns follow, which get the same columns."""

    def __init__(self, terminal: Terminal, *, is_json: bool, is_open: bool = False) -> None:
        self.terminal = terminal
        self._is_json, self._is_open = is_json, is_open
        self._layout: TableLayout | None = None

    def print(self, turns: Sequence[TurnRecord], now: float) -> None:
        if self._is_json:
            import msgspec

            for turn in turns:
                self.terminal.result(msgspec.json.encode(turn).decode())
            return
        rows = [_row(turn, now, self.terminal) for turn in turns]
        if self._layout is None:
            self._layout = TableLayout(
                _COLUMNS, [*rows, _USUAL] if self._is_open else rows, self.terminal.room
            )
            if not self._layout.is_stacked:
                self.terminal.line(self.terminal.paint(self._layout.head(), "dim"))
        for turn, row in zip(turns, rows, strict=True):
            for line in self._layout.lines(row):
                self.terminal.line(self._painted(line, turn.outcome))

    def _painted(self, line: str, outcome: str) -> str:
        return self.terminal.paint(line, _COLOURS[outcome]) if outcome in _COLOURS else line


def _row(turn: TurnRecord, now: float, terminal: Terminal) -> list[str]:
    started = datetime.fromtimestamp(turn.started_at, UTC)
    is_running = turn.ended_at is None
    seconds = now - turn.started_at if is_running else turn.duration_ms / 1000
    mark = "~" if turn.usage_estimated else ""
    tokens = "/".join(f"{mark}{short_number(each)}" for each in (turn.input_tokens, turn.output_tokens))
    cost = "?" if turn.cost is None else f"${turn.cost:,.4f}"
    return [
        f"{started:%Y-%m-%d}",
        f"{started:%H:%M:%S}",
        terminal.clean(turn.request_id or turn.id)[: None if terminal.room is None else _SHORT_ID],
        terminal.clean(turn.tenant),
        terminal.clean(turn.model) or "-",
        terminal.clean(f"{turn.outcome}: {turn.code}" if turn.code else turn.outcome),
        "-" if is_running else tokens,
        "-" if is_running else cost,
        f"{max(seconds, 0.0):,.1f} s",
    ]


def short_number(number: int) -> str:
    """Return a number with at most six characters: `950`, `12.3k`, `1.2M`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
