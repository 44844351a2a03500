"""The store of a gateway: which one it has, and how it is kept from growing for ever (ask G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.errors import PenstockError, StoreError
from penstock.gateway.settings import Limits
from penstock.gateway.telemetry.logs import log
from penstock.store import IN_MEMORY, open_store
from penstock.store.contract import Store

NONE = "none"
NAME = "responses.sqlite"

PRUNE_EVERY = 600.0
"""Seconds."""
_DAY = 86_400


# Which store


async def open_gateway_store(where: str, environment: Mapping[str, str]) -> Store:
    """`none` is a bounded memory; nothing named is a file in the user's data folder (decision 15).

    If another gateway is using that default file, a bounded memory is used instead and a warning is logged:
    starting a second gateway to try something must not require naming a file first.
    """
    if where == NONE:
        return await open_store(IN_MEMORY)
    try:
        return await open_store(where or default_path(environment))
    except StoreError as error:
        if where or error.code != StoreError.LOCKED:
            raise
        log.warning("another gateway has the store: what this one keeps is gone when it ends (--store PATH)")
        return await open_store(IN_MEMORY)


def secret_folder(where: str, environment: Mapping[str, str]) -> Path | None:
    """The folder of the store's file; None where there is no file."""
    if where == NONE:
        return None
    return (Path(where) if where else default_path(environment)).parent


def default_path(environment: Mapping[str, str]) -> Path:
    # The specification of these folders says that a relative path counts as none.
    if (folder := Path(environment.get("XDG_DATA_HOME", ""))).is_absolute():
        return folder / "penstock" / NAME
    home = environment.get("HOME") or environment.get("USERPROFILE") or "."
    return Path(home) / ".local" / "share" / "penstock" / NAME


# Pruning


async def prune_regularly(store: Store, limits: Callable[[], Limits], *, every: float = PRUNE_EVERY) -> None:
    """Runs for as long as the gateway does. If the store cannot be pruned now, it is tried again later.

    Nothing is deleted for its age when the gateway starts: the clock of a machine that has just started may
    not be set yet.
    """
    await _prune(store, limits(), by_age=False)
    while True:
        await asyncio.sleep(every)
        await _prune(store, limits(), by_age=True)


async def _prune(store: Store, limits: Limits, *, by_age: bool) -> None:
    try:
        oldest = await store.advance_time() - limits.store_days * _DAY if by_age else 0.0
        deleted = await store.prune(older_than=oldest, most_bytes=limits.store_bytes)
    except PenstockError as error:
        log.warning("%s", f"the store could not be tidied: {error}")
    else:
        if deleted:
            log.info("%s", f"{deleted} old responses were deleted from the store")
