"""Two gateways in the process of the test that share a store, as two workers do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from penstock.demo.upstream import DemoUpstream
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Settings
from penstock.store.shared import SharedStore
from penstock.tokens.counter import TokenCounter
from penstock.upstream.target import Upstream
from tests.gateway.in_process import chain
from tests.store.workers import shared_place


class Worker:
    """One worker: its gateway and its store."""

    def __init__(self, gateway: Gateway, store: SharedStore) -> None:
        self.gateway, self.store = gateway, store


Body = Callable[[Worker, Worker], Awaitable[None]]


def with_two_workers(
    folder: Path,
    body: Body,
    *upstreams: Upstream,
    settings: Settings | None = None,
    kind: str = "sqlite-shared",
) -> None:
    """Run a test against two workers with these upstreams, which answer the model `m`."""

    async def run() -> None:
        configured = settings or (chain(*upstreams) if upstreams else Settings())
        known = {DEMO: DemoUpstream(), **{each.name: each for each in upstreams}}
        async with AsyncExitStack() as stack:
            open_store = await stack.enter_async_context(shared_place(kind, folder))
            workers = []
            for _ in range(2):
                store = await open_store()
                gateway = Gateway(configured, store=store)
                gateway.services = Services(configured, known, gateway.metrics, TokenCounter())
                GatewayApp(gateway)
                stack.push_async_callback(gateway.aclose)
                workers.append(Worker(gateway, store))
            async with asyncio.timeout(60):
                await body(*workers)

    asyncio.run(run())
