"""Disk faults under a running gateway: context managers that repair the disk when they exit."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.gateway.running import Json, Running

CANNOT_WRITE = "the store cannot be written"
"""The log message for a disk fault, logged once."""


def file_of(folder: Path) -> Path:
    return folder / "store.sqlite"


@contextmanager
def full(running: Running, file: Path) -> Iterator[None]:
    """No file of the gateway may grow beyond what the journal is now. Its log stays far below that."""
    size = file.with_name(file.name + "-wal").stat().st_size
    _, hard = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        if running.process.poll() is None:
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def locked(_: Running, file: Path) -> Iterator[None]:
    stranger = sqlite3.connect(file, isolation_level=None)
    stranger.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        stranger.close()


@contextmanager
def away(_: Running, file: Path) -> Iterator[None]:
    """Move the file away, and restore it at the end."""
    elsewhere = file.parent / "elsewhere"
    elsewhere.mkdir()
    moved = [file.with_name(file.name + end) for end in ("", "-wal", "-shm")]
    for each in moved:
        each.rename(elsewhere / each.name)
    try:
        yield
    finally:
        assert not file.exists(), "another file was made in its place"
        for each in moved:
            (elsewhere / each.name).rename(each)


Harm = Callable[[Running, Path], AbstractContextManager[None]]
HARMS = pytest.mark.parametrize("harm", [full, locked, away], ids=["full", "locked", "away"])


def late_count(response: Json) -> int:
    """How many diagnostics report that the response may not survive a restart."""
    return [each["code"] for each in response.get("diagnostics") or []].count("store_late")
