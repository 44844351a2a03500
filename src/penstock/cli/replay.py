"""`penstock replay`: run a recorded turn with the current code and show the differences."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli import OK, PROBLEM, USAGE, UsageError
from penstock.cli.source import contents
from penstock.cli.store import add_store_option, store_place
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.replay.differences import Comparison, Difference
    from penstock.replay.recording import Recording
    from penstock.replay.runner import Replayed

_USAGE = "penstock replay [options] RESPONSE_ID|FILE|-"

_DESCRIPTION = """\
Replay a turn that a gateway recorded: process the upstream's bytes, read by
read, with this version, and report how the new stream differs from the one that
was sent. Nothing is sent over the network. Ids, times, and how text is split
into events are not compared."""

_EPILOG = """\
examples:
  penstock serve --record                   record turns from now on
  penstock replay resp_abc
  penstock replay --events resp_abc | penstock check -
  penstock store export resp_abc -o bug.jsonl
  penstock replay bug.jsonl                 elsewhere, without the store

A recording contains prompts and answers, but no API keys. See docs/replay.md.

exit codes:
  0  no differences
  1  there are differences
  2  nothing was replayed: not recorded, not found, or wrong options"""

_MAX_SHOWN = 40
"""Differences shown without --json."""
_WIDTH = 72
"""Characters shown of a text."""
_LEAD = 20
"""Characters shown before the first that differs."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("source", metavar="RESPONSE_ID|FILE|-", help="a response in the store, or an exported one")
    add_store_option(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object for each response")
    output.add_argument("--events", action="store_true", help="print the new stream as server-sent events")


def run(options: argparse.Namespace) -> int:
    from penstock.replay.differences import compare  # imported here to keep --help fast
    from penstock.replay.recording import CannotReplay
    from penstock.replay.runner import replay

    terminal = Terminal()
    codes = []
    for read in _recordings(options, terminal):
        try:
            recording = read()
            replayed = replay(recording)
        except CannotReplay as error:
            terminal.note(str(error))
            codes.append(USAGE)
            continue
        comparison = compare(recording, replayed)
        _print(options, recording, replayed, comparison, terminal)
        codes.append(OK if comparison.is_same else PROBLEM)
    if not codes:
        raise UsageError(f"{options.source} contains no response: create a file with penstock store export")
    return max(codes)


# Reading recordings


def _recordings(options: argparse.Namespace, terminal: Terminal) -> Iterator[Callable[[], Recording]]:
    """Yield a function per recording, which reads it: an error in one must not skip the others."""
    if options.source != "-" and not Path(options.source).is_file():
        yield lambda: _stored(options)
        return
    from penstock.errors import DecodeError
    from penstock.replay.recording import exported_recording, read_exported

    for number, line in enumerate(contents(options.source, terminal).split(b"\n"), start=1):
        try:
            record = read_exported(line)
        except DecodeError as error:
            raise UsageError(f"{options.source}:{number}: {error}") from None
        if record is not None:
            yield partial(exported_recording, record)


def _stored(options: argparse.Namespace) -> Recording:
    from penstock.errors import StoreError
    from penstock.replay.recording import read_recording
    from penstock.store import open_archive

    try:
        with open_archive(store_place(options)) as archive:
            stored = archive.find(options.source)
            if stored is None:
                raise UsageError(
                    f"there is no file {options.source}, and no such response in {archive.location}: "
                    "use --store to name another store"
                )
            events = archive.events(stored.tenant, stored.id)
            traces = archive.traces(stored.tenant, stored.id)
    except StoreError as error:
        raise UsageError(str(error)) from None
    return read_recording(stored.id, events, traces, stored.verdict)


# Output


def _print(
    options: argparse.Namespace,
    recording: Recording,
    replayed: Replayed,
    comparison: Comparison,
    terminal: Terminal,
) -> None:
    if options.json:
        _print_json(recording, replayed, comparison, terminal)
        return
    if options.events:
        _print_events(recording, replayed, terminal)
    show = terminal.note if options.events else terminal.line
    for line in _summary(recording, comparison, terminal):
        show(line)


def _print_json(recording: Recording, replayed: Replayed, comparison: Comparison, terminal: Terminal) -> None:
    import msgspec

    result = {
        "id": recording.id,
        "same": comparison.is_same,
        "events": comparison.events,
        "attempts": len(replayed.rendered),
        "partial": comparison.is_partial,
        "differences": comparison.differences,
        "request_differences": comparison.requests,
    }
    terminal.result(msgspec.json.encode(result).decode())


def _print_events(recording: Recording, replayed: Replayed, terminal: Terminal) -> None:
    """Print the new stream in the accent of the original client."""
    from penstock.protocol.events import TERMINAL
    from penstock.protocol.wire import encode
    from penstock.sse import DONE, encode_frame
    from penstock.stream.accents import ACCENTS

    accent = ACCENTS[recording.attempts[0].plan.accent]()
    output = terminal.output()
    for event in map(accent, replayed.events):
        output.write(encode_frame(event.type, encode(event)))
        if event.type in TERMINAL:
            output.write(DONE)
    output.flush()


def _summary(recording: Recording, comparison: Comparison, terminal: Terminal) -> Iterator[str]:
    id, found = terminal.clean(recording.id), [*comparison.requests, *comparison.differences]
    events = f"{comparison.events} event{'s' * (comparison.events != 1)}"
    if comparison.is_same:
        yield f"{id}  {terminal.paint('the same', 'green')}: {events}"
    else:
        count = f"{len(found)} difference{'s' * (len(found) != 1)} in {events}"
        yield f"{id}  {terminal.paint('different', 'red')}: {count}"
    if comparison.is_partial:
        yield "  compared only the recorded part: the recording does not include the end of the response"
    elif recording.stopped is not None:
        yield f"  compared up to where the turn was stopped: {recording.stopped.message}"
    for difference in found[:_MAX_SHOWN]:
        yield from _difference_lines(difference, terminal)
    if len(found) > _MAX_SHOWN:
        yield f"  and {len(found) - _MAX_SHOWN} more: --json shows all of them"


def _difference_lines(difference: Difference, terminal: Terminal) -> Iterator[str]:
    before, now = _shown(difference.before, difference.now)
    field = f": {difference.field}" if difference.field else ""
    yield terminal.clean(f"  {difference.where}{field}")
    yield terminal.clean(f"    before  {before}")
    yield terminal.clean(f"    now     {now}")
    if difference.more:
        yield f"    and in {difference.more} more place{'s' * (difference.more != 1)}"


def _shown(before: Any, now: Any) -> tuple[str, str]:
    """Return excerpts of both values, starting shortly before the first difference."""
    import json

    old, new = (
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in (before, now)
    )
    pairs = enumerate(zip(old, new, strict=False))
    first = next((index for index, (left, right) in pairs if left != right), min(len(old), len(new)))
    start = max(0, first - _LEAD) if max(len(old), len(new)) > _WIDTH else 0
    return _excerpt(old, start), _excerpt(new, start)


def _excerpt(text: str, start: int) -> str:
    shown = text[start : start + _WIDTH]
    return f"{'…' * (start > 0)}{shown}{'…' * (start + _WIDTH < len(text))}"
