"""What a client's own program says about a configuration, before it is written."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct

_LONGEST = 20
"""Seconds in which a program reads its configuration."""
_MOST_LINES, _MOST_CHARACTERS = 3, 400


class OwnCheck(Struct, frozen=True, kw_only=True):
    """How a program reads a configuration without any other effect."""

    program: str
    arguments: tuple[str, ...]
    folder_variable: str
    """The variable for the folder with its configuration."""
    file: str
    """The name of the file there."""
    is_slow: bool = False
    """Takes seconds: only what is written is checked."""


def complaint(check: OwnCheck, path: str, data: bytes) -> str | None:
    """Let the program at `path` read a configuration, in an empty home; return its complaint, or an empty
    text if it accepts the file, or None if that could not be found out."""
    with tempfile.TemporaryDirectory(prefix="penstock-connect-") as home:
        Path(home, check.file).write_bytes(data)
        environment = {**os.environ, check.folder_variable: home, "HOME": home, "RUST_BACKTRACE": "0"}
        try:
            ran = subprocess.run(
                [path, *check.arguments],
                env=environment,
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    if ran.returncode == 0:
        return ""
    said = ran.stderr.decode(errors="replace").replace(f"{home}{os.sep}", "").splitlines()
    errors = [line.strip() for line in said if line.strip() and not line.startswith("WARNING")]
    if errors and errors[0].startswith("Traceback"):  # Python's message is at the end
        errors = errors[-_MOST_LINES:]
    return " ".join(errors[:_MOST_LINES])[:_MOST_CHARACTERS] or f"exit code {ran.returncode}"
