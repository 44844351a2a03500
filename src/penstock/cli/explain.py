"""`penstock explain`: what happened in a turn of a gateway, from what it has kept of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli import FOUND, OK, UsageError
from penstock.cli.store import add_store_option, store_path
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.explain.account import Account
    from penstock.explain.timeline import TimelineEntry

_USAGE = "penstock explain RESPONSE_ID [options]"

_DESCRIPTION = """\
Say what happened in a turn: which upstreams were asked and how they answered,
how it ended and who ended it, what it took; then a timeline. Neither prompts
nor answers are shown without --content. The gateway may be running meanwhile."""

_EPILOG = """\
examples:
  penstock explain resp_abc
  penstock explain resp_abc --content     also what was said, in short
  penstock explain resp_abc --json        one JSON object
  penstock store export resp_abc          all that was kept, every event

The id is in every event of a response's life, and in the gateway's log.

exit codes:
  0  it is told
  1  the store has no such response
  2  nothing was read: wrong options, or a file that cannot be read"""

_TONES = {"completed": "green", "failed": "red"}
_SHORT = 200
"""Columns of each thing that was said."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("id", metavar="RESPONSE_ID", help="the response")
    add_store_option(parser)
    add("--content", action="store_true", help="show also what was said, in short")
    add("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import StoreError
    from penstock.explain.account import read_account
    from penstock.explain.report import content_lines
    from penstock.store import open_archive

    terminal = Terminal()
    try:
        with open_archive(store_path(options)) as archive:
            account = read_account(archive, options.id)
            words = content_lines(archive, account) if account is not None and options.content else {}
    except StoreError as error:
        raise UsageError(str(error)) from None
    if account is None:
        terminal.note(
            f"{archive.location} has no response {options.id}. It may have been deleted, or made with "
            '"store": false, or kept elsewhere: --store names the file of another gateway'
        )
        return FOUND
    show = _print_json if options.json else _print_text
    show(account, words, terminal)
    return OK


def _print_text(account: Account, words: dict[str, list[str]], terminal: Terminal) -> None:
    from penstock.explain.sentences import sentences
    from penstock.explain.timeline import timeline

    status = "running" if account.is_running else account.stored.status
    painted = terminal.paint(status, _TONES[status]) if status in _TONES else status
    terminal.line(f"{terminal.clean(account.stored.id)}  {painted}")
    terminal.line("")
    for sentence in sentences(account):
        terminal.line(terminal.clean(sentence))
    entries = timeline(account)
    if entries:
        terminal.line("")
    for entry in entries:
        terminal.line(_entry_line(entry, terminal))
    for name, lines in words.items():
        _print_words(name, lines, terminal)


def _entry_line(entry: TimelineEntry, terminal: Terminal) -> str:
    what = terminal.clean(entry.what)
    offset = terminal.paint(f"{entry.at:>9.3f} s", "dim")
    return f"{offset}  {terminal.paint(what, entry.tone) if entry.tone else what}"


def _print_words(name: str, lines: list[str], terminal: Terminal) -> None:
    from penstock.cli.terminal_text import one_line

    if lines:
        terminal.line("")
        terminal.line(terminal.paint(name, "dim"))
    for line in lines:
        terminal.line(f"  {one_line(line, _SHORT)}")


def _print_json(account: Account, words: dict[str, list[str]], terminal: Terminal) -> None:
    import msgspec

    from penstock.explain.report import report

    terminal.result(msgspec.json.encode(report(account, words)).decode())
