"""An answer in lines of JSON: written as they come, and kept alive while nothing does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.gateway.errors import ClientGone
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits
from penstock.parts.wire import encode_line
from penstock.provider.host.lines import JSON
from penstock.provider.host.requests import Id

HEADERS = [
    ("content-type", "application/x-ndjson"),
    # What stands in between must neither keep, nor gather, nor compress it (ask A14).
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
]


class LineWriter:
    """Lines to one client. The answer begins with the first: until then there may be an HTTP error."""

    def __init__(self, exchange: Exchange, id: Id | None, limits: Limits) -> None:
        self._exchange = exchange
        self._about = {} if id is None else {"id": id}
        self._limits = limits
        self._lock = asyncio.Lock()
        self._last_write = 0.0

    async def tell(self, line: JSON) -> None:
        await self._send(encode_line({**self._about, **line}))

    async def end(self, line: JSON) -> None:
        await self._send(encode_line({**self._about, **line}), is_last=True)

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """While this lasts, the client hears something: it, and what stands between, give up in silence."""
        beating = asyncio.create_task(self._beat(), name="penstock parts heartbeat")
        try:
            yield
        finally:
            async with self._lock:  # what is on its way goes out whole, and nothing follows
                beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self) -> None:
        """Empty lines mean nothing (docs/host.md)."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(self._limits.patience)
        if not self._exchange.status:
            await self._send(b"\n")
        while True:
            due = self._last_write + self._limits.comment_every - clock()
            if due > 0:
                await asyncio.sleep(due)
            else:
                await self._send(b"\n")

    async def _send(self, body: bytes, *, is_last: bool = False) -> None:
        """Waits while the client does not read, but not for ever."""
        try:
            async with self._lock, asyncio.timeout(self._limits.client_timeout):
                if not self._exchange.status:
                    await self._exchange.begin(200, HEADERS)
                await self._exchange.send(
                    {"type": "http.response.body", "body": body, "more_body": not is_last}
                )
                self._last_write = asyncio.get_running_loop().time()
        except TimeoutError:
            self._exchange.abort()
            raise ClientGone from None
