"""Stream the demo model's answer as server-sent events, one word at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from penstock.demo.script import CloseStream, Pause, SendFrame, SendGarbage, Step
from penstock.net.source import PulledSource

Sleep = Callable[[float], Awaitable[object]]


class DemoSource(PulledSource):
    """`pace` is the time between words in seconds."""

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
            if isinstance(step, CloseStream):
                break
            if isinstance(step, SendGarbage):
                return _event(step.data)
            await self._wait(step.seconds if isinstance(step, Pause) else self._pace_of(step))
            if isinstance(step, SendFrame):
                # ASCII, so that half a surrogate pair in a prompt is sent unchanged.
                return _event(json.dumps(step.frame))
        return b""

    def mask(self, text: str) -> str:
        """Return the text unchanged: the demo model has no secrets."""
        return text

    def mask_value(self, value: Any) -> Any:
        return value

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:  # noqa: ARG002
        return data

    def _pace_of(self, step: SendFrame) -> float:
        return self._pace if step.tokens else 0.0

    async def _wait(self, seconds: float | None) -> None:
        """Wait; None means until the source is closed."""
        if seconds is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._sleep(seconds)  # even for zero seconds, so that other tasks can run


def _event(data: str) -> bytes:
    return b"data: " + data.encode() + b"\n\n"
