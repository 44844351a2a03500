"""`penstock store`: statistics, pruning, export, restoring and moving of a gateway's store."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.quantities import parse_moment, parse_size, parse_span
from penstock.cli.terminal import Terminal, TerminalOutput, show_status
from penstock.formatting import counted, format_size, format_time

if TYPE_CHECKING:
    from penstock.store.contract import StoreArchive
    from penstock.store.records import ArchiveStats, Imported, Pruned

    Act = Callable[[StoreArchive], int]
    Add = Callable[..., object]

_USAGE = "penstock store stats|prune|export|fail-queued|migrate|import [options]"

_DESCRIPTION = """\
Manage the file or the database in which gateways store responses. They may be
running at the same time; running turns are never touched."""

_EPILOG = """\
`penstock store ACTION --help` lists the options of an action.

examples:
  penstock store stats
  penstock store prune --older-than 30d
  penstock store prune --max-size 1GB --dry-run
  penstock store export -o store.jsonl      everything, with conversations
  penstock store export --since 12h | jq -r 'select(.status == "failed").id'
  penstock store export resp_abc            one response, with its events
  penstock store fail-queued                after restoring a backup
  penstock store migrate --store postgresql://HOST/DATABASE
  penstock store import responses.sqlite --store postgresql://HOST/DATABASE

Exports contain prompts and answers.

exit codes:
  0  success
  1  a requested response was not found
  2  nothing was done: wrong options, or a store that cannot be used"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    # One parser per action: options of another action must be rejected, above all by `prune`.
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", title="actions", prog="penstock store", required=True
    )
    rows = [(name, row[0], row[1]) for name, row in (*_ACTIONS.items(), *_CHANGES.items())]
    for name, summary, add_options in rows:
        action = actions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        add_store_option(action)
        add_options(action.add_argument)


def _stats_options(add: Add) -> None:
    add("--json", action="store_true", help="print one JSON object")


def _prune_options(add: Add) -> None:
    add("--older-than", metavar="TIME", help="delete responses that ended this long ago, e.g. 30d or 12h")
    add("--max-size", metavar="SIZE", help="delete the oldest until the store is this small, e.g. 1GB")
    add(
        "--trust-clock",
        action="store_true",
        help="use this machine's clock, even if far ahead of the store's time",
    )
    add("--dry-run", action="store_true", help="only show what would be deleted")


def _export_options(add: Add) -> None:
    add("ids", metavar="RESPONSE_ID", nargs="*", help="export only these responses")
    add("--since", metavar="TIME", help="export only what is newer: 12h, or a date such as 2026-01-31")
    add("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")


def add_store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="PLACE",
        help="the store's file, or the URL of its database (default: as for penstock serve)",
    )


def store_place(options: argparse.Namespace) -> str | Path:
    """Return the store's file or URL; the default is the same as for `penstock serve`."""
    from penstock.gateway.storage import NONE, default_path
    from penstock.store import is_url

    where = options.store or _configured_store()
    if where == NONE:
        raise UsageError(
            'there is no store: with --store none, or store = "none" in the configuration, responses are in '
            "memory only. Pass the path of a store's file, or a URL"
        )
    if where and is_url(where):
        return str(where)
    return Path(where) if where else default_path(os.environ)


def _configured_store() -> str:
    """Return the store that `penstock serve` would use here, if a variable or the configuration names one."""
    from penstock.errors import ConfigError
    from penstock.gateway.config.file import find_config, load_keys
    from penstock.gateway.config.options import STORE_VARIABLE
    from penstock.secret_variables import secret_variable

    path = find_config(Path.cwd(), os.environ)
    try:
        if named := secret_variable(STORE_VARIABLE, os.environ):
            return named
        return load_keys(path, os.environ)[1] if path is not None else ""
    except ConfigError as error:
        raise UsageError(f"{error}\nCorrect it, or name the store with --store") from None


def run(options: argparse.Namespace) -> int:
    from penstock.errors import StoreError
    from penstock.store import open_archive

    terminal = Terminal()
    try:
        if options.action in _CHANGES:
            return _CHANGES[options.action][2](options, terminal)
        _, _, prepare = _ACTIONS[options.action]
        act = prepare(options, terminal)  # report wrong options before opening any file
        with open_archive(store_place(options)) as archive:
            return act(archive)
    except StoreError as error:
        raise UsageError(str(error)) from None


# Statistics


def _stats(options: argparse.Namespace, terminal: Terminal) -> Act:
    return lambda archive: _print_stats(archive, terminal, is_json=options.json)


def _print_stats(archive: StoreArchive, terminal: Terminal, *, is_json: bool) -> int:
    stats = archive.stats()
    if is_json:
        import msgspec

        result = {"path": archive.location, **msgspec.to_builtins(stats.total), "by_status": stats.by_status}
        result |= {"oldest": stats.oldest, "newest": stats.newest}
        if stats.disk_bytes is not None:
            result["disk_bytes"] = stats.disk_bytes
        terminal.result(msgspec.json.encode(result).decode())
        return OK
    place = "file" if archive.files else "database"
    for name, value in [*_rows(stats), (place, terminal.clean(archive.location))]:
        terminal.line(terminal.paint(f"{name:<14}", "dim") + value)
    return OK


def _rows(stats: ArchiveStats) -> list[tuple[str, str]]:
    total = stats.total
    states = ", ".join(f"{count:,} {status}" for status, count in stats.by_status.items())
    rows = [
        ("responses", f"{total.responses:,}" + (f" ({states})" if states else "")),
        ("items", f"{total.items:,}"),
        ("events", f"{total.events:,}"),
        ("conversations", f"{total.conversations:,}"),
        ("size", format_size(total.bytes)),
    ]
    if stats.disk_bytes is not None:
        rows.append(("on disk", format_size(stats.disk_bytes)))
    if stats.oldest is not None and stats.newest is not None:
        rows += [("oldest", format_time(stats.oldest)), ("newest", format_time(stats.newest))]
    return rows


# Pruning


def _prune(options: argparse.Namespace, terminal: Terminal) -> Act:
    if options.older_than is None and options.max_size is None:
        raise UsageError("penstock store prune needs a limit: --older-than 30d, --max-size 1GB, or both")
    age = parse_span(options.older_than, "--older-than") if options.older_than is not None else None
    max_size = parse_size(options.max_size, "--max-size") if options.max_size is not None else None
    act = _dry_run if options.dry_run else _delete
    return lambda archive: act(
        archive, _cutoff(archive, age, options.trust_clock, terminal), max_size, terminal
    )


def _cutoff(archive: StoreArchive, age: float | None, trust_clock: bool, terminal: Terminal) -> float:
    """Return the time before which a response must have ended to be deleted for its age."""
    if age is None:
        return 0.0
    clock = time.time()
    now = clock if trust_clock else archive.time(clock)
    if now < clock:
        terminal.note(
            f"ages are measured from {format_time(now)}, the store's own time; this machine's clock is far "
            f"ahead, at {format_time(clock)}: if that is correct, add --trust-clock"
        )
    return now - age


def _delete(archive: StoreArchive, cutoff: float, max_size: int | None, terminal: Terminal) -> int:
    size_before = archive.stats().total.bytes
    progress = _show_progress if sys.stderr.isatty() else None
    deleted = archive.prune(older_than=cutoff, most_bytes=max_size, progress=progress)
    if progress is not None:
        show_status("")
    size = archive.stats().total.bytes
    terminal.line(f"deleted {_counts(deleted)}; {format_size(size_before)} before, {format_size(size)} now")
    if max_size is not None and size > max_size:
        terminal.note(f"still larger than {format_size(max_size)}: running turns are never deleted")
    return OK


def _dry_run(archive: StoreArchive, cutoff: float, max_size: int | None, terminal: Terminal) -> int:
    """Show what would be deleted. Responses have no recorded size, so --max-size gives no count."""
    size = archive.stats().total.bytes
    terminal.line(f"would delete {_counts(archive.count_expired(older_than=cutoff))} because of their age")
    if max_size is not None and size > max_size:
        excess = format_size(size - max_size)
        terminal.line(
            f"the size is {format_size(size)}, {excess} over the limit: would also delete the oldest"
        )
    elif max_size is not None:
        terminal.line(f"the size is {format_size(size)}, within the limit")
    return OK


def _show_progress(deleted: Pruned) -> None:
    """Write a progress line that the next one overwrites."""
    show_status(f"deleted {_counts(deleted)} so far")


def _counts(deleted: Pruned) -> str:
    return f"{counted(deleted.responses, 'response')} and {counted(deleted.conversations, 'conversation')}"


# Export


def _export(options: argparse.Namespace, terminal: Terminal) -> Act:
    since = parse_moment(options.since, "--since", time.time()) if options.since is not None else 0.0
    if options.ids and options.since is not None:
        raise UsageError("use either ids or --since, not both")
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
    return PROBLEM if missing else OK


@contextmanager
def _output(name: str | None, store_files: Sequence[Path], terminal: Terminal) -> Iterator[TerminalOutput]:
    """Open standard output, or a file that only its owner can read: it contains prompts and answers."""
    from penstock.shared_file import open_private

    if name is None:
        out = terminal.output()
        yield out
        out.flush()
        return
    if Path(name).resolve() in store_files:
        raise UsageError(f"{name} is the store itself: use another file")
    try:
        descriptor = open_private(name, os.O_WRONLY | os.O_TRUNC)
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror or error}") from None
    with os.fdopen(descriptor, "wb") as file:
        yield file


# Restored backups


def _fail_queued_options(add: Add) -> None:
    """Add none."""


def _fail_queued(options: argparse.Namespace, terminal: Terminal) -> Act:
    from penstock.store import is_in_use, location_of

    place = store_place(options)
    if is_in_use(place):
        raise UsageError(
            f"{location_of(place)}: a gateway uses this store, and starts what is queued; stop it first"
        )
    return lambda archive: _print_failed(archive.fail_queued(), terminal)


def _print_failed(count: int, terminal: Terminal) -> int:
    if count:
        responses = counted(count, "background response")
        terminal.line(f"{responses} will not be started; the next gateway ends {_them(count)} as failed")
    else:
        terminal.line("no background response was waiting to be started")
    return OK


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


_ACTIONS: dict[str, tuple[str, Callable[[Add], None], Callable[[argparse.Namespace, Terminal], Act]]] = {
    "stats": ("count responses, items, events and bytes", _stats_options, _stats),
    "prune": ("delete old responses, or shrink the store", _prune_options, _prune),
    "export": ("print responses and conversations, one JSON object per line", _export_options, _export),
    "fail-queued": (
        "let background responses that have not started end as failed",
        _fail_queued_options,
        _fail_queued,
    ),
}
"""Each action: its summary, a function that adds its options, and one that prepares it from the options."""


# Migrating and importing


def _migrate_options(add: Add) -> None:
    """Add none."""


def _migrate(options: argparse.Namespace, terminal: Terminal) -> int:
    from penstock.store import location_of, migrate_store

    place = store_place(options)
    done = migrate_store(place)
    for summary in done:
        terminal.line(summary)
    steps = f"applied {counted(len(done), 'step')}" if done else "nothing to do"
    terminal.line(f"{terminal.clean(location_of(place))} is up to date: {steps}")
    return OK


def _import_options(add: Add) -> None:
    add("file", metavar="FILE", help="the file of the store to import; no gateway may be using it")


def _import(options: argparse.Namespace, terminal: Terminal) -> int:
    from penstock.store import import_file, is_url, location_of

    place = store_place(options)
    if not is_url(place):
        raise UsageError("penstock store import needs a database: --store postgresql://HOST/DATABASE")
    progress = _show_imported if sys.stderr.isatty() else lambda _: None
    done = import_file(Path(options.file), str(place), progress)
    if sys.stderr.isatty():
        show_status("")
    terminal.line(f"imported {_imported(done)} into {terminal.clean(location_of(place))}")
    if done.known:
        terminal.line(f"{counted(done.known, 'record')} of the file {_were(done.known)} there already")
    _import_secret(Path(options.file), str(place), terminal)
    return OK


def _import_secret(file: Path, url: str, terminal: Terminal) -> None:
    """Move what opens the `encrypted_content` that clients hold, and say what is left to do."""
    from penstock.errors import ConfigError
    from penstock.gateway.history.sealing import FILE, SECRET, SHARED_NAME, secret_in
    from penstock.secret_variables import is_set
    from penstock.store import import_secret

    try:
        secret = secret_in(file.expanduser().resolve().parent)
    except ConfigError as error:
        raise UsageError(f"everything else was imported, but {error}. Repeat the command then") from None
    if secret and import_secret(SHARED_NAME, secret, url):
        terminal.line(f"{FILE} was moved as well: gateways of the database seal encrypted_content with it")
    elif secret:
        terminal.line(
            f"{FILE} was added, to open encrypted_content that was sealed with it; the database had a secret "
            "of its own already, and gateways go on sealing with that. Restart those that are running"
        )
    if is_set(SECRET, os.environ):
        terminal.line(f"{SECRET} is set here: set it to the same text for every gateway of the database")
    elif not secret:
        terminal.note(
            f"there is no {FILE} next to the file, so encrypted_content that clients hold cannot be opened, "
            f"unless the old gateway had its secret in {SECRET}: then set it to the same text for every "
            f"gateway of the database. If you have {FILE}, copy it next to the file and repeat the command"
        )


def _show_imported(done: Imported) -> None:
    show_status(f"imported {_imported(done)} so far")


def _imported(done: Imported) -> str:
    parts = [counted(done.responses, "response"), counted(done.conversations, "conversation")]
    return f"{', '.join(parts)} and {counted(done.turns, 'record')} of the ledger"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


_CHANGES: dict[str, tuple[str, Callable[[Add], None], Callable[[argparse.Namespace, Terminal], int]]] = {
    "migrate": ("create or update the tables of a database", _migrate_options, _migrate),
    "import": ("move everything from a store's file into a database", _import_options, _import),
}
"""Actions that do not need a store that can be read already: each with a function that does it."""
