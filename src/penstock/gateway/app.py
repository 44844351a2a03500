"""The gateway as an ASGI application: who may come in, and what happens when something goes wrong."""

from __future__ import annotations

import asyncio

from penstock.gateway.api.status import SPOKEN
from penstock.gateway.api.websocket import Socket
from penstock.gateway.errors import ClientGone, RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import authenticate, check_origin
from penstock.gateway.http.exchange import Exchange, Message, Receive, Send
from penstock.gateway.refusals import refused_by
from penstock.gateway.routes import ROUTES, Router, Routes, resource_of
from penstock.gateway.storage import prune_regularly
from penstock.gateway.telemetry.logs import log_refused
from penstock.gateway.telemetry.metrics import OTHER

_EXPOSED = "x-request-id, x-penstock-overhead-ms, x-penstock-diagnostics, retry-after"
"""Headers of an answer that a web page may read, where its origin is allowed."""


class GatewayApp:
    """`routes` are added to the gateway's own: it does not know the packages that they come from."""

    def __init__(self, gateway: Gateway, routes: Routes | None = None) -> None:
        self.gateway = gateway
        self._router = Router({**ROUTES, **(routes or {})})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Exchange(scope, receive, send))
        elif scope["type"] == "websocket":
            await self._serve_socket(Exchange({"method": "GET", **scope}, receive, send))

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        pruning = asyncio.create_task(
            prune_regularly(self.gateway.store, lambda: self.gateway.services.settings.limits)
        )
        await send({"type": "lifespan.startup.complete"})
        await receive()
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)
        await self.gateway.drain()
        await self.gateway.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, exchange: Exchange) -> None:
        name, refused = OTHER, None
        exchange.client_timeout = self.gateway.services.settings.limits.client_timeout
        try:
            self._admit(exchange)
            if exchange.method == "OPTIONS":
                await exchange.answer(204, b"", headers=_preflight(exchange))
                return
            name, route, params = self._router.find(exchange.path, exchange.method)
            key = None if route.is_open else authenticate(self.gateway.services.settings, exchange.headers)
            await route.handler(self.gateway, exchange, key, **params)
        except ClientGone:
            pass
        except Exception as error:
            refused = refused_by(error, exchange.request_id)
        if refused is not None:
            log_refused(refused, exchange.method, name, exchange.request_id)
            if not exchange.status:
                await exchange.refuse(refused)
        self.gateway.metrics.count("penstock_requests_total", route=name, status=str(exchange.status))
        await exchange.delivered()

    async def _serve_socket(self, exchange: Exchange) -> None:
        """A WebSocket at the address of responses; anywhere else it is refused before it opens."""
        await exchange.receive()  # websocket.connect
        try:
            self._admit(exchange)
            if resource_of(exchange.path) != "responses":
                raise RequestRefused(404, "not_found", f"no WebSocket here; {SPOKEN}", type="not_found")
            key = authenticate(self.gateway.services.settings, exchange.headers)
            _refuse_socket_if(not self.gateway.services.settings.websocket or self.gateway.is_draining)
        except RequestRefused as refused:
            log_refused(refused, "WEBSOCKET", OTHER, exchange.request_id)
            await exchange.refuse_socket(refused)
            return
        await Socket(self.gateway, exchange, key, self.gateway.services.clock).serve()

    def _admit(self, exchange: Exchange) -> None:
        """Refuse what a web page may have sent. One of an allowed origin may also read the answer."""
        settings, headers = self.gateway.services.settings, exchange.headers
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
        # The one answer at which Codex goes on over HTTP at once (client 2).
        message = "WebSockets are not offered here: use POST /v1/responses"
        raise RequestRefused(426, "websocket_not_offered", message)
