"""The process of a worker as the supervisor sees it, and when to start the next one after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from penstock.gateway.config.options import WORKER_VARIABLE
from penstock.gateway.workers.messages import Collect, FromWorker, Link, link_to_worker

COMMAND = (sys.executable, "-P", "-m", "penstock", "serve")
"""`-P`: a module in the current folder must not replace one of ours."""


FIRST = 0.5
"""Seconds before the second attempt."""
LONGEST = 30.0
ALONE = 1.0
"""The longest pause if no other worker serves."""
STABLE = 2.0
"""Seconds after which a crash is not counted with the one before: to start a worker every few seconds is
better than to be without it."""
MANY = 5
"""Crashes in a row that are worth a message of their own."""


async def start_process(
    number: int, descriptors: Sequence[int], command: Sequence[str] = COMMAND
) -> WorkerProcess:
    """Start a process that inherits these descriptors; raise `OSError` if the system refuses."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, WORKER_VARIABLE: str(theirs.fileno())},
                pass_fds=[theirs.fileno(), *descriptors],
                process_group=0,  # Ctrl-C is for the supervisor
            )
        return WorkerProcess(number, process, await link_to_worker(ours))
    except BaseException:
        ours.close()
        raise


class WorkerProcess:
    """Whether it is ready, what it has answered, and how it ended."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, link: Link[FromWorker]) -> None:
        self.number, self.link, self._process = number, link, process
        self.gauges: dict[str, float | dict[str, float]] = {}
        self.is_retired = False
        """Whether another worker has taken its place."""
        self.is_stopped = False
        """Whether it ends in good order."""
        self.lost = 0
        self.silence = 0
        """Seconds in which the supervisor ran, and heard nothing."""
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[str] = self._loop.create_future()
        self._answer: asyncio.Future[None] | None = None
        self._ready_at = 0.0

    def __str__(self) -> str:
        return f"worker {self.number} (process {self._process.pid})"

    # Its start

    def set_ready(self, problem: str) -> None:
        if not self._ready.done():
            self._ready_at = self._loop.time()
            self._ready.set_result(problem)

    @property
    def is_ready(self) -> bool:
        return self._ready.done() and not self._ready.result()

    async def became_ready(self) -> str:
        """Wait until it is ready; return why it is not."""
        return await asyncio.shield(self._ready)

    def seconds(self) -> float:
        """Return for how long it has been ready."""
        return self._loop.time() - self._ready_at

    # Its metrics

    def ask(self) -> asyncio.Future[None]:
        """Ask for what it has counted, unless it has not answered the last time yet."""
        if self._answer is None:
            self._answer = self._loop.create_future()
            self.link.send(Collect())
        return self._answer

    def has_answered(self) -> None:
        if self._answer is not None:
            self._answer.set_result(None)
            self._answer = None

    # Its end

    async def ended(self) -> None:
        """Wait for the end of its process."""
        await self._process.wait()
        self.gauges = {}
        self.has_answered()
        self.set_ready(f"it ended before it was ready: {self.end}")
        await self.link.aclose()

    @property
    def end(self) -> str:
        """How its process ended, in words."""
        code = self._process.returncode or 0
        if code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()


class Backoff:
    """Decides when a worker that has crashed is started again: at once, and if it keeps crashing, ever more
    slowly."""

    def __init__(self) -> None:
        self.crashes = 0
        """In a row."""

    def crashed(self, seconds: float) -> float:
        """Count a crash of a worker that was ready for so long; return the seconds to wait."""
        self.crashes = 1 if seconds >= STABLE else self.crashes + 1
        return min(FIRST * 2 ** (self.crashes - 2), LONGEST) if self.crashes > 1 else 0.0
