"""Which store a gateway has: a file, or its own memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.errors import StoreError
from penstock.gateway.telemetry.logs import log
from penstock.store.contract import Store

NONE = "none"
NAME = "responses.sqlite"


async def open_store(where: str, environment: Mapping[str, str]) -> Store:
    """`none` is a bounded memory; nothing named is a file in the user's data folder (decisions 15).

    Where another gateway has that one already, this one makes do with its memory, and says so: whoever starts
    a second one to try something must not have to name a file first.
    """
    from penstock.store.memory import MemoryStore
    from penstock.store.sqlite.store import open_store as open_file

    if where == NONE:
        return MemoryStore()
    try:
        return await open_file(Path(where) if where else default_path(environment))
    except StoreError as error:
        if where or error.code != StoreError.LOCKED:
            raise
        log.warning("another gateway has the store: what this one keeps is gone when it ends (--store PATH)")
        return MemoryStore()


def secret_folder(where: str, environment: Mapping[str, str]) -> Path | None:
    """Beside the store; None where there is no file."""
    if where == NONE:
        return None
    return (Path(where) if where else default_path(environment)).parent


def default_path(environment: Mapping[str, str]) -> Path:
    # The specification of these folders says that a relative path counts as none.
    if (folder := Path(environment.get("XDG_DATA_HOME", ""))).is_absolute():
        return folder / "penstock" / NAME
    home = environment.get("HOME") or environment.get("USERPROFILE") or "."
    return Path(home) / ".local" / "share" / "penstock" / NAME
