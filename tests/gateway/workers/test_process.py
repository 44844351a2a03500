"""A worker's process as the supervisor sees it, and the pauses between attempts to start one."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from penstock.gateway.config.options import WORKER_VARIABLE
from penstock.gateway.workers.process import LONGEST, STABLE, Backoff, start_process
from tests.client.server import run


@pytest.mark.parametrize(
    ("program", "end"),
    [
        ("pass", "exit code 0"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    ],
)
def test_a_process_that_ends_before_it_is_ready_says_how(program: str, end: str) -> None:
    async def watch() -> None:
        worker = await start_process(4, [], [sys.executable, "-c", program])
        ready = asyncio.create_task(worker.became_ready())
        assert await worker.link.receive() is None
        await worker.ended()
        assert worker.end == end
        assert await ready == f"it ended before it was ready: {end}"
        assert not worker.is_ready
        worker.kill()  # too late, and not an error

    run(watch())


def test_a_process_inherits_the_given_descriptors_and_no_others() -> None:
    program = f"import os; os.fstat(int(os.environ[{WORKER_VARIABLE!r}])); os.fstat({{}}); os._exit(7)"

    async def watch() -> None:
        read, write = os.pipe()
        for descriptors, end in (([read], "exit code 7"), ([write], "exit code 1")):
            command = [sys.executable, "-c", f"import sys; sys.stderr = None; {program.format(read)}"]
            worker = await start_process(1, descriptors, command)
            await worker.ended()
            assert worker.end == end
        os.close(read)
        os.close(write)

    run(watch())


def test_a_program_that_does_not_exist_is_an_error_and_leaves_nothing_open() -> None:
    async def fail() -> None:
        with pytest.raises(OSError, match="nowhere"):
            await start_process(1, [], ["/nowhere"])

    before = len(os.listdir("/proc/self/fd"))
    run(fail())
    assert len(os.listdir("/proc/self/fd")) == before


def test_after_one_crash_there_is_no_pause_and_after_more_it_doubles() -> None:
    backoff = Backoff()
    pauses = [backoff.crashed(1.0) for _ in range(12)]
    assert pauses[:5] == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST
    assert backoff.crashes == 12


def test_a_crash_after_a_long_time_is_the_first_one_again() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.crashed(1.0)
    assert backoff.crashed(STABLE) == 0.0
    assert backoff.crashes == 1
