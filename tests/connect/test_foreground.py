"""A program in the foreground: its exit code, and the signals that it gets. tests/cli/test_run.py has those
of a terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from penstock.connect.foreground import Foreground, Interrupted
from tests.client.server import run

WAITING = """
import os, signal, sys
def ended(number, _):
    print(signal.Signals(number).name, flush=True)
    sys.exit(7)
for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(each, ended)
os.kill(os.getppid(), int(sys.argv[1]))
signal.pause()
"""
"""A program that waits for the signal that it sends to its parent."""


async def code_of(*command: str) -> int:
    async with Foreground() as foreground:
        return await foreground.run(command, os.environ)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("", 0),
        ("import sys; sys.exit(3)", 3),
        ("import os; os.kill(os.getpid(), 15)", 143),
        ("import os; os.kill(os.getpid(), 9)", 137),
    ],
)
def test_the_exit_code_is_the_programs_own_or_that_of_its_signal(program: str, code: int) -> None:
    assert run(code_of(sys.executable, "-c", program)) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    assert run(code_of(sys.executable, "-c", WAITING, str(int(number)))) == 7
    assert capfd.readouterr().out == f"{number.name}\n"
    assert signal.getsignal(number) == before


def test_a_program_does_not_inherit_ignored_signals() -> None:
    program = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    assert run(code_of(sys.executable, "-c", program)) == 0


def test_a_signal_before_the_program_ends_the_block() -> None:
    cleaned: list[str] = []

    async def test() -> None:
        async with Foreground():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.Event().wait()
            finally:
                cleaned.append("up")

    with pytest.raises(Interrupted) as raised:
        run(test())
    assert raised.value.code == 143
    assert cleaned == ["up"]


def test_a_program_does_not_outlive_an_error_here(tmp_path: Path) -> None:
    program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    async def test() -> None:
        async with Foreground() as foreground:
            task = asyncio.create_task(foreground.run((sys.executable, "-c", program), os.environ))
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                await asyncio.sleep(0.001)
            task.cancel()
            await task

    with pytest.raises(asyncio.CancelledError):
        run(test())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("no program")
    with pytest.raises(OSError, match="broken"):
        run(code_of(str(tmp_path / "broken")))
