"""`penstock explain`: report what happened in a turn, from the gateway's store."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.ledger_source import newest_turns
from penstock.cli.store import add_store_option, store_place
from penstock.cli.terminal import Terminal
from penstock.formatting import wrapped

if TYPE_CHECKING:
    from penstock.explain.account import Account
    from penstock.explain.timeline import TimelineEntry
    from penstock.store.contract import StoreArchive

_USAGE = "penstock explain ID|--last [--failed] [options]"

_DESCRIPTION = """\
Explain what happened in a turn: which upstreams were tried and how they
answered, how the turn ended and why, its duration and token usage; then a
timeline. Prompts and answers are shown only with --content. Of a turn that is
not stored ("store": false), the gateway's ledger has outcome, times and usage.
The gateway may be running at the same time."""

_EPILOG = """\
examples:
  penstock explain --last                 the newest turn
  penstock explain --last --failed        the newest that failed
  penstock explain req_1a2b               the beginning of an id is enough
  penstock explain resp_abc
  penstock explain resp_abc --content     with prompts and answers, shortened
  penstock explain resp_abc --json        one JSON object
  penstock store export resp_abc          everything stored, with every event

The id is that of the response, or that of the request: the x-request-id of the
answer, which is also in error messages, in the gateway's log and in the list of
`penstock turns`.

exit codes:
  0  the turn was explained
  1  the store has no such turn
  2  nothing was read: wrong options, or an unreadable file"""

_TONES = {"completed": "green", "failed": "red", "refused": "red"}
_CONTENT_WIDTH = 200
"""Columns shown of each item of content, if the terminal has so many."""
_OFFSET = 13
"""Columns of a time in the timeline, with its margin."""
_MOST_MATCHES = 1000
_SHOWN_MATCHES = 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("id", metavar="ID", nargs="?", help="the id of the response or of the request")
    add("--last", action="store_true", help="explain the newest turn")
    add("--failed", action="store_true", help="with --last: the newest that failed or was refused")
    add_store_option(parser)
    add("--content", action="store_true", help="also show prompts and answers, shortened")
    add("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import StoreError
    from penstock.explain.report import content_lines
    from penstock.store import open_archive

    if bool(options.id) == options.last:
        raise UsageError("pass the id of a response or of a request, or --last for the newest turn")
    if options.failed and not options.last:
        raise UsageError("--failed needs --last: an id selects one turn")
    terminal = Terminal()
    try:
        with open_archive(store_place(options)) as archive:
            account = (
                _newest(archive, options, terminal) if options.last else _found(archive, options.id, terminal)
            )
            content = content_lines(archive, account) if account is not None and options.content else {}
    except StoreError as error:
        raise UsageError(str(error)) from None
    if account is None:
        return PROBLEM
    show = _print_json if options.json else _print_text
    show(account, content, terminal)
    return OK


# Finding the turn


def _newest(archive: StoreArchive, options: argparse.Namespace, terminal: Terminal) -> Account | None:
    from penstock.explain.account import read_account
    from penstock.store.ledger import FAILED, TurnFilter

    turns = newest_turns(archive, TurnFilter(), 1, FAILED if options.failed else ("",))
    if not turns:
        what = "turn that failed" if options.failed else "turn yet"
        terminal.note(f"{archive.location} has no {what}: `penstock turns` lists what there is")
        return None
    return read_account(archive, turns[0].id, turns[0])


def _found(archive: StoreArchive, id: str, terminal: Terminal) -> Account | None:
    """Return the turn with this id, or the only one whose id begins with it."""
    from penstock.explain.account import read_account
    from penstock.store.ledger import TurnFilter

    matching = [
        record
        for record in newest_turns(archive, TurnFilter(search=id), _MOST_MATCHES)
        if id in (record.id, record.request_id)
        or record.id.startswith(id)
        or record.request_id.startswith(id)
    ]
    exact = [record for record in matching if id in (record.id, record.request_id)]
    if not exact and len(matching) > 1:
        shown = ", ".join(record.request_id or record.id for record in matching[-_SHOWN_MATCHES:])
        terminal.note(f"several turns have an id that begins with {id}, such as {shown}: pass more of it")
        return None
    if len(exact) > 1:
        terminal.note(f"{len(exact)} turns have the request id {id}; this is the newest")
    found = exact or matching
    account = read_account(archive, found[-1].id, found[-1]) if found else read_account(archive, id)
    if account is None:
        terminal.note(
            f"{archive.location} has no turn {id}. It may have been deleted, or it is in another file: pass "
            "that file with --store. A request that was refused before its turn began is only in the "
            "gateway's log. `penstock turns` lists the turns"
        )
    return account


# Printing


def _print_text(account: Account, content: dict[str, list[str]], terminal: Terminal) -> None:
    from penstock.explain.sentences import sentences
    from penstock.explain.timeline import timeline

    status = "running" if account.is_running else account.stored.status
    painted = terminal.paint(status, _TONES[status]) if status in _TONES else status
    terminal.line(f"{terminal.clean(account.stored.id)}  {painted}")
    terminal.line("")
    for sentence in sentences(account):
        terminal.wrapped(terminal.clean(sentence), "  ")
    entries = timeline(account)
    if entries:
        terminal.line("")
    for entry in entries:
        _print_entry(entry, terminal)
    for name, lines in content.items():
        _print_content(name, lines, terminal)


def _print_entry(entry: TimelineEntry, terminal: Terminal) -> None:
    offset = f"{entry.at:>9.3f} s"
    text = terminal.clean(entry.what)
    room = terminal.room - _OFFSET if terminal.room is not None else len(text) + 1
    for number, line in enumerate(wrapped(text, room)):
        margin = " " * _OFFSET if number else f"{terminal.paint(offset, 'dim')}  "
        terminal.line(margin + (terminal.paint(line, entry.tone) if entry.tone else line))


def _print_content(name: str, lines: list[str], terminal: Terminal) -> None:
    from penstock.cli.terminal_text import one_line

    if lines:
        terminal.line("")
        terminal.line(terminal.paint(name, "dim"))
    for line in lines:
        terminal.line(f"  {one_line(line, min((terminal.room or _CONTENT_WIDTH + 2) - 2, _CONTENT_WIDTH))}")


def _print_json(account: Account, content: dict[str, list[str]], terminal: Terminal) -> None:
    import msgspec

    from penstock.explain.report import report

    terminal.result(msgspec.json.encode(report(account, content)).decode())
