"""`penstock turns`: the recent turns of a gateway, one line each, and new ones as they end."""

from __future__ import annotations

import argparse
import time

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.ledger_source import add_ledger_options, newest_turns, open_ledger
from penstock.cli.quantities import parse_moment
from penstock.cli.terminal import Terminal
from penstock.cli.turns_table import TurnPrinter

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
