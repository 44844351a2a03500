"""The store: responses, their items, their event logs, and conversations.

Start at `contract`, the interface. `memory` implements it in memory, `sqlite` in a file; `open_store` and
`open_archive` choose between them. `keeper` writes a turn to a store while it runs, `turn_buffer` holds what
is not written yet, `interrupted` ends turns whose process died.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from penstock.store.contract import Store, StoreArchive

    Clock = Callable[[], float]

T = TypeVar("T")

IN_MEMORY = "memory://"


async def open_store(where: str | Path, *, clock: Clock = time.time) -> Store:
    """Open a store, or create it. `where` is a path, or a URL with a scheme of `_STORES`.

    Raise `StoreError` if that is not possible. Turns that were running when an earlier process died are ended
    as failed (ask G8).
    """
    return await _backend(where, _STORES)(where, clock)


async def open_shared_store(where: str | Path, *, clock: Clock = time.time) -> Store:
    """Open a store as one of several workers; raise `StoreError` if that is not possible. A file must be held
    for them (`hold_store`)."""
    return await _backend(where, _SHARED)(where, clock)


@contextmanager
def hold_store(where: str | Path) -> Iterator[None]:
    """Prepare a store for the workers of this machine, and keep other gateways away while this is active.
    Raise `StoreError` if that is not possible."""
    release = _backend(where, _HOLDS)(where)
    try:
        yield
    finally:
        release()


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


async def _open_memory(where: str | Path, clock: Clock) -> Store:  # noqa: ARG001 - has no location
    from penstock.store.memory import MemoryStore

    return MemoryStore(clock=clock)


async def _open_sqlite(where: str | Path, clock: Clock) -> Store:
    from penstock.store.sqlite.store import open_sqlite_store

    return await open_sqlite_store(where, clock=clock)


async def _open_shared_sqlite(where: str | Path, clock: Clock) -> Store:
    from penstock.store.sqlite.shared import open_shared_sqlite_store

    return await open_shared_sqlite_store(where, clock=clock)


def _hold_sqlite(where: str | Path) -> Callable[[], None]:
    from penstock.store.sqlite.shared import hold_file

    return hold_file(where).release


def _open_sqlite_archive(where: str | Path) -> StoreArchive:
    from penstock.store.sqlite.archive import SqliteArchive

    return SqliteArchive(where)


def _is_sqlite_in_use(where: str | Path) -> bool:
    from penstock.store.sqlite.file import is_locked

    return is_locked(Path(where).expanduser())


_STORES: dict[str, Callable[[str | Path, Clock], Awaitable[Store]]] = {
    "memory": _open_memory,
    "": _open_sqlite,
}
"""By URL scheme; a path has none."""
_SHARED: dict[str, Callable[[str | Path, Clock], Awaitable[Store]]] = {"": _open_shared_sqlite}
_HOLDS: dict[str, Callable[[str | Path], Callable[[], None]]] = {"": _hold_sqlite}
_ARCHIVES: dict[str, Callable[[str | Path], StoreArchive]] = {"": _open_sqlite_archive}
_USES: dict[str, Callable[[str | Path], bool]] = {"memory": lambda _: False, "": _is_sqlite_in_use}


def _backend(where: str | Path, backends: dict[str, T]) -> T:
    scheme, separator, _ = str(where).partition("://")
    return backends[scheme if separator and scheme in backends else ""]
