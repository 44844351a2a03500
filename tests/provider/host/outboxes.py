"""An outbox that a test controls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from penstock.provider.host.outbox import Outbox
from tests.provider.host.host_process import Json


class ControlledOutbox(Outbox):
    """Parts wait for the test; all other lines are accepted immediately."""

    def __init__(self) -> None:
        self.lines: list[Json] = []
        self.part_is_waiting = asyncio.Event()
        self.proceed = asyncio.Event()
        self.is_woken = False

    has_room = True

    def put(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    async def wait_for_room(self, unless: Callable[[], bool] | None = None) -> None:
        if unless is not None:
            self.part_is_waiting.set()
            await self.proceed.wait()

    def wake(self) -> None:
        self.is_woken = True

    def of(self, id: Any) -> list[str]:
        return [line["type"] for line in self.lines if line.get("id") == id]

    async def ended(self, id: Any) -> None:
        while "done" not in self.of(id):
            await asyncio.sleep(0.001)
