"""`penstock turns`: the recent turns of a gateway, one line each, and new ones as they end."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.layout import Column, TableLayout
from penstock.cli.ledger_source import add_ledger_options, newest_turns, open_ledger
from penstock.cli.quantities import parse_moment
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.store.ledger import TurnRecord

_USAGE = "penstock turns [--follow] [--failed] [--since TIME] [-n NUMBER] [options]"

_DESCRIPTION = """\
List the recent turns of a gateway, the newest last: when each started, the id
of its request, key, model, outcome, tokens, cost and duration. They come from
the gateway's ledger, which has one record for each turn, stored or not. The
gateway may be running at the same time."""

_EPILOG = """\
examples:
  penstock turns                             the last 20 turns
  penstock turns --follow                    and new ones as they end
  penstock turns --failed --since 2h
  penstock turns -n 100 --key laptop --json  one object per line
  penstock turns --base-url https://gateway.example/v1 --api-key-env MY_KEY
                                             ask a gateway on another machine

Times are UTC. ~ marks tokens that are estimated. `penstock explain ID` explains
a turn; the first characters of an id are enough.

exit codes:
  0  success; with --follow, also after Ctrl-C
  1  no turns were found
  2  nothing was read: wrong options, an unreadable file, or an error of the
     gateway"""

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


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help="then print new turns as they end, until Ctrl-C")
    add("-n", "--limit", metavar="NUMBER", type=int, default=20, help="the most turns to list (default: 20)")
    add("--since", metavar="TIME", help="from 2h ago, or a date such as 2026-01-31")
    add("--failed", action="store_true", help="only turns that failed or were refused")
    add("--key", metavar="NAME", help="only turns of this key")
    add("--model", metavar="NAME", help="only turns with this model")
    add("--json", action="store_true", help="print one JSON object per line")
    add_ledger_options(parser)


def run(options: argparse.Namespace) -> int:
    from penstock.store.ledger import FAILED, TurnFilter

    if options.limit < (0 if options.follow else 1):
        raise UsageError("--limit must be at least 1 (0 with --follow, for new turns only)")
    now = time.time()
    since = max(parse_moment(options.since, "--since", now), 0.0) if options.since else 0.0
    filter = TurnFilter(tenant=options.key, since=since, model=options.model or "")
    outcomes = FAILED if options.failed else ("",)
    terminal = Terminal()
    if options.follow:
        from penstock.cli.turns_follow import follow

        return follow(options, filter, outcomes, TurnPrinter(terminal, is_json=options.json, is_open=True))
    with open_ledger(options) as ledger:
        found = newest_turns(ledger, filter, options.limit, outcomes)
    if not found:
        terminal.note(_nothing(options))
        return PROBLEM
    TurnPrinter(terminal, is_json=options.json).print(found, now)
    return OK


def _nothing(options: argparse.Namespace) -> str:
    if options.since or options.key or options.model or options.failed:
        return "no turn matches: leave out --since, --failed, --key or --model"
    return "the ledger has no turns yet. Send a request to the gateway: `penstock chat` does"


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
