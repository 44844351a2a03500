"""Sharing the event loop. Whoever has much to do lets the others run after a few milliseconds of work."""

from __future__ import annotations

import asyncio
import time
from io import BytesIO
from typing import Any

from penstock.protocol.large import encode_in_pieces

SLICE = 0.004
"""Seconds of work after which the other streams of the process have their turn."""


class WorkSlice:
    """Work on the event loop since it last served others."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() - self._began >= SLICE

    def restart(self) -> None:
        """The loop has just served others, because there was something to wait for."""
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Let the others run, if it is time."""
        if self.is_over:
            await asyncio.sleep(0)
            self.restart()


async def encode_large(value: Any) -> bytes:
    """The JSON of a value that may hold very long texts; other streams go on meanwhile."""
    work = WorkSlice()
    document = BytesIO()  # it grows in place, and gives its content away without a copy
    for piece in encode_in_pieces(value):
        document.write(piece)
        await work.pause()
    return document.getvalue()
