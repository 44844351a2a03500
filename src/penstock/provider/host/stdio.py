"""The host as a process: standard input and output, the signals, and the end.

Pipes are read and written by threads, because an event loop cannot do it on Windows.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec

from penstock.provider.host.logs import log, set_up
from penstock.provider.host.outbox import Outbox
from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.provider.host.host import EditorHost

PROTOCOL = 1

_PIECE = 256 * 1024
_LAST_WORDS = 1.0
"""Seconds in which the editor may still read what was written."""


def run(log_level: str, when_ended: int = 0, when_unheard: int = 1) -> NoReturn:
    """Serve until standard input is closed or SIGTERM comes, or until nobody reads any more: the exit codes.

    Ends the process itself. Python would wait for every thread of the loop, and one that looks up a name may
    take minutes, for which the editor would see the process of a window that is closed.
    """
    taken = _take_output()
    set_up(log_level)
    given = os.open(os.devnull, os.O_RDONLY) if sys.stdin is None else sys.stdin.fileno()
    if not os.isatty(given):
        # A Ctrl-C in the editor's terminal goes to all of its processes, and is not meant for this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    runner = asyncio.Runner()
    try:
        is_heard = runner.run(_serve(given, taken))
    except KeyboardInterrupt:  # at a terminal
        runner.close()
        raise
    sys.stderr.flush()
    os._exit(when_ended if is_heard else when_unheard)


def _take_output() -> int:
    """Nothing but lines of the protocol may be written: what a library prints goes to standard error."""
    taken = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    return taken


async def _serve(given: int, taken: int) -> bool:
    loop = asyncio.get_running_loop()
    over, is_broken = asyncio.Event(), asyncio.Event()

    def break_off() -> None:
        is_broken.set()
        over.set()

    out = Outbox(taken, break_off)
    signal.signal(signal.SIGTERM, lambda *_: _end(loop, over))
    out.put(msgspec.json.encode({"type": "ready", "protocol": PROTOCOL, "version": VERSION}) + b"\n")
    from penstock.provider.host.host import EditorHost  # a fifth of a second: the editor knows by now

    host = EditorHost(out)
    reading = threading.Thread(target=_read, args=(given, host, loop, over), name="penstock input")
    reading.daemon = True  # nothing ends a read
    reading.start()
    await over.wait()
    await host.aclose()
    if not is_broken.is_set():
        await out.aclose(_LAST_WORDS)
    log.info("ended")
    return not is_broken.is_set()


def _read(given: int, host: EditorHost, loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    """In a thread: one line after the other. More is read when the host has taken what was."""
    from penstock.provider.host.lines import LineSplitter

    splitter = LineSplitter()
    try:
        while data := os.read(given, _PIECE):
            _hand_over(splitter.feed(data), host, loop)
        _hand_over(splitter.end(), host, loop)
    except OSError as error:
        log.error("%s", f"standard input cannot be read ({type(error).__name__})")
    except (RuntimeError, CancelledError):  # the loop is closed, or is closing: the process ends already
        return
    _end(loop, over)


def _end(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed: it has ended
        loop.call_soon_threadsafe(over.set)


def _hand_over(lines: list[bytes | None], host: EditorHost, loop: asyncio.AbstractEventLoop) -> None:
    if not lines:
        return
    taking = host.take(lines)
    try:
        asyncio.run_coroutine_threadsafe(taking, loop).result()
    except RuntimeError:
        taking.close()
        raise
