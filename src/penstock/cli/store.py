"""`penstock store`: what a gateway has kept, from beside it: figures, deleting what is old, and all of it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import FOUND, OK, UsageError
from penstock.cli.quantities import parse_moment, parse_size, parse_span
from penstock.cli.terminal import Terminal, TerminalOutput
from penstock.formatting import counted, format_size, format_time

if TYPE_CHECKING:
    from penstock.store.contract import ArchiveStats, Pruned, StoreArchive

    Act = Callable[[StoreArchive], int]
    Add = Callable[..., object]

_USAGE = "penstock store stats|prune|export [options]"

_DESCRIPTION = """\
Look after the file in which a gateway keeps responses. The gateway may have it
open meanwhile; what runs is not touched."""

_EPILOG = """\
`penstock store ACTION --help` has the options of each.

examples:
  penstock store stats
  penstock store prune --older-than 30d
  penstock store prune --max-size 1GB --dry-run
  penstock store export -o kept.jsonl       everything, conversations too
  penstock store export --since 12h | jq -r 'select(.status == "failed").id'
  penstock store export resp_abc            one response, with its events

Whatever is exported has what people and models said in it.

exit codes:
  0  done
  1  a response that was asked for is not there
  2  nothing was done: wrong options, or a file that cannot be read"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    # One parser each: an option that is not for this action must not be ignored, least of all by `prune`.
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", title="actions", prog="penstock store", required=True
    )
    for name, (summary, add_options, _) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        add_store_option(action)
        add_options(action.add_argument)


def _stats_options(add: Add) -> None:
    add("--json", action="store_true", help="print one JSON object")


def _prune_options(add: Add) -> None:
    add("--older-than", metavar="TIME", help="what ended so long ago, such as 30d or 12h")
    add("--max-size", metavar="SIZE", help="the oldest, until it takes no more than such as 1GB")
    add("--trust-clock", action="store_true", help="go by this machine's clock, however far ahead it is")
    add("--dry-run", action="store_true", help="only say what would go")


def _export_options(add: Add) -> None:
    add("ids", metavar="RESPONSE_ID", nargs="*", help="only these")
    add("--since", metavar="TIME", help="no older than such as 12h, or than a date")
    add("-o", "--output", metavar="FILE", help="write there (default: standard output)")


def add_store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="PATH", help="the file (default: the one in your data folder)")


def store_path(options: argparse.Namespace) -> Path:
    """The file that is meant; without an option that of a gateway without one."""
    from penstock.gateway.storage import NONE, default_path

    if options.store == NONE:
        raise UsageError("--store none keeps nothing in a file: there is nothing to look into")
    return Path(options.store) if options.store else default_path(os.environ)


def run(options: argparse.Namespace) -> int:
    from penstock.errors import StoreError
    from penstock.store import open_archive

    _, _, prepare = _ACTIONS[options.action]
    act = prepare(options, Terminal())  # wrong options are told before any file is looked at
    try:
        with open_archive(store_path(options)) as archive:
            return act(archive)
    except StoreError as error:
        raise UsageError(str(error)) from None


# Figures


def _stats(options: argparse.Namespace, terminal: Terminal) -> Act:
    return lambda archive: _print_stats(archive, terminal, is_json=options.json)


def _print_stats(archive: StoreArchive, terminal: Terminal, *, is_json: bool) -> int:
    stats = archive.stats()
    if is_json:
        import msgspec

        told = {"path": archive.location, **msgspec.to_builtins(stats.total), "by_status": stats.by_status}
        told |= {"oldest": stats.oldest, "newest": stats.newest}
        terminal.result(msgspec.json.encode(told).decode())
        return OK
    for name, what in [*_figures(stats), ("file", terminal.clean(archive.location))]:
        terminal.line(terminal.paint(f"{name:<14}", "dim") + what)
    return OK


def _figures(stats: ArchiveStats) -> list[tuple[str, str]]:
    total = stats.total
    states = ", ".join(f"{count:,} {status}" for status, count in stats.by_status.items())
    rows = [
        ("responses", f"{total.responses:,}" + (f" ({states})" if states else "")),
        ("items", f"{total.items:,}"),
        ("events", f"{total.events:,}"),
        ("conversations", f"{total.conversations:,}"),
        ("size", format_size(total.bytes)),
    ]
    if stats.oldest is not None and stats.newest is not None:
        rows += [("oldest", format_time(stats.oldest)), ("newest", format_time(stats.newest))]
    return rows


# Deleting


def _prune(options: argparse.Namespace, terminal: Terminal) -> Act:
    if options.older_than is None and options.max_size is None:
        raise UsageError("penstock store prune needs a bound: --older-than 30d, --max-size 1GB, or both")
    age = parse_span(options.older_than, "--older-than") if options.older_than is not None else None
    most = parse_size(options.max_size, "--max-size") if options.max_size is not None else None
    act = _would_go if options.dry_run else _delete
    return lambda archive: act(archive, _before(archive, age, options.trust_clock, terminal), most, terminal)


def _before(archive: StoreArchive, age: float | None, trust_clock: bool, terminal: Terminal) -> float:
    """What ended before this time is old enough."""
    if age is None:
        return 0.0
    clock = time.time()
    now = clock if trust_clock else archive.time(clock)
    if now < clock:
        terminal.note(
            f"ages are measured from {format_time(now)}, when a gateway last looked after this file; this "
            f"machine's clock says {format_time(clock)}: if that is right, add --trust-clock"
        )
    return now - age


def _delete(archive: StoreArchive, before: float, most: int | None, terminal: Terminal) -> int:
    used = archive.stats().total.bytes
    progress = _tell_progress if sys.stderr.isatty() else None
    gone = archive.prune(older_than=before, most_bytes=most, progress=progress)
    if progress is not None:
        sys.stderr.write("\r\033[K")
    left = archive.stats().total.bytes
    terminal.line(f"deleted {_told(gone)}; {format_size(used)} before, {format_size(left)} now")
    if most is not None and left > most:
        terminal.note(f"it is still more than {format_size(most)}: what runs now is never deleted")
    return OK


def _would_go(archive: StoreArchive, before: float, most: int | None, terminal: Terminal) -> int:
    """How many it takes to be small enough shows only in the deleting: their sizes are not written down."""
    used = archive.stats().total.bytes
    terminal.line(f"for their age {_told(archive.count_expired(older_than=before))} would be deleted")
    if most is not None and used > most:
        excess = format_size(used - most)
        terminal.line(f"{format_size(used)} are used, {excess} too many: the oldest would be deleted too")
    elif most is not None:
        terminal.line(f"{format_size(used)} are used: that is small enough")
    return OK


def _tell_progress(gone: Pruned) -> None:
    """A line that counts; it is written over by the next."""
    sys.stderr.write(f"\r\033[Kdeleted {_told(gone)} so far\r")
    sys.stderr.flush()


def _told(gone: Pruned) -> str:
    return f"{counted(gone.responses, 'response')} and {counted(gone.conversations, 'conversation')}"


# All of it


def _export(options: argparse.Namespace, terminal: Terminal) -> Act:
    since = parse_moment(options.since, "--since", time.time()) if options.since is not None else 0.0
    if options.ids and options.since is not None:
        raise UsageError("give ids or --since, not both")
    return lambda archive: _write(archive, options.ids, since, options.output, terminal)


def _write(
    archive: StoreArchive, ids: list[str], since: float, output: str | None, terminal: Terminal
) -> int:
    from penstock.store.export import export_all, export_responses

    missing: list[str] = []
    lines = export_responses(archive, ids, missing) if ids else export_all(archive, since)
    with _output(output, archive.files, terminal) as out:
        for line in lines:
            out.write(line)
    for id in missing:
        terminal.note(f"{archive.location} has no response {id}")
    return FOUND if missing else OK


@contextmanager
def _output(name: str | None, store_files: Sequence[Path], terminal: Terminal) -> Iterator[TerminalOutput]:
    """Standard output, or a file for nobody but its owner: it holds what people said."""
    if name is None:
        out = terminal.output()
        yield out
        out.flush()
        return
    if Path(name).resolve() in store_files:
        raise UsageError(f"{name} is the store itself: give another file")
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise UsageError(f"{name} cannot be written: {error.strerror or error}") from None
    with os.fdopen(descriptor, "wb") as written:
        yield written


_ACTIONS: dict[str, tuple[str, Callable[[Add], None], Callable[[argparse.Namespace, Terminal], Act]]] = {
    "stats": ("count what is in it", _stats_options, _stats),
    "prune": ("delete what is old, or too much", _prune_options, _prune),
    "export": ("print what is in it, one JSON object per line", _export_options, _export),
}
"""What can be done: its summary, its options, and what makes of them something to do with a store."""
