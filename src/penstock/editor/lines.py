"""Write an answer as JSON lines, with heartbeats while there is nothing to send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.gateway.errors import ClientDisconnected
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits
from penstock.parts.wire import encode_line
from penstock.provider.host.lines import JSON
from penstock.provider.host.requests import Id

HEADERS = [
    ("content-type", "application/x-ndjson"),
    # Proxies must not cache, buffer or compress it (ask A14).
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
]


class LineWriter:
    """Writes lines to one client. The first line starts the answer; before it, an HTTP error is possible."""

    def __init__(self, exchange: Exchange, id: Id | None, limits: Limits) -> None:
        self._exchange = exchange
        self._id_field = {} if id is None else {"id": id}
        self._limits = limits
        self._lock = asyncio.Lock()
        self._last_write = 0.0

    async def send(self, line: JSON) -> None:
        await self._send(encode_line({**self._id_field, **line}))

    async def end(self, line: JSON) -> None:
        await self._send(encode_line({**self._id_field, **line}), is_last=True)

    @asynccontextmanager
    async def heartbeats(self) -> AsyncIterator[None]:
        """Send heartbeats while this is active: clients and proxies close connections that are silent."""
        sending = asyncio.create_task(self._send_heartbeats(), name="penstock parts heartbeat")
        try:
            yield
        finally:
            async with self._lock:  # finish the current write, then stop
                sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_heartbeats(self) -> None:
        """Send empty lines, which readers ignore (docs/host.md)."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(self._limits.patience)
        if not self._exchange.status:
            await self._send(b"\n")
        while True:
            remaining = self._last_write + self._limits.comment_every - clock()
            if remaining > 0:
                await asyncio.sleep(remaining)
            else:
                await self._send(b"\n")

    async def _send(self, body: bytes, *, is_last: bool = False) -> None:
        """Send bytes. Wait while the client does not read, for at most `client_timeout`."""
        try:
            async with self._lock, asyncio.timeout(self._limits.client_timeout):
                channel = self._exchange.channel
                if not self._exchange.status:
                    self._exchange.begin(200, HEADERS)
                if is_last:
                    channel.end(body)
                else:
                    channel.write(body)
                    await channel.drain()
                self._last_write = asyncio.get_running_loop().time()
        except TimeoutError:
            self._exchange.abort()
            raise ClientDisconnected from None
