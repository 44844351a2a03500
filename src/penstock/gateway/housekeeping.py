"""What is kept does not grow for ever: now and then the old goes, and what is too much (notes/asks G5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.gateway.logs import log
from penstock.gateway.settings import Limits
from penstock.store.store import Store

EVERY = 600.0
"""Seconds."""


async def keep_house(
    store: Store,
    limits: Callable[[], Limits],
    *,
    every: float = EVERY,
    clock: Callable[[], float] = time.time,
) -> None:
    """For as long as the gateway lives. A store that cannot be tidied now is tidied later."""
    while True:
        now = limits()
        try:
            gone = await store.prune(
                older_than=int(clock() - now.store_days * 86400), most_bytes=now.store_bytes
            )
        except PenstockError as error:
            log.warning("%s", f"the store could not be tidied: {error}")
        else:
            if gone:
                log.info("%s", f"{gone} old responses were deleted from the store")
        await asyncio.sleep(every)
