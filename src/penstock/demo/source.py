"""An answer of the demo model on its way: server-sent events, one word at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from penstock.demo.script import BreakOff, Garble, Rest, Step, Tell
from penstock.net.source import PulledSource

Sleep = Callable[[float], Awaitable[object]]


class DemoSource(PulledSource):
    """`pace` is the time from word to word."""

    status = 200
    content_type = "text/event-stream"

    def __init__(self, steps: Sequence[Step], *, request_id: str, pace: float, sleep: Sleep) -> None:
        super().__init__()
        self.request_id: str | None = request_id
        self._steps: Iterator[Step] = iter(steps)
        self._pace = pace
        self._sleep = sleep

    async def read(self) -> bytes:
        for step in self._steps:
            if isinstance(step, BreakOff):
                break
            if isinstance(step, Garble):
                return _event(step.data)
            await self._rest(step.seconds if isinstance(step, Rest) else self._pace_of(step))
            if isinstance(step, Tell):
                # ASCII, so that half a surrogate pair in a prompt can be told as it came.
                return _event(json.dumps(step.frame))
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
        await self._stop_reading()

    def _pace_of(self, step: Tell) -> float:
        return self._pace if step.tokens else 0.0

    async def _rest(self, seconds: float | None) -> None:
        """None: until the answer is closed."""
        if seconds is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._sleep(seconds)  # also for no time at all: others may go on, however fast this is


def _event(data: str) -> bytes:
    return b"data: " + data.encode() + b"\n\n"
