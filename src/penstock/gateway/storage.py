"""The store of a gateway: which one is used, and how its size is limited (ask G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from penstock.errors import PenstockError, StoreError
from penstock.formatting import counted
from penstock.gateway.settings import Limits
from penstock.gateway.telemetry.logs import log
from penstock.store import IN_MEMORY, hold_store, is_url, open_shared_store, open_store
from penstock.store.contract import Store

NONE = "none"
NAME = "responses.sqlite"

PRUNE_EVERY = 600.0
"""Seconds."""
_EARLIEST = 0.95
"""The part of this time after which the next worker may prune: timers are not exact."""
_DAY = 86_400
_MOST_FILES = 20
"""How many private gateways can have a file at the same time."""


# Which store


async def open_gateway_store(
    where: str,
    environment: Mapping[str, str],
    *,
    direct_url: str = "",
    redis: str = "",
    is_worker: bool = False,
) -> Store:
    """Open the store: `none` is a bounded in-memory store, empty the user's default file (decision 15). A
    worker opens the store that its supervisor has prepared.

    If another gateway uses the default file, fall back to a bounded in-memory store and log a warning:
    starting a second gateway to try something must not require a file name.
    """
    if where == NONE:
        return await open_store(IN_MEMORY)
    open_it = partial(open_shared_store if is_worker else open_store, direct_url=direct_url, redis_url=redis)
    try:
        return await open_it(where or default_path(environment))
    except StoreError as error:
        if where or is_worker or error.code != StoreError.LOCKED:
            raise
        log.warning(
            "another gateway uses the store file: this one stores responses in memory only, until it stops; "
            "use --store PATH for a file of its own"
        )
        return await open_store(IN_MEMORY)


def own_files(where: str, environment: Mapping[str, str]) -> list[str]:
    """Return the files for the store of a private gateway: the usual one, and those that take its place while
    other gateways use it. All of them are in one folder, so they share its secret."""
    if where == NONE or "://" in where:
        return [where]
    usual = Path(where).expanduser() if where else default_path(environment)
    names = [usual.name, *(f"{usual.stem}-{number}{usual.suffix}" for number in range(2, _MOST_FILES + 1))]
    return [str(usual.parent / name) for name in names]


@contextmanager
def hold_gateway_store(where: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Prepare the store for several workers, and keep other gateways away while this is active. Raise
    `StoreError` if that is not possible."""
    with hold_store(where or default_path(environment)):
        yield


def secret_folder(where: str, environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the store's file; None for an in-memory store and for a database."""
    if where == NONE or is_url(where):
        return None
    return (Path(where) if where else default_path(environment)).parent


def default_path(environment: Mapping[str, str]) -> Path:
    # The XDG specification says that a relative path must be ignored.
    if (folder := Path(environment.get("XDG_DATA_HOME", ""))).is_absolute():
        return folder / "penstock" / NAME
    home = environment.get("HOME") or environment.get("USERPROFILE") or "."
    return Path(home) / ".local" / "share" / "penstock" / NAME


# Pruning


async def prune_regularly(
    store: Store,
    limits: Callable[[], Limits],
    *,
    every: float = PRUNE_EVERY,
    also: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Prune the store until cancelled, and call `also` each time. If pruning fails, retry the next time. Of
    the workers that share a store, one prunes each time: whichever comes first.

    At startup nothing is deleted because of its age: the clock of a machine that has just booted may not be
    set yet.
    """
    await _prune(store, limits())
    while True:
        await asyncio.sleep(every)
        await _prune(store, limits(), every=every)
        if also is not None:
            await also()


async def _prune(store: Store, limits: Limits, *, every: float | None = None) -> None:
    """Delete what exceeds the size limit, and unless `every` is None, what is too old."""
    try:
        if every is None:
            deleted = await store.prune(older_than=0.0, most_bytes=limits.store_bytes)
        elif (now := await store.advance_time(every=_EARLIEST * every)) is None:
            return
        else:
            oldest = now - limits.store_days * _DAY
            deleted = await store.prune(older_than=oldest, most_bytes=limits.store_bytes)
            await store.prune_ledger(older_than=now - limits.ledger_days * _DAY)
    except PenstockError as error:
        log.warning("%s", f"the store could not be pruned: {error}")
    else:
        if deleted:
            log.info("%s", f"pruning deleted {counted(deleted, 'old response')} from the store")
