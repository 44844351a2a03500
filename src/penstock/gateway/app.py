"""The gateway as an ASGI application: who may come in, and what happens when something goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.gateway.api.websocket import Socket
from penstock.gateway.errors import ClientGone, RequestRefused
from penstock.gateway.history.sealing import Sealer, load_sealer
from penstock.gateway.http.access import authenticate, check_origin
from penstock.gateway.http.bodies import BodyReader
from penstock.gateway.http.exchange import Exchange, Message, Receive, Send
from penstock.gateway.refusals import refused_by
from penstock.gateway.routes import ROUTES, SPOKEN, Routes, find_route
from penstock.gateway.services import Fleet, Services
from penstock.gateway.settings import Settings
from penstock.gateway.storage import prune_regularly
from penstock.gateway.telemetry.logs import log, log_refused
from penstock.gateway.telemetry.metrics import OTHER, Metrics
from penstock.gateway.turn.followers import Listeners
from penstock.gateway.turn.run import Turn
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN
from penstock.store.contract import Store
from penstock.store.reasoning_memory import ReasoningCache
from penstock.tokens.counter import TokenCounter
from penstock.tokens.tokenizer import import_tokenizers
from penstock.upstream.upstream import Upstream

T = TypeVar("T")

_EXPOSED = "x-request-id, x-penstock-overhead-ms, x-penstock-diagnostics, retry-after"
"""Headers of an answer that a web page may read, where its origin is allowed."""


class Gateway:
    """Belongs to one event loop.

    `routes` are more of them, by path: the gateway does not know the rooms that they come from.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        sealer: Sealer | None = None,
        routes: Routes | None = None,
    ) -> None:
        self.store = store
        self.sealer = sealer or load_sealer({}, None)
        self.reasoning = ReasoningCache(time.monotonic)
        self.listeners = Listeners()
        self.metrics = Metrics()
        self.started_at = int(time.time())
        self.is_draining = False
        self._waiting = 0
        """Requests whose turns have not begun, as they wait for other turns."""
        self._bodies = BodyReader()
        self._routes = {**ROUTES, **(routes or {})}
        self._fleet = Fleet()
        self._counter = TokenCounter()
        import_tokenizers()
        self._beside: set[asyncio.Task[None]] = set()
        self._retiring: dict[asyncio.Task[None], Services] = {}
        upstreams, _ = self._fleet.renew(settings.targets)
        self.services = Services(settings, upstreams, self.metrics, self._counter)
        self.metrics.gauge("penstock_turns_running", self.running)
        self.metrics.gauge("penstock_tasks", lambda: len(asyncio.all_tasks()))
        self.metrics.gauge("penstock_keys_resting", self._fleet.resting)

    def running(self) -> int:
        """How many turns there are now."""
        return sum(len(services.turns) for services in (self.services, *self._retiring.values()))

    def reload(self, settings: Settings) -> None:
        """New turns follow the new settings; running ones end under the old."""
        upstreams, dropped = self._fleet.renew(settings.targets)
        old, self.services = self.services, Services(settings, upstreams, self.metrics, self._counter)
        task = asyncio.create_task(_retire(old, list(self._retiring.values()), dropped))
        self._retiring[task] = old
        task.add_done_callback(self._retiring.pop)

    async def read(self, exchange: Exchange) -> bytes:
        """The body of a request. A client that sends too slowly is as gone as one that reads too slowly."""
        limits = self.services.settings.limits
        try:
            async with asyncio.timeout(limits.client_timeout):
                return await self._bodies.read(exchange.receive, exchange.headers, limits.body_bytes)
        except TimeoutError:
            message = "the request did not come to its end in time"
            raise RequestRefused(408, "request_timeout", message) from None

    def refuse_if_full(self) -> None:
        """No hidden queue: what is too much is told at once (notes/asks J5)."""
        limit = self.services.settings.limits.max_turns
        if not self.is_draining and (not limit or self.running() + self._waiting < limit):
            return
        why = "the gateway is stopping" if self.is_draining else f"{limit} turns are running already"
        headers = [("retry-after", "2")]
        message = f"{why}: try again in a moment"
        raise RequestRefused(503, "server_is_overloaded", message, type="server_error", headers=headers)

    async def while_there(self, exchange: Exchange, work: Coroutine[Any, Any, T]) -> T:
        """What is done for a client before its turn begins, unless it goes meanwhile: a follow-up may have to
        wait for the response that it continues."""
        working = asyncio.create_task(work)
        leaving = asyncio.create_task(exchange.gone())
        self._waiting += 1
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGone
            return working.result()
        finally:
            self._waiting -= 1
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that no client waits for."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def turn(self, tenant: str, id: str) -> Turn | None:
        """The turn of a response that runs."""
        for services in (self.services, *self._retiring.values()):
            for turn in services.turns:
                if (turn.tenant, turn.id) == (tenant, id):
                    return turn
        return None

    def stop_turns(self) -> None:
        """End what still runs; its clients are told."""
        for services in (self.services, *self._retiring.values()):
            for turn in list(services.turns):
                turn.stop(SHUTTING_DOWN)

    def abort_turns(self) -> None:
        """Leave those whose clients do not even take that."""
        for services in (self.services, *self._retiring.values()):
            for exchange in services.turns.values():
                exchange.abort()

    async def aclose(self) -> list[str]:
        """The ids of the responses that the store could not write any more."""
        for task in list(self._retiring):
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        # First of all: what runs beside still needs its upstreams, until `drain` ends it.
        await asyncio.gather(*self._beside, return_exceptions=True)
        for upstream in self._fleet.all():
            await upstream.aclose()
        return await self.store.aclose()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Exchange(scope, receive, send))
        elif scope["type"] == "websocket":
            await self._serve_socket(Exchange({"method": "GET", **scope}, receive, send))

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        pruning = asyncio.create_task(prune_regularly(self.store, lambda: self.services.settings.limits))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, exchange: Exchange) -> None:
        name, refused = OTHER, None
        exchange.client_timeout = self.services.settings.limits.client_timeout
        try:
            self._admit(exchange)
            if exchange.method == "OPTIONS":
                await exchange.answer(204, b"", headers=_preflight(exchange))
                return
            name, route = find_route(self._routes, exchange)
            key = None if route.is_open else authenticate(self.services.settings, exchange.headers)
            await route.handler(self, exchange, key)
        except ClientGone:
            pass
        except Exception as error:
            refused = refused_by(error, exchange.request_id)
        if refused is not None:
            log_refused(refused, exchange.method, name, exchange.request_id)
            if not exchange.status:
                await exchange.refuse(refused)
        self.metrics.count("penstock_requests_total", route=name, status=str(exchange.status))
        await exchange.delivered()

    async def _serve_socket(self, exchange: Exchange) -> None:
        """A WebSocket at the address of responses; anywhere else it is refused before it opens."""
        await exchange.receive()  # websocket.connect
        try:
            self._admit(exchange)
            if exchange.path.strip("/").removeprefix("v1/") != "responses":
                raise RequestRefused(404, "not_found", f"no WebSocket here; {SPOKEN}", type="not_found")
            key = authenticate(self.services.settings, exchange.headers)
            _refuse_socket_if(not self.services.settings.websocket or self.is_draining)
        except RequestRefused as refused:
            log_refused(refused, "WEBSOCKET", OTHER, exchange.request_id)
            await exchange.refuse_socket(refused)
            return
        await Socket(self, exchange, key, self.services.clock).serve()

    def _admit(self, exchange: Exchange) -> None:
        """Refuse what a web page may have sent. One of an allowed origin may also read the answer."""
        settings, headers = self.services.settings, exchange.headers
        origin = headers.get("origin")
        check_origin(settings, headers.get("host", ""), origin, exchange.server_port)
        if origin is not None:
            exchange.cors = [
                ("access-control-allow-origin", origin),
                ("access-control-expose-headers", _EXPOSED),
                ("vary", "origin"),
            ]


def _preflight(exchange: Exchange) -> list[tuple[str, str]]:
    """A page of an allowed origin may send what it likes: libraries have headers of their own."""
    asked = exchange.headers.get("access-control-request-headers", "authorization, content-type")
    return [
        ("access-control-allow-methods", "GET, POST, DELETE"),
        ("access-control-allow-headers", asked),
        ("access-control-max-age", "600"),
    ]


def _refuse_socket_if(is_off: bool) -> None:
    if is_off:
        # The one answer at which Codex goes on over HTTP at once (notes/clients 1.1).
        message = "WebSockets are not offered here: use POST /v1/responses"
        raise RequestRefused(426, "websocket_not_offered", message)


async def _retire(old: Services, older: list[Services], dropped: list[Upstream]) -> None:
    """When no turn runs under old settings any more, what only they needed is closed."""
    for services in (old, *older):
        await services.idle.wait()
    for upstream in dropped:
        await upstream.aclose()
    log.debug("the last turn under the old settings has ended")
