"""A process that has imported all of `penstock`, and forks itself for each run of the command.

Imports take most of the time of a short command, and the tests run some hundreds. A fork is a real process:
it has its own standard streams, environment and folder, and its interpreter shuts down at the end.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryFile
from typing import IO

LIMIT = 60
"""Seconds until SIGALRM ends a run."""

_ROOT = Path(__file__).resolve().parents[2]


def run(command: list[str], stdin: bytes, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Return the exit code of `command`, its standard output and its standard error."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        _fill(given, stdin)
        code = run_on((given.fileno(), out.fileno(), err.fileno()), command, environment)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def run_on(
    files: tuple[int, int, int], command: list[str], environment: dict[str, str], folder: str = ""
) -> int:
    """Run `command` with these files as its standard streams; return its exit code."""
    order = {"command": command, "environment": environment, "folder": folder or os.getcwd()}
    with TemporaryFile() as orders:
        _fill(orders, json.dumps(order).encode())
        channel = _parent()
        socket.send_fds(channel, [b"!"], [*files, orders.fileno()])
        code = channel.recv(4)
        assert code, "the forking process has ended"
        return int.from_bytes(code, signed=True)


def _fill(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.seek(0)


@cache
def _parent() -> socket.socket:
    """Return the channel to the forking process, which starts once and ends with this process."""
    ours, theirs = socket.socketpair()
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.forks", str(theirs.fileno())],
        stdin=null,
        stdout=null,
        cwd=_ROOT,
        pass_fds=[theirs.fileno()],
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": ""},
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(channel: socket.socket) -> None:
    """Fork for each order. Returns in the fork, which then runs the command."""
    while True:
        asked, files, _, _ = socket.recv_fds(channel, 1, 4)
        if not asked:
            os._exit(0)
        child = os.fork()
        if not child:
            channel.close()
            _become(files)
            return
        for file in files:
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        channel.sendall(code.to_bytes(4, signed=True))


def _become(files: list[int]) -> None:
    signal.alarm(LIMIT)
    with open(files.pop(), "rb") as orders:
        order = json.load(orders)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv = order["command"]


if __name__ == "__main__":
    import penstock
    from penstock.cli import main

    sys.path.remove(str(_ROOT))  # added by `-m`; the installed command does not have it
    for module in walk_packages(penstock.__path__, "penstock."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    gc.freeze()  # so that forks do not collect shared objects at exit
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
