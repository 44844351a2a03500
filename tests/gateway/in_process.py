"""A gateway in the process of the test, and a client that calls it without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.settings import Settings
from penstock.store.memory import MemoryStore

Json = dict[str, Any]


SLOW = "Answer slowly, with 500 words."
"""For the demo model: long enough to be stopped."""


class Caller:
    """A client of a gateway in this process. `task` is what a server would run for its request."""

    def __init__(self, gateway: Gateway, path: str = "/v1/responses", **body: Any) -> None:
        self.gateway = gateway
        self.sent: list[Any] = []
        self._requests = [
            {
                "type": "http.request",
                "body": json.dumps({"model": "demo", **body}).encode(),
                "more_body": False,
            }
        ]
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
        self.task = asyncio.ensure_future(GatewayApp(gateway)(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        return self._requests.pop() if self._requests else await asyncio.get_running_loop().create_future()

    async def _send(self, message: Any) -> None:
        for _ in range(5):  # a write that waits is one that can be interrupted
            await asyncio.sleep(0)
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def runs(self) -> None:
        """Wait until the turn runs, and something of it was sent where it is streamed."""
        while not len(self.gateway.turns) or (not self.body and not self.task.done()):
            await asyncio.sleep(0.01)


def with_gateway(test: Callable[[Gateway], Awaitable[None]]) -> None:
    async def run() -> None:
        gateway = Gateway(Settings(), store=MemoryStore())
        await test(gateway)
        assert len(gateway.turns) == 0
        assert gateway.services.idle.is_set()
        await gateway.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
