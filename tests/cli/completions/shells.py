"""Shells that complete a line with the script of `penstock completions`."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import pytest

from tests.cli.running import environment, penstock

_LIMIT = 30.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x07\r]")


@cache
def script(shell: str) -> str:
    result = penstock("completions", shell)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def shell(name: str) -> str:
    """Return the path of a shell, or skip the test."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


def output_of(command: list[str], folder: Path, **changes: str) -> str:
    """Return what a shell prints; it must report no error."""
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment(**changes), timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def completed_by_key(command: list[str], setup: str, line: str, wanted: str, folder: Path) -> str:
    """Type a line and Tab into an interactive shell; return the screen as soon as it has `wanted`."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.execve(command[0], command, {**environment(), "TERM": "xterm", "HOME": str(folder), "PS1": "> "})
    try:
        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        screen = _read_until(terminal, "ready\n")
        os.write(terminal, f"{line}\t".encode())
        screen = _read_until(terminal, wanted)
    finally:
        os.close(terminal)  # hangs up, which ends the shell
        os.waitpid(child, 0)
    return screen


def _read_until(terminal: int, wanted: str) -> str:
    screen, end = "", time.monotonic() + _LIMIT
    while wanted not in screen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{wanted!r} did not appear on the screen: {screen!r}"
        screen = _CONTROL.sub("", screen + os.read(terminal, 65536).decode(errors="replace"))
    return screen


def bash_replies(words: list[str], folder: Path, **changes: str) -> list[str]:
    """Return COMPREPLY for the last of these words."""
    (folder / ".penstock.bash").write_text(script("bash"))
    program = (
        f"source .penstock.bash; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_penstock; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return output_of([shell("bash"), "--norc", "-c", program], folder, **changes).split("\n")[:-1]
