"""A process that has imported all of `penstock`, and makes each run of the command a fork of itself.

Imports are most of what a short command costs, and the tests run some hundreds. A fork is a process all the
same: its own standard streams, environment and folder, and an interpreter that is shut down at the end.
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
"""Seconds until a run is ended by SIGALRM."""

_ROOT = Path(__file__).resolve().parents[2]


def run(command: list[str], stdin: bytes, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """The exit code of `command`, and what it wrote to standard output and standard error."""
    order = {"command": command, "environment": environment, "folder": os.getcwd()}
    with TemporaryFile() as orders, TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        _fill(orders, json.dumps(order).encode())
        _fill(given, stdin)
        channel = _parent()
        socket.send_fds(channel, [b"!"], [each.fileno() for each in (given, out, err, orders)])
        code = channel.recv(4)
        assert code, "the process that forks is gone"
        out.seek(0)
        err.seek(0)
        return int.from_bytes(code, signed=True), out.read(), err.read()


def _fill(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.seek(0)


@cache
def _parent() -> socket.socket:
    """The way to the process that forks; it is started once and ends with this one."""
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
    """Fork for each order. Returns in the fork, which is then to run the command."""
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

    sys.path.remove(str(_ROOT))  # `-m` put it there; the installed command does without
    for module in walk_packages(penstock.__path__, "penstock."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    gc.freeze()  # what is shared is not looked through at the end of every fork
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
