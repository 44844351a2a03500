"""`penstock explain`: report what happened in a turn, from the gateway's store."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.store import add_store_option, store_path
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.explain.account import Account
    from penstock.explain.timeline import TimelineEntry

_USAGE = "penstock explain RESPONSE_ID [options]"

_DESCRIPTION = """\
Explain what happened in a turn: which upstreams were tried and how they
answered, how the turn ended and why, its duration and token usage; then a
timeline. Prompts and answers are shown only with --content. The gateway may be
running at the same time."""

_EPILOG = """\
examples:
  penstock explain resp_abc
  penstock explain resp_abc --content     with prompts and answers, shortened
  penstock explain resp_abc --json        one JSON object
  penstock store export resp_abc          everything stored, with every event

The response id is in the response, in its first event, and in the gateway's
log.

exit codes:
  0  the turn was explained
  1  the store has no such response
  2  nothing was read: wrong options, or an unreadable file"""

_TONES = {"completed": "green", "failed": "red"}
_CONTENT_WIDTH = 200
"""Columns shown of each item of content."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("id", metavar="RESPONSE_ID", help="the id of the response")
    add_store_option(parser)
    add("--content", action="store_true", help="also show prompts and answers, shortened")
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
            content = content_lines(archive, account) if account is not None and options.content else {}
    except StoreError as error:
        raise UsageError(str(error)) from None
    if account is None:
        terminal.note(
            f"{archive.location} has no response {options.id}. It may have been deleted, or created with "
            '"store": false, or it is in another file: pass that file with --store'
        )
        return PROBLEM
    show = _print_json if options.json else _print_text
    show(account, content, terminal)
    return OK


def _print_text(account: Account, content: dict[str, list[str]], terminal: Terminal) -> None:
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
    for name, lines in content.items():
        _print_content(name, lines, terminal)


def _entry_line(entry: TimelineEntry, terminal: Terminal) -> str:
    what = terminal.clean(entry.what)
    offset = terminal.paint(f"{entry.at:>9.3f} s", "dim")
    return f"{offset}  {terminal.paint(what, entry.tone) if entry.tone else what}"


def _print_content(name: str, lines: list[str], terminal: Terminal) -> None:
    from penstock.cli.terminal_text import one_line

    if lines:
        terminal.line("")
        terminal.line(terminal.paint(name, "dim"))
    for line in lines:
        terminal.line(f"  {one_line(line, _CONTENT_WIDTH)}")


def _print_json(account: Account, content: dict[str, list[str]], terminal: Terminal) -> None:
    import msgspec

    from penstock.explain.report import report

    terminal.result(msgspec.json.encode(report(account, content)).decode())
