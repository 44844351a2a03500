"""Run the installed command as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli import forks

COMMAND = str(Path(sys.executable).with_name("penstock"))

Result = subprocess.CompletedProcess[str]


def environment(**changes: str) -> dict[str, str]:
    """Return the environment without variables that change the output, and with `changes`."""
    varying = ("COLUMNS", "NO_COLOR", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "LC_ALL", "LANG")
    unchanged = {name: value for name, value in os.environ.items() if name not in varying}
    return {**unchanged, "PYTHONUTF8": "1", "COLUMNS": "100", **changes}


def penstock(*arguments: str, stdin: bytes = b"", **changes: str) -> Result:
    """Run to the end, as a fork of a process that has imported everything; `fresh` is slower but exact."""
    if not hasattr(os, "fork"):
        return fresh(*arguments, stdin=stdin, **changes)
    command = [COMMAND, *arguments]
    return _result(command, *forks.run(command, stdin, environment(**changes)))


def fresh(*arguments: str, stdin: bytes = b"", encoding: str = "utf-8", **changes: str) -> Result:
    """Run the installed command to the end: for settings that Python reads at startup (encoding)."""
    command = [COMMAND, *arguments]
    run = subprocess.run(command, input=stdin, capture_output=True, env=environment(**changes), timeout=60)
    return _result(command, run.returncode, run.stdout, run.stderr, encoding)


def _result(command: list[str], code: int, out: bytes, err: bytes, encoding: str = "utf-8") -> Result:
    """Decode the output, and check that no command prints a traceback."""
    result = Result(command, code, out.decode(encoding), err.decode(encoding))
    assert "Traceback" not in result.stderr
    return result


def start(*arguments: str, **changes: str) -> subprocess.Popen[bytes]:
    """Start with pipes for all streams, for tests that interact with a running command."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=environment(**changes)
    )
