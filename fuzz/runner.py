"""Run targets one after the other, each in a process of its own, so that a crash or a hang is a finding too.

The processes are forked after everything was imported once. A process shares the input that it is running
with its parent, which can then still store it.
"""

from __future__ import annotations

import mmap
import os
import pkgutil
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from random import Random

from msgspec import Struct

from fuzz.execution import TIMEOUT, Failure, Outcome, execute
from fuzz.instrument import Coverage
from fuzz.loop import Loop
from fuzz.mutators import MOST_BYTES
from fuzz.storage import Folders
from fuzz.target import Target

FOUND = 1
"""The exit code of a process that found something."""
_HANGS_AFTER = 3 * TIMEOUT
_PROGRESS_EVERY = 10.0
_STEPS_AT_ONCE = 20
_NOT_IMPORTED = ("__main__", "pytest_plugin")


class RunOptions(Struct, frozen=True):
    seconds: float
    """For each target."""
    runs: int = 0
    """Instead of a time: how many inputs are made for each target."""
    seed: int = 0
    with_recordings: bool = True
    folders: Folders = Folders()


class LastInput:
    """What a process is running, in memory that it shares with its parent."""

    _HEAD = struct.Struct("QI")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._HEAD.size + 8 * MOST_BYTES)
        self._runs = 0

    def write(self, data: bytes) -> None:
        self._runs += 1
        data = data[: 8 * MOST_BYTES]
        self._HEAD.pack_into(self._memory, 0, self._runs, len(data))
        self._memory[self._HEAD.size : self._HEAD.size + len(data)] = data

    def read(self) -> tuple[int, bytes]:
        """Return the number of inputs that were run, and the last one."""
        runs, size = self._HEAD.unpack_from(self._memory)
        return runs, self._memory[self._HEAD.size : self._HEAD.size + size]


def import_everything(package: str = "penstock") -> None:
    """Import all modules: what is imported later would count as code that an input reaches."""
    for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        if not module.name.endswith(_NOT_IMPORTED):
            import_module(module.name)


def run_all(targets: Sequence[Target], coverage: Coverage, options: RunOptions) -> int:
    """Fuzz these targets; return how many of them have findings."""
    found = 0
    for target in targets:
        found += _run_in_process(target, coverage, options)
    return found


def _run_in_process(target: Target, coverage: Coverage, options: RunOptions) -> bool:
    last = LastInput()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        os._exit(_fuzz(target, coverage, options, last))
    try:
        status = _wait(process, last)
    except KeyboardInterrupt:
        os.waitpid(process, 0)  # it received the same signal, and reports what it did
        raise
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status) != 0
    name = signal.Signals(os.WTERMSIG(status)).name
    report = f"the process was ended by {name} while it ran this input"
    failure = Failure(f"process {name}", report)
    path, command = options.folders.save_finding(target, last.read()[1], failure)
    print(f"\n{target.name}: {report}\n{path}\n{command}\n", flush=True)
    return True


def _wait(process: int, last: LastInput) -> int:
    """Wait for the end of a process; kill it if it no longer runs new inputs."""
    runs, since = 0, time.monotonic()
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.05)
        now_runs = last.read()[0]
        if now_runs != runs:
            runs, since = now_runs, time.monotonic()
        elif time.monotonic() - since > _HANGS_AFTER:
            os.kill(process, signal.SIGKILL)
            since = time.monotonic()


def _fuzz(target: Target, coverage: Coverage, options: RunOptions, last: LastInput) -> int:
    def run(target: Target, data: bytes) -> Outcome:
        last.write(data)
        return execute(target, data)

    loop = Loop(
        target,
        Random(f"{target.name} {options.seed}"),
        coverage.words(target.words),
        folders=options.folders,
        run=run,
    )
    try:
        _work(loop, options)
    except KeyboardInterrupt:
        print(_line(loop, "stopped"), flush=True)
        return 130
    return FOUND if loop.findings else 0


def _work(loop: Loop, options: RunOptions, clock: Callable[[], float] = time.monotonic) -> None:
    began = clock()
    loop.load(list(options.folders.known_inputs(loop.target, with_recordings=options.with_recordings)))
    loaded, end = loop.runs, clock() + options.seconds
    next_line = began + _PROGRESS_EVERY
    while loop.runs - loaded < options.runs if options.runs else clock() < end:
        for _ in range(_STEPS_AT_ONCE):
            loop.step()
        if clock() >= next_line:
            print(_line(loop, f"{clock() - began:.0f} s"), flush=True)
            next_line = clock() + _PROGRESS_EVERY
    print(_line(loop, f"{clock() - began:.0f} s, done"), flush=True)


def _line(loop: Loop, when: str) -> str:
    return (
        f"{loop.target.name:16} {when:>11}  {loop.runs:8,} runs  {loop.branches:6,} branches  "
        f"{len(loop.entries):5,} inputs  {loop.most_work:9,} most work  {len(loop.findings)} findings"
    )
