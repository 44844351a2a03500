"""Run the host as a process: standard input and output, signals, and exit.

Threads read and write the pipes, because an event loop cannot do it on Windows.
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

_READ_SIZE = 256 * 1024
_FLUSH_TIMEOUT = 1.0
"""Seconds that the editor has to read the last lines."""


def run(log_level: str, exit_code: int = 0, broken_pipe_exit_code: int = 1) -> NoReturn:
    """Serve until standard input is closed, SIGTERM arrives or the output pipe breaks; then exit.

    Exits with `os._exit`: Python would wait for all threads of the loop, and a thread that resolves a host
    name may take minutes. Meanwhile the process would outlive its editor window.
    """
    output = _reserve_output()
    set_up(log_level)
    input = os.open(os.devnull, os.O_RDONLY) if sys.stdin is None else sys.stdin.fileno()
    if not os.isatty(input):
        # Ctrl-C in the editor's terminal reaches all of its processes and is not meant for this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    runner = asyncio.Runner()
    try:
        is_connected = runner.run(_serve(input, output))
    except KeyboardInterrupt:  # only if standard input is a terminal
        runner.close()
        raise
    sys.stderr.flush()
    os._exit(exit_code if is_connected else broken_pipe_exit_code)


def _reserve_output() -> int:
    """Reserve standard output for the protocol: anything that a library prints goes to standard error."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    return output


async def _serve(input: int, output: int) -> bool:
    loop = asyncio.get_running_loop()
    is_over, is_broken = asyncio.Event(), asyncio.Event()

    def on_broken_pipe() -> None:
        is_broken.set()
        is_over.set()

    out = Outbox(output, on_broken_pipe)
    signal.signal(signal.SIGTERM, lambda *_: _end(loop, is_over))
    out.put(msgspec.json.encode({"type": "ready", "protocol": PROTOCOL, "version": VERSION}) + b"\n")
    # They take 0.2 s, so import them after `ready`.
    from penstock.models.learned_limits import LearnedLimits, limits_path
    from penstock.provider.host.host import EditorHost

    host = EditorHost(out, LearnedLimits(limits_path(os.environ)))
    reading = threading.Thread(target=_read, args=(input, host, loop, is_over), name="penstock input")
    reading.daemon = True  # a blocking read cannot be interrupted
    reading.start()
    await is_over.wait()
    await host.aclose()
    if not is_broken.is_set():
        await out.aclose(_FLUSH_TIMEOUT)
    log.info("ended")
    return not is_broken.is_set()


def _read(input: int, host: EditorHost, loop: asyncio.AbstractEventLoop, is_over: asyncio.Event) -> None:
    """Read lines, in a thread. Read more only after the host has handled the previous ones."""
    from penstock.provider.host.lines import LineSplitter

    splitter = LineSplitter()
    try:
        while data := os.read(input, _READ_SIZE):
            _pass_lines(splitter.feed(data), host, loop)
        _pass_lines(splitter.end(), host, loop)
    except OSError as error:
        log.error("%s", f"standard input cannot be read ({type(error).__name__})")
    except (RuntimeError, CancelledError):  # the loop is closed or closing: the process is exiting
        return
    _end(loop, is_over)


def _end(loop: asyncio.AbstractEventLoop, is_over: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is already closed
        loop.call_soon_threadsafe(is_over.set)


def _pass_lines(lines: list[bytes | None], host: EditorHost, loop: asyncio.AbstractEventLoop) -> None:
    if not lines:
        return
    handling = host.handle_lines(lines)
    try:
        asyncio.run_coroutine_threadsafe(handling, loop).result()
    except RuntimeError:
        handling.close()
        raise
