"""A gateway with its inspector in the process of the test, and clients with and without keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock.demo.upstream import DemoUpstream
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import key_digest
from penstock.gateway.routes import Routes
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, ClientKey, Settings
from penstock.inspector.routes import inspector_routes
from penstock.store.contract import Store
from penstock.store.memory import MemoryStore
from penstock.store.sqlite.store import open_sqlite_store
from penstock.tokens.counter import TokenCounter
from penstock.upstream.target import Upstream
from tests.gateway.in_process import Caller, chain
from tests.stored_turns import Turn

Json = dict[str, Any]

API = "/inspector/api"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
"""What a browser accepts."""
TOKENS = {"anna": "pk_anna", "ben": "pk_ben", "root": "pk_root"}
KEYS = tuple(
    ClientKey(name=name, digest=key_digest(token), admin=name == "root") for name, token in TOKENS.items()
)


class Site:
    """A gateway with its inspector, and their callers."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        routes = inspector_routes()

        class InspectedApp(GatewayApp):
            def _routes(self, more: Routes) -> Any:
                return super()._routes({**more, **routes})

        self._app = InspectedApp

    def calling(self, path: str, *, who: str = "", method: str = "GET", **options: Any) -> Caller:
        headers = dict(options.pop("headers", {}))
        if who:
            headers["authorization"] = f"Bearer {TOKENS[who]}"
        return Caller(self.gateway, path, method=method, headers=headers, app=self._app, **options)

    async def call(self, path: str, **options: Any) -> Caller:
        caller = self.calling(path, **options)
        await caller.task
        return caller

    async def get(self, path: str, *, who: str = "", status: int = 200) -> Any:
        """Return the JSON of an answer of the API."""
        caller = await self.call(f"{API}/{path}", who=who)
        assert caller.status == status, caller.body
        assert caller.headers["x-content-type-options" if status == 200 else "x-request-id"]
        return caller.json

    async def ask(self, *, who: str = "", **body: Any) -> Json:
        """Run a turn; return its response."""
        caller = await self.call("/v1/responses", who=who, method="POST", **{"input": "Hello!", **body})
        assert caller.status == 200, caller.body
        response: Json = caller.response if body.get("stream") else caller.json
        return response

    async def keep(self, *turns: Turn) -> None:
        """Write turns into the store as a gateway would have done."""
        store = self.gateway.store
        for turn in turns:
            await store.open(turn.opened)
            store.log(turn.opened.id, turn.events)
            store.trace(turn.opened.id, turn.traces)
            if turn.closed.status not in ("queued", "in_progress"):
                await store.close(turn.opened.id, turn.closed)


def with_site(
    test: Callable[[Site], Awaitable[None]],
    *upstreams: Upstream,
    keys: bool = False,
    file: Path | None = None,
    **settings: Any,
) -> None:
    """Run a test against a gateway with these upstreams, which answer the model `m` one after the other.
    `file`: of its store; by default it is in memory."""

    async def run() -> None:
        more = {"keys": KEYS if keys else (), **settings}
        configured = chain(*upstreams, **more) if upstreams else Settings(**more)
        store: Store = await open_sqlite_store(file) if file is not None else MemoryStore()
        gateway = Gateway(configured, store=store)
        known: dict[str, Upstream] = {DEMO: DemoUpstream(pace=0), **{each.name: each for each in upstreams}}
        gateway.services = Services(configured, known, gateway.metrics, TokenCounter())
        async with asyncio.timeout(60):
            await test(Site(gateway))
        await gateway.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
