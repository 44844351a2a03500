"""What is kept does not grow for ever: now and then the old goes, and what is too much (notes/asks G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.gateway.settings import Limits
from penstock.gateway.telemetry.logs import log
from penstock.store.contract import Store

EVERY = 600.0
"""Seconds."""
_DAY = 86_400


async def keep_house(store: Store, limits: Callable[[], Limits], *, every: float = EVERY) -> None:
    """For as long as the gateway lives. A store that cannot be tidied now is tidied later.

    Nothing is deleted for its age when the gateway starts: the clock of a machine that has just started may
    not be set yet.
    """
    await _tidy(store, limits(), by_age=False)
    while True:
        await asyncio.sleep(every)
        await _tidy(store, limits(), by_age=True)


async def _tidy(store: Store, limits: Limits, *, by_age: bool) -> None:
    try:
        oldest = await store.advance_time() - limits.store_days * _DAY if by_age else 0.0
        gone = await store.prune(older_than=oldest, most_bytes=limits.store_bytes)
    except PenstockError as error:
        log.warning("%s", f"the store could not be tidied: {error}")
    else:
        if gone:
            log.info("%s", f"{gone} old responses were deleted from the store")
