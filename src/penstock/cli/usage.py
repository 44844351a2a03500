"""`penstock usage`: what the turns of a gateway have used, by key, model and time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.endpoint import DEFAULT_URL
from penstock.cli.quantities import parse_moment
from penstock.cli.store import add_store_option, store_path
from penstock.cli.terminal import Terminal
from penstock.formatting import counted
from penstock.suggestions import advice

if TYPE_CHECKING:
    from penstock.store.ledger import Dimension, TurnFilter, TurnTotals

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

_TIMEOUT = 30.0
_FOUND = 200
_MOST_BYTES = 64 * 1024 * 1024
_NARROWEST = 6
"""Columns that a name keeps, however narrow the terminal is."""


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
    add_store_option(parser)
    add("--base-url", metavar="URL", help=f"ask a running gateway, e.g. {DEFAULT_URL}")
    add("--api-key-env", metavar="NAME", help="the environment variable with your key")


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
    if options.store and options.base_url:
        raise UsageError("use --store for a file, or --base-url for a running gateway, not both")
    if options.api_key_env and not options.base_url:
        raise UsageError("--api-key-env needs --base-url: a file is read without a key")
    totals = _asked(options, filter, by) if options.base_url else _stored(options, filter, by)
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


# Reading


def _stored(options: argparse.Namespace, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
    from penstock.errors import StoreError
    from penstock.store import open_archive

    try:
        with open_archive(store_path(options)) as archive:
            return archive.totals(filter, by)
    except StoreError as error:
        raise UsageError(str(error)) from None


def _asked(options: argparse.Namespace, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
    """Ask a running gateway."""
    from urllib.parse import urlencode

    import msgspec

    from penstock.cli.endpoint import read_key
    from penstock.cli.fetch import display_url, endpoint, get
    from penstock.store import ledger

    key = read_key(options.api_key_env)
    given = {"since": filter.since, "until": filter.until, "key": filter.tenant, "model": filter.model}
    query = urlencode({"by": ",".join(by), **{name: each for name, each in given.items() if each}})
    url = endpoint(options.base_url).partition("?")[0].removesuffix("responses") + "usage"
    answer = get(f"{url}?{query}", key=key, timeout=_TIMEOUT)
    try:
        if answer.status != _FOUND:
            raise UsageError(f"{display_url(url)}: {answer.failure(key)}")
        found = msgspec.json.decode(answer.body.read(_MOST_BYTES), type=dict[str, msgspec.Raw])
        return msgspec.json.decode(found.get("data", b""), type=list[ledger.TurnTotals])
    except msgspec.DecodeError:
        raise UsageError(f"{display_url(url)} is not the usage of a Penstock gateway") from None
    finally:
        answer.body.close()


# Printing


_NUMBERS = ("turns", "failed", "input", "cached", "output", "cost")


def _print_table(by: Sequence[Dimension], totals: Sequence[TurnTotals], terminal: Terminal) -> None:
    rows = [[*(terminal.clean(each.group[name]) or "-" for name in by), *_numbers(each)] for each in totals]
    total = _sum(totals)
    if len(totals) > 1 or not by:
        rows.append([*("total" if name == by[0] else "" for name in by), *_numbers(total)])
    heads = [*by, *_NUMBERS]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    _fit(widths, len(by), min(terminal.width, 80))
    terminal.line(terminal.paint(_line(heads, widths, len(by)), "dim"))
    for row in rows:
        terminal.line(_line(row, widths, len(by)))
    for note in _notes(total):
        terminal.line(terminal.paint(note, "dim"))


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


def _sum(totals: Sequence[TurnTotals]) -> TurnTotals:
    from penstock.store.ledger import TurnTotals

    names = [name for name in TurnTotals.__struct_fields__ if name != "group"]
    return TurnTotals(group={}, **{name: sum(getattr(each, name) for each in totals) for name in names})


def _fit(widths: list[int], names: int, width: int) -> None:
    """Narrow the widest name again and again, until a line fits."""
    while names and sum(widths) + 2 * (len(widths) - 1) > width:
        widest = max(range(names), key=lambda column: widths[column])
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1


def _line(row: Sequence[str], widths: Sequence[int], names: int) -> str:
    cells = [
        _cut(cell, width).ljust(width) if column < names else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
