"""A pool of threads that read the file, each with its own connection."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from penstock.errors import StoreError
from penstock.store.sqlite.file import as_store_errors, reading_connection

THREADS = 4

P = ParamSpec("P")
T = TypeVar("T")


class ReaderPool:
    def __init__(self, path: Path, busy_ms: int) -> None:
        self._path = path
        self._busy_ms = busy_ms
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-store-reader")
        self._thread_local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._is_closed = False

    async def read(
        self, query: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self._is_closed:
            raise StoreError(StoreError.CLOSED, "the store is closed")

        def run() -> T:
            with as_store_errors(self._path):
                return query(self._connection(), *args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._thread_local, "connection", None)
        if connection is None:
            connection = self._thread_local.connection = reading_connection(self._path, self._busy_ms)
            self._connections.append(connection)
        return connection

    async def aclose(self) -> None:
        self._is_closed = True
        await asyncio.to_thread(self._threads.shutdown, wait=True)
        for connection in self._connections:
            connection.close()
