"""The gateway as an ASGI application: who may come in, and what happens when something goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from penstock.gateway.access import authenticate, check_origin
from penstock.gateway.errors import ClientGone, RequestRefused
from penstock.gateway.exchange import Exchange, Message, Receive, Send
from penstock.gateway.logs import log, log_fault, log_refused
from penstock.gateway.metrics import OTHER, Metrics
from penstock.gateway.routes import ROUTES, Route, find_route
from penstock.gateway.services import Fleet, Services
from penstock.gateway.settings import Settings
from penstock.gateway.turn import SHUTTING_DOWN
from penstock.tokens.counter import TokenCounter
from penstock.upstream.upstream import Upstream

_EXPOSED = "x-request-id, x-penstock-overhead-ms, x-penstock-diagnostics, retry-after"
"""Headers of an answer that a web page may read, where its origin is allowed."""


class Gateway:
    """Belongs to one event loop.

    `routes` are more of them, by path: the gateway does not know the rooms that they come from.
    """

    def __init__(self, settings: Settings, *, routes: Mapping[str, Route] | None = None) -> None:
        self.metrics = Metrics()
        self.started_at = int(time.time())
        self.is_draining = False
        self._routes = {**ROUTES, **(routes or {})}
        self._fleet = Fleet()
        self._counter = TokenCounter()
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

    async def aclose(self) -> None:
        for task in list(self._retiring):
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        for upstream in self._fleet.all():
            await upstream.aclose()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Exchange(scope, receive, send))

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, exchange: Exchange) -> None:
        name, refused = OTHER, None
        try:
            self._admit(exchange)
            if exchange.method == "OPTIONS":
                await exchange.answer(204, b"", headers=_preflight(exchange))
                return
            name, route = find_route(self._routes, exchange)
            key = None if route.is_open else authenticate(self.services.settings, exchange.headers)
            await route.handler(self, exchange, key)
        except RequestRefused as error:
            refused = error
        except ClientGone:
            pass
        except Exception as error:
            log_fault(error, exchange.request_id)
            refused = RequestRefused(500, "internal_error", "the gateway failed", type="server_error")
        if refused is not None:
            log_refused(refused, exchange.method, name, exchange.request_id)
            if not exchange.status:
                await exchange.refuse(refused)
        self.metrics.count("penstock_requests_total", route=name, status=str(exchange.status))

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
        ("access-control-allow-methods", "GET, POST"),
        ("access-control-allow-headers", asked),
        ("access-control-max-age", "600"),
    ]


async def _retire(old: Services, older: list[Services], dropped: list[Upstream]) -> None:
    """When no turn runs under old settings any more, what only they needed is closed."""
    for services in (old, *older):
        await services.idle.wait()
    for upstream in dropped:
        await upstream.aclose()
    log.debug("the last turn under the old settings has ended")
