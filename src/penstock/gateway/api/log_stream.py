"""Stream the log of a response to a client, with heartbeats and a timeout.

Such a client does not slow the turn down: the turn writes only to the client that made the request, and this
one reads from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from penstock.fairness import WorkSlice
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits
from penstock.protocol.events import Event
from penstock.protocol.large_json import encode_in_pieces
from penstock.protocol.wire import encode
from penstock.sse import comment, encode_frame, frame_in_pieces

_COMMENT = comment("waiting for the model")
_SHORTEST = 0.01
"""Minimum seconds between heartbeats: they must not keep the CPU busy, whatever the limits are."""


class LogStream:
    """`write` and `beat` raise `TimeoutError` if the client reads nothing for `client_timeout`."""

    def __init__(self, exchange: Exchange, limits: Limits, headers: Sequence[tuple[str, str]] = ()) -> None:
        """The response begins, with these headers, when something is sent: until then it can be refused."""
        self._exchange, self._limits, self._headers = exchange, limits, headers
        self._lock = asyncio.Lock()
        self._clock = asyncio.get_running_loop().time
        self._last_write = self._clock()
        self._is_over = False

    async def run(self, writing: Coroutine[Any, Any, None]) -> None:
        """Run what writes the stream, with heartbeats. Cancel it when the client disconnects, and disconnect
        a client that does not read."""
        task = asyncio.create_task(writing)
        disconnected = asyncio.create_task(self._exchange.wait_disconnected())
        tasks = [task, disconnected, asyncio.create_task(self.beat())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if any(isinstance(each.exception(), TimeoutError) for each in done):
            self._exchange.abort()  # free the data that waits for it
        elif not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        async with self._lock:
            await self._send(data, is_last)

    async def write_event(self, event: Event, *, is_large: bool) -> None:
        """Send an event; a large one piece by piece, as the client reads it."""
        if not is_large:
            await self.write(encode_frame(event.type, encode(event)))
            return
        work = WorkSlice()
        async with self._lock:
            for piece in frame_in_pieces(event.type, encode_in_pieces(event)):
                await self._send(piece, False)
                await work.pause()

    async def beat(self) -> None:
        """Send a comment after each `comment_every` seconds of silence (decision 10), until cancelled."""
        every = self._limits.comment_every
        while True:
            await asyncio.sleep(max(self._last_write + every - self._clock(), _SHORTEST))
            async with self._lock:
                if not self._is_over and self._clock() - self._last_write >= every:
                    await self._send(_COMMENT, False)

    async def _send(self, data: bytes, is_last: bool) -> None:
        self._is_over = is_last
        channel = self._exchange.channel
        if not self._exchange.status:
            self._exchange.begin(200, self._headers)
        if is_last:
            channel.end(data)
        else:
            channel.write(data)
            if not channel.is_writable:
                async with asyncio.timeout(self._limits.client_timeout):
                    await channel.drain()
        self._last_write = self._clock()
