"""The store: responses, their items, their event logs, and conversations.

Start at `contract`, the interface, whose values are in `records`. `memory` implements it in memory,
`sqlite` in a file, `postgres` in a database; `open_store` and `open_archive` choose between them. `keeper`
writes a turn to a store while it runs, `turn_buffer` holds what is not written yet, `interrupted` ends turns
whose process died.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from penstock.errors import StoreError

if TYPE_CHECKING:
    from penstock.store.contract import Store, StoreArchive
    from penstock.store.records import Imported

Clock = Callable[[], float]
T = TypeVar("T")

IN_MEMORY = "memory://"


class StoreOptions(Struct, frozen=True, kw_only=True):
    """See `open_store`. The URLs may contain passwords."""

    clock: Clock | None
    direct_url: str
    redis_url: str


async def open_store(
    where: str | Path, *, clock: Clock | None = None, direct_url: str = "", redis_url: str = ""
) -> Store:
    """Open a store, or create it. `where` is a path, or a URL with a scheme of `_STORES`.

    Raise `StoreError` if that is not possible. Turns that were running when an earlier process died are ended
    as failed (ask G8). Without `clock`, a file has the times of this machine, and a database its own. If
    `where` is a pooler, `direct_url` is the database behind it. With `redis_url`, the workers that share a
    database send messages over Redis.
    """
    options = StoreOptions(clock=clock, direct_url=direct_url, redis_url=redis_url)
    return await _backend(where, _STORES)(where, options)


async def open_shared_store(
    where: str | Path, *, clock: Clock | None = None, direct_url: str = "", redis_url: str = ""
) -> Store:
    """Open a store as one of several workers; raise `StoreError` if that is not possible. It must be held for
    them (`hold_store`)."""
    options = StoreOptions(clock=clock, direct_url=direct_url, redis_url=redis_url)
    return await _backend(where, _SHARED)(where, options)


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


def is_url(where: str | Path) -> bool:
    """Return whether a store is named by a URL of `_STORES`, and not by a path."""
    scheme, separator, _ = str(where).partition("://")
    return bool(separator) and scheme in _STORES


def location_of(where: str | Path) -> str:
    """Return the name of a store for messages: a URL without user, password and options, or a path."""
    return without_password(str(where)) if is_url(where) else str(where)


def without_password(url: str) -> str:
    """Return a URL without user, password and options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if url else ""


def check_url(url: str, kind: str = "store") -> None:
    """Raise `StoreError` if a URL cannot be that of a store, or of a server for messages (`redis`). It is not
    connected to."""
    scheme = url.partition("://")[0].lower()
    if kind == "redis":
        if scheme not in ("redis", "rediss", "unix"):
            raise StoreError(StoreError.ADDRESS, "write redis://HOST:PORT/0, or rediss:// for TLS")
        return
    if scheme not in ("postgresql", "postgres"):
        raise StoreError(StoreError.ADDRESS, "write postgresql://USER@HOST:PORT/DATABASE, or a path")
    from penstock.store.postgres.address import address_of

    address_of(url)


def migrate_store(where: str | Path) -> list[str]:
    """Bring the tables of a store up to date; return what was done. Raise `StoreError` if that is not
    possible."""
    if is_url(where) and str(where) != IN_MEMORY:
        from penstock.store.postgres.archive import migrate_archive

        return [step.summary for step in migrate_archive(str(where))]
    with hold_store(where):
        return []


def import_file(file: Path, url: str, progress: Callable[[Imported], None]) -> Imported:
    """Move everything from a store's file into a database; raise `StoreError` if that is not possible."""
    from penstock.store.postgres.importing import import_store
    from penstock.store.sqlite.archive import SqliteSource

    if is_in_use(file):
        raise StoreError(StoreError.LOCKED, f"{file}: a gateway uses this file; stop it first")
    with SqliteSource(file) as source:
        return import_store(source, url, progress)


def import_secret(name: str, secret: str, url: str) -> bool:
    """Add a secret of an imported store to those that the workers of a database share; return whether it is
    the one in use. If the database had another one, that remains in use."""
    from penstock.store.postgres.importing import add_secret_to

    return add_secret_to(url, name, secret.encode())


def bounded_memory(*, most_bytes: int, most_responses: int, clock: Clock = time.time) -> Store:
    """Return an in-memory store with limits of its own."""
    from penstock.store.memory import MemoryStore

    return MemoryStore(most_bytes=most_bytes, most_responses=most_responses, clock=clock)


# Backends are imported on first use: each needs other libraries, and the command line starts faster.


async def _open_memory(where: str | Path, options: StoreOptions) -> Store:  # noqa: ARG001 - has no location
    from penstock.store.memory import MemoryStore

    return MemoryStore(clock=options.clock or time.time)


async def _open_sqlite(where: str | Path, options: StoreOptions) -> Store:
    from penstock.store.sqlite.store import open_sqlite_store

    return await open_sqlite_store(where, clock=options.clock or time.time)


async def _open_shared_sqlite(where: str | Path, options: StoreOptions) -> Store:
    from penstock.store.sqlite.shared import open_shared_sqlite_store

    return await open_shared_sqlite_store(where, clock=options.clock or time.time)


async def _open_postgres(where: str | Path, options: StoreOptions) -> Store:
    from penstock.store.postgres.store import open_postgres_store

    return await open_postgres_store(
        str(where), clock=options.clock, direct_url=options.direct_url, redis_url=options.redis_url
    )


def _hold_sqlite(where: str | Path) -> Callable[[], None]:
    from penstock.store.sqlite.shared import hold_file

    return hold_file(where).release


def _hold_postgres(where: str | Path) -> Callable[[], None]:
    """Prepare the tables. Any number of gateways may use a database: nothing keeps others away."""
    from penstock.store.postgres.archive import migrate_archive

    migrate_archive(str(where))
    return lambda: None


def _open_sqlite_archive(where: str | Path) -> StoreArchive:
    from penstock.store.sqlite.archive import SqliteArchive

    return SqliteArchive(where)


def _is_sqlite_in_use(where: str | Path) -> bool:
    from penstock.store.sqlite.file import is_locked

    return is_locked(Path(where).expanduser())


def _open_postgres_archive(where: str | Path) -> StoreArchive:
    from penstock.store.postgres.archive import PostgresArchive

    return PostgresArchive(str(where))


def _is_postgres_in_use(where: str | Path) -> bool:
    from penstock.store.postgres.archive import has_workers

    return has_workers(str(where))


_STORES: dict[str, Callable[[str | Path, StoreOptions], Awaitable[Store]]] = {
    "memory": _open_memory,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "": _open_sqlite,
}
"""By URL scheme; a path has none."""
_SHARED: dict[str, Callable[[str | Path, StoreOptions], Awaitable[Store]]] = {
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "": _open_shared_sqlite,
}
_HOLDS: dict[str, Callable[[str | Path], Callable[[], None]]] = {
    "postgresql": _hold_postgres,
    "postgres": _hold_postgres,
    "": _hold_sqlite,
}
_ARCHIVES: dict[str, Callable[[str | Path], StoreArchive]] = {
    "postgresql": _open_postgres_archive,
    "postgres": _open_postgres_archive,
    "": _open_sqlite_archive,
}
_USES: dict[str, Callable[[str | Path], bool]] = {
    "memory": lambda _: False,
    "postgresql": _is_postgres_in_use,
    "postgres": _is_postgres_in_use,
    "": _is_sqlite_in_use,
}


def _backend(where: str | Path, backends: dict[str, T]) -> T:
    scheme, separator, _ = str(where).partition("://")
    return backends[scheme if separator and scheme in backends else ""]
