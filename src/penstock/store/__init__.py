"""What is kept of turns: responses, their items, their event logs, conversations.

Start at `contract`, the interface. `memory` implements it in the process, `sqlite` in a file; `open_store`
and `open_archive` choose between them. `keeper` writes a turn into a store while it runs, `turn_buffer` holds
what is not written yet, `interrupted` ends turns whose process died.
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


async def open_store(where: str | Path, *, clock: Clock = time.time) -> Store:
    """Open a store, or create it. `where` is a path, or a URL with a scheme of `_STORES`.

    `StoreError` says why that is not possible. Turns that a process left behind when it died are ended here,
    as failed (ask G8).
    """
    return await _backend(where, _STORES)(where, clock)


def open_archive(where: str | Path) -> StoreArchive:
    """What a store has written, for the tools of an operator; a gateway may be using it meanwhile."""
    return _backend(where, _ARCHIVES)(where)


# Backends are imported when they are used: each has libraries of its own, and the command line starts sooner.


async def _open_memory(where: str | Path, clock: Clock) -> Store:  # noqa: ARG001 - there is one place
    from penstock.store.memory import MemoryStore

    return MemoryStore(clock=clock)


async def _open_sqlite(where: str | Path, clock: Clock) -> Store:
    from penstock.store.sqlite.store import open_sqlite_store

    return await open_sqlite_store(where, clock=clock)


def _open_sqlite_archive(where: str | Path) -> StoreArchive:
    from penstock.store.sqlite.archive import SqliteArchive

    return SqliteArchive(where)


_STORES: dict[str, Callable[[str | Path, Clock], Awaitable[Store]]] = {
    "memory": _open_memory,
    "": _open_sqlite,
}
"""By the scheme of a URL; a path has none."""
_ARCHIVES: dict[str, Callable[[str | Path], StoreArchive]] = {"": _open_sqlite_archive}


def _backend(where: str | Path, backends: dict[str, T]) -> T:
    scheme, separator, _ = str(where).partition("://")
    return backends[scheme if separator and scheme in backends else ""]
