"""Install other people's programs once, at pinned versions, into a cache folder outside of the repository."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

LONGEST = 600
"""Seconds that one step of an installation may take. Without a registry it fails much sooner."""

QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
"""Install scripts would build native modules, which are not needed here."""

NO_NETWORK = (
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "ETIMEDOUT",
    "NewConnectionError",
    "ConnectTimeoutError",
    "Temporary failure in name resolution",
)
"""The errors of npm and pip if there is no registry."""


class InstallError(Exception):
    """A program could not be installed."""


class OutOfReachError(InstallError):
    """The registry cannot be reached from this machine."""


def cache_folder(name: str, versions: Any) -> Path:
    """Return a separate folder for every set of versions, so that an old one is never partly replaced."""
    home = os.environ.get("PENSTOCK_CACHE")
    root = Path(home) if home else Path.home() / ".cache" / "penstock" / name
    return root / hashlib.sha256(msgspec.json.encode(versions)).hexdigest()[:12]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process install while others wait. The lock is released when the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run one step of an installation."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment or os.environ, capture_output=True, timeout=LONGEST
        )
    except FileNotFoundError as missing:
        raise OutOfReachError(f"there is no {name}") from missing
    except subprocess.TimeoutExpired as slow:
        raise InstallError(f"{name} did not end in {LONGEST} seconds") from slow
    if done.returncode:
        stderr = done.stderr.decode(errors="replace").strip()[-2000:]
        is_out_of_reach = any(code in stderr for code in NO_NETWORK)
        raise (OutOfReachError if is_out_of_reach else InstallError)(f"{name} failed: {stderr}")


def npm(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
    run(["npm", *arguments, *QUIET], folder, environment)


def give_up(program: str, problem: InstallError) -> NoReturn:
    """Skip the test. In continuous integration, only a missing network is a reason for that."""
    if os.environ.get("CI") == "true" and not isinstance(problem, OutOfReachError):
        pytest.fail(f"{program} could not be installed: {problem}", pytrace=False)
    pytest.skip(f"{program} could not be installed: {str(problem).splitlines()[0]}")
