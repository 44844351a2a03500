"""Run the command on a pseudo-terminal, and return every byte that the terminal gets."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cli import forks
from tests.cli.running import COMMAND, environment

_SECONDS = 90.0


class Shown:
    """What a terminal has shown so far."""

    def __init__(self) -> None:
        self.bytes = bytearray()


@contextmanager
def terminal() -> Iterator[tuple[int, Shown]]:
    """Yield the descriptor of a terminal, and what it shows. It is all there when the block has been left."""
    ours, theirs = pty.openpty()
    shown = Shown()

    def read() -> None:
        with suppress(OSError):  # on Linux the end of a terminal is an error
            while data := os.read(ours, 65536):
                shown.bytes += data

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield theirs, shown
    finally:
        os.close(theirs)
        reader.join(20)
        os.close(ours)
    assert b"Traceback" not in shown.bytes, bytes(shown.bytes)


def on_a_terminal(*arguments: str, folder: Path) -> bytes:
    """Run to the end, without input."""
    changes = environment(TERM="xterm", COLUMNS="")
    with terminal() as (theirs, shown), open(os.devnull, "rb") as nothing:
        files = (nothing.fileno(), theirs, theirs)
        forks.run_on(files, [COMMAND, *arguments], changes, str(folder))
    return bytes(shown.bytes)


def typed_on_a_terminal(*arguments: str, typed: Sequence[tuple[bytes, bytes]], folder: Path) -> bytes:
    """Run to the end. `typed`: what is typed as soon as the terminal has shown something."""
    (folder / "inputrc").write_text("set bell-style none\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment(TERM="xterm", COLUMNS="", INPUTRC=str(folder / "inputrc")),
        start_new_session=True,
    )
    os.close(theirs)
    shown, waiting, searched = bytearray(), list(typed), 0
    deadline = time.monotonic() + _SECONDS
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.5)[0]:
                continue
            shown += os.read(ours, 65536)
            while waiting and (found := shown.find(waiting[0][0], searched)) >= 0:
                searched = found + len(waiting[0][0])
                os.write(ours, waiting.pop(0)[1])
    except OSError:  # on Linux the end of a terminal is an error
        pass
    finally:
        os.close(ours)  # hangs up
        process.wait(30)
    assert not waiting, f"{waiting[0][0]!r} was not shown: {bytes(shown[-500:])!r}"
    assert b"Traceback" not in shown, bytes(shown)
    return bytes(shown)
