"""Opens a store's file for the process that writes to it: locks and migrates it, ends interrupted turns."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from penstock.store.sqlite import statements
from penstock.store.sqlite.file import (
    FileLock,
    as_store_errors,
    connect,
    create_private_file,
    prepare_for_writing,
)
from penstock.store.sqlite.ledger import settle_interrupted
from penstock.store.sqlite.pruning import set_initial_time
from penstock.store.sqlite.recent import move_recent
from penstock.store.sqlite.schema import check, migrate
from penstock.store.sqlite.workers import forget_all, forget_keys
from penstock.stream.recovery import RESTARTED

log = logging.getLogger("penstock.store")


def open_file(
    path: Path, busy_ms: int, clock: Callable[[], float], *, has_workers: bool = False
) -> tuple[FileLock, sqlite3.Connection]:
    """Open the file for this process, or for the workers that will share it. Workers start the background
    turns that earlier ones had not started; a single process ends them as failed, like all others."""
    with as_store_errors(path):
        create_private_file(path)
        lock = FileLock(path)
        try:
            return lock, _open_database(path, busy_ms, clock, has_workers)
        except BaseException:
            lock.release()
            raise


def _open_database(
    path: Path, busy_ms: int, clock: Callable[[], float], has_workers: bool
) -> sqlite3.Connection:
    connection = connect(path, busy_ms)
    try:
        check(connection)
        prepare_for_writing(connection)
        migrate(connection)
        connection.execute("BEGIN IMMEDIATE")
        set_initial_time(connection, clock())  # before interrupted turns get an end time from the clock
        move_recent(connection)
        count = statements.end_unfinished(connection, clock(), keeps_queued=has_workers)
        forget_all(connection)
        forget_keys(connection, clock())
        settle_interrupted(connection, clock())
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    if count:
        log.warning(
            "marked turns as failed because an earlier process died while they were running",
            extra={"fields": {"event": "store", "code": RESTARTED, "count": count}},
        )
    return connection
