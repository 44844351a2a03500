"""An answer of the demo model on its way: server-sent events, one word at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from penstock.demo.script import BreakOff, Garble, Rest, Step, Tell

Sleep = Callable[[float], Awaitable[object]]


class DemoAnswer:
    """`pace` is the time from word to word."""

    status = 200
    content_type = "text/event-stream"

    def __init__(self, steps: Sequence[Step], *, request_id: str, pace: float, sleep: Sleep) -> None:
        self.request_id: str | None = request_id
        self._steps: Iterator[Step] = iter(steps)
        self._pace = pace
        self._sleep = sleep
        self._is_closed = False
        self._wait: asyncio.Future[object] | None = None
        """What a read is waiting for."""

    async def read(self) -> bytes:
        for step in self._steps:
            if isinstance(step, BreakOff):
                break
            if isinstance(step, Garble):
                return _event(step.data)
            await self._rest(step.seconds if isinstance(step, Rest) else self._pace_of(step))
            if self._is_closed:
                break
            if isinstance(step, Tell):
                # ASCII, so that half a surrogate pair in a prompt can be told as it came.
                return _event(json.dumps(step.frame))
        self.close()
        return b""

    def mask(self, text: str) -> str:
        """There is no secret: nothing was sent anywhere."""
        return text

    def mask_value(self, value: Any) -> Any:
        return value

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:  # noqa: ARG002
        return data

    async def finish(self) -> None:
        """There is no connection to keep."""
        self.close()

    def close(self) -> None:
        self._is_closed = True
        self._steps = iter(())
        if self._wait is not None:
            self._wait.cancel()

    def _pace_of(self, step: Tell) -> float:
        return self._pace if step.tokens else 0.0

    async def _rest(self, seconds: float | None) -> None:
        """Wait, but no longer than until the answer is closed."""
        if seconds == 0:
            await self._sleep(0)  # others may go on, however fast this is read
            return
        loop = asyncio.get_running_loop()
        wait = loop.create_future() if seconds is None else asyncio.ensure_future(self._sleep(seconds))
        self._wait = wait
        try:
            await asyncio.wait((wait,))
            if not wait.cancelled():
                wait.result()
        finally:
            self._wait = None
            wait.cancel()
            # A cancelled task ends with the next turn of the loop: wait for it, so that none is left behind.
            await asyncio.gather(wait, return_exceptions=True)


def _event(data: str) -> bytes:
    return b"data: " + data.encode() + b"\n\n"
