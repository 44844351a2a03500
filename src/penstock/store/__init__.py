"""The store: responses, their items, their event logs, and conversations.

Start at `contract`, the interface. `memory` implements it in memory, `sqlite` in a file, `postgres` in a
database; `open_store` and `open_archive` choose between them. `keeper` writes a turn to a store while it
runs, `turn_buffer` holds what is not written yet, `interrupted` ends turns whose process died.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from penstock.store.contract import Store, StoreArchive

    Clock = Callable[[], float]

T = TypeVar("T")

IN_MEMORY = "memory://"


async def open_store(where: str | Path, *, clock: Clock | None = None, direct_url: str = "") -> Store:
    """Open a store, or create it. `where` is a path, or a URL with a scheme of `_STORES`.

    Raise `StoreError` if that is not possible. Turns that were running when an earlier process died are ended
    as failed (ask G8). Without `clock`, a file has the times of this machine, and a database its own.
    `direct_url` leads past a pooler to the same database.
    """
    return await _backend(where, _STORES)(where, clock, direct_url)


def open_archive(where: str | Path) -> StoreArchive:
    """Open a store for operators' tools; a gateway may be using it at the same time."""
    return _backend(where, _ARCHIVES)(where)


def is_in_use(where: str | Path) -> bool:
    """Return whether a gateway has this store open. Nothing is created or changed."""
    return _backend(where, _USES)(where)


def bounded_memory(*, most_bytes: int, most_responses: int, clock: Clock = time.time) -> Store:
    """Return an in-memory store with limits of its own."""
    from penstock.store.memory import MemoryStore

    return MemoryStore(most_bytes=most_bytes, most_responses=most_responses, clock=clock)


# Backends are imported on first use: each needs other libraries, and the command line starts faster.


async def _open_memory(where: str | Path, clock: Clock | None, direct_url: str) -> Store:  # noqa: ARG001
    from penstock.store.memory import MemoryStore

    return MemoryStore(clock=clock or time.time)


async def _open_sqlite(where: str | Path, clock: Clock | None, direct_url: str) -> Store:  # noqa: ARG001
    from penstock.store.sqlite.store import open_sqlite_store

    return await open_sqlite_store(where, clock=clock or time.time)


async def _open_postgres(where: str | Path, clock: Clock | None, direct_url: str) -> Store:
    from penstock.store.postgres.store import open_postgres_store

    return await open_postgres_store(str(where), clock=clock, direct_url=direct_url)


def _open_sqlite_archive(where: str | Path) -> StoreArchive:
    from penstock.store.sqlite.archive import SqliteArchive

    return SqliteArchive(where)


def _is_sqlite_in_use(where: str | Path) -> bool:
    from penstock.store.sqlite.file import is_locked

    return is_locked(Path(where).expanduser())


_STORES: dict[str, Callable[[str | Path, Clock | None, str], Awaitable[Store]]] = {
    "memory": _open_memory,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "": _open_sqlite,
}
"""By URL scheme; a path has none."""
_ARCHIVES: dict[str, Callable[[str | Path], StoreArchive]] = {"": _open_sqlite_archive}
_USES: dict[str, Callable[[str | Path], bool]] = {"memory": lambda _: False, "": _is_sqlite_in_use}


def _backend(where: str | Path, backends: dict[str, T]) -> T:
    scheme, separator, _ = str(where).partition("://")
    return backends[scheme if separator and scheme in backends else ""]
