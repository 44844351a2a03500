"""`penstock usage`: what the turns of a gateway have used, by key, model and time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.layout import Column, print_table
from penstock.cli.ledger_source import add_ledger_options, open_ledger
from penstock.cli.quantities import parse_moment
from penstock.cli.terminal import Terminal
from penstock.formatting import counted
from penstock.suggestions import advice

if TYPE_CHECKING:
    from penstock.store.ledger import Dimension, TurnTotals

_USAGE = "penstock usage [--since TIME] [--by WORDS] [--json] [options]"

_DESCRIPTION = """\
Show what the turns of a gateway have used: tokens and cost, by key, model, day
or more. The numbers come from the gateway's ledger, which has one record for
each turn, stored or not. The gateway may be running at the same time."""

_EPILOG = """\
examples:
  penstock usage                             the last 7 days, by key
  penstock usage --since 30d --by key,model
  penstock usage --since 2026-11-01 --until 2026-12-01 --by day
  penstock usage --by key --json             one object per line
  penstock usage --base-url https://gateway.example/v1 --api-key-env MY_KEY
                                             ask a gateway on another machine

Days and months are those of UTC. docs/usage.md describes how usage is counted.

exit codes:
  0  success
  1  no turns were found
  2  nothing was read: wrong options, an unreadable file, or an error of the
     gateway"""

_NARROWEST = 6
"""Columns that a name keeps, however narrow the table is."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add(
        "--since",
        metavar="TIME",
        default="7d",
        help="from 12h ago, or a date such as 2026-01-31 (default: 7d)",
    )
    add("--until", metavar="TIME", help="before this time (default: now)")
    add(
        "--by",
        metavar="WORDS",
        default="key",
        help="key, model, target, outcome, hour, day, month (default: key)",
    )
    add("--key", metavar="NAME", help="only turns of this key")
    add("--model", metavar="NAME", help="only turns with this model")
    add("--json", action="store_true", help="print one JSON object per line")
    add_ledger_options(parser)


def run(options: argparse.Namespace) -> int:
    import msgspec

    from penstock.store.ledger import TurnFilter

    now, terminal = time.time(), Terminal()
    filter = TurnFilter(
        tenant=options.key,
        since=max(parse_moment(options.since, "--since", now), 0.0),
        until=parse_moment(options.until, "--until", now) if options.until else None,
        model=options.model or "",
    )
    by = _dimensions(options.by)
    with open_ledger(options) as ledger:
        totals = ledger.totals(filter, by)
    if options.json:
        for each in totals:
            terminal.result(msgspec.json.encode(each).decode())
    elif totals:
        _print_table(by, totals, terminal)
    if not totals:
        terminal.note("no turns have ended in this time: --since 30d goes back further")
    return OK if totals else PROBLEM


def _dimensions(text: str) -> tuple[Dimension, ...]:
    from penstock.store.ledger import DIMENSIONS

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"--by: {name[:40]!r} is unknown; {advice(name, DIMENSIONS)}")
    return tuple(each for name in dict.fromkeys(names) for each in DIMENSIONS if each == name)


# Printing


_NUMBERS = (
    Column("turns", is_right=True),
    Column("failed", is_right=True, leaves=2),
    Column("input", is_right=True),
    Column("cached", is_right=True, leaves=1),
    Column("output", is_right=True),
    Column("cost", is_right=True),
)


def _print_table(by: Sequence[Dimension], totals: Sequence[TurnTotals], terminal: Terminal) -> None:
    from penstock.store.ledger import sum_of

    rows = [[*(terminal.clean(each.group[name]) or "-" for name in by), *_numbers(each)] for each in totals]
    total = sum_of(totals)
    if len(totals) > 1:
        rows.append([*("total" if name == by[0] else "" for name in by), *_numbers(total)])
    print_table([*(Column(name, least=_NARROWEST) for name in by), *_NUMBERS], rows, terminal)
    for note in _notes(total):
        terminal.wrapped(note, colour="dim")


def _numbers(totals: TurnTotals) -> list[str]:
    mark = "~" if totals.estimated else ""
    cost = "?" if totals.turns == totals.unpriced else f"${totals.cost:,.4f}"
    return [
        f"{totals.turns:,}",
        f"{totals.failed:,}",
        f"{mark}{_short(totals.input_tokens)}",
        f"{mark}{_short(totals.cached_tokens)}",
        f"{mark}{_short(totals.output_tokens)}",
        f"{cost}+" if totals.unpriced and cost != "?" else cost,
    ]


def _short(number: int) -> str:
    """Return a number with at most seven characters, so that a line of them fits."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return f"{number:,}"


def _notes(total: TurnTotals) -> list[str]:
    notes = []
    if total.estimated:
        turns = counted(total.estimated, "turn")
        notes.append(f"~ includes estimates: the upstreams of {turns} reported no usage")
    if total.unpriced:
        turns = counted(total.unpriced, "turn")
        notes.append(f"The cost does not include {turns} with models whose price is not known.")
        notes.append('Add prices to penstock.toml: [models.NAME] limits = "price:INPUT/OUTPUT"')
    return notes
