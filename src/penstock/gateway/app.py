"""The gateway as an application: access checks, dispatch and error handling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.gateway.api.status import SUPPORTED
from penstock.gateway.api.turn_host import GatewayTurnHost
from penstock.gateway.api.websocket import Socket
from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import authenticate, check_origin
from penstock.gateway.http.asgi import Message, Receive, Send, serve_asgi
from penstock.gateway.http.exchange import ClientRequest, Exchange, SocketExchange
from penstock.gateway.refusals import refusal_for
from penstock.gateway.routes import ROUTES, Router, Routes, resource_of
from penstock.gateway.settings import ClientKey
from penstock.gateway.storage import prune_regularly
from penstock.gateway.telemetry.logs import log_refused
from penstock.gateway.telemetry.metrics import OTHER
from penstock.net.server.channels import HttpChannel, SocketChannel

_EXPOSED = (
    "x-request-id, x-penstock-overhead-ms, x-penstock-diagnostics, idempotent-replayed, retry-after, "
    "x-should-retry"
)
"""Response headers that a web page of an allowed origin may read."""


class GatewayApp:
    """Serve the gateway's routes and `routes`, which come from packages that the gateway does not import. It
    is a `ChannelHandler` for our own server, and an ASGI application for any other."""

    def __init__(self, gateway: Gateway, routes: Routes | None = None) -> None:
        self.gateway = gateway
        gateway.store.attach(GatewayTurnHost(gateway))
        self._router = self._routes(routes or {})

    def _routes(self, more: Routes) -> Router:
        return Router({**ROUTES, **more})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await serve_asgi(self, scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await self.gateway.drain()
        await self.gateway.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Prune the store regularly while this is active."""
        gateway = self.gateway
        pruning = asyncio.create_task(
            prune_regularly(
                gateway.store, lambda: gateway.services.settings.limits, also=gateway.idempotency.prune
            )
        )
        try:
            yield
        finally:
            pruning.cancel()
            await asyncio.gather(pruning, return_exceptions=True)

    async def serve_http(self, channel: HttpChannel) -> None:
        exchange, name, refused = Exchange(channel), OTHER, None
        error_headers: tuple[tuple[str, str], ...] = ()
        exchange.client_timeout = self.gateway.services.settings.limits.client_timeout
        try:
            self._check_page(exchange)
            exchange.cors = _cors(exchange)
            if exchange.method == "OPTIONS":
                exchange.answer(204, b"", headers=_preflight(exchange))
                return
            name, route, params = self._router.find(exchange.path, exchange.method)
            error_headers = route.error_headers
            key = None if route.is_open else self._authenticate(exchange)
            await route.handler(self.gateway, exchange, key, **params)
        except ClientDisconnected:
            pass
        except Exception as error:
            refused = refusal_for(error, exchange.request_id)
        if refused is not None:
            log_refused(refused, exchange.method, name, exchange.request_id)
            if not exchange.status:
                refused.headers += error_headers
                exchange.refuse(refused)
        self.gateway.metrics.count("penstock_requests_total", route=name, status=str(exchange.status))
        await exchange.delivered()

    async def serve_socket(self, channel: SocketChannel) -> None:
        """Serve a WebSocket at `/v1/responses`; refuse it on any other path before it opens."""
        exchange = SocketExchange(channel)
        try:
            self._check_page(exchange)
            if resource_of(exchange.path) != "responses":
                raise RequestRefused(
                    404, "not_found", f"no WebSocket at this path; {SUPPORTED}", type="not_found"
                )
            key = self._authenticate(exchange)
            _refuse_socket_if(not self.gateway.services.settings.websocket or self.gateway.is_draining)
        except RequestRefused as refused:
            log_refused(refused, "WEBSOCKET", OTHER, exchange.request_id)
            exchange.refuse(refused)
            return
        await Socket(self.gateway, exchange, key, self.gateway.services.clock).serve()

    def _authenticate(self, exchange: ClientRequest) -> ClientKey | None:
        return authenticate(self.gateway.services.settings, exchange.headers, self.gateway.clock)

    def _check_page(self, exchange: ClientRequest) -> None:
        """Refuse requests of web pages, except from allowed origins."""
        settings, headers = self.gateway.services.settings, exchange.headers
        check_origin(settings, headers.get("host", ""), headers.get("origin"), exchange.server_port)


def _cors(exchange: Exchange) -> list[tuple[str, str]]:
    """Return the headers that let a web page, whose origin is allowed, read the response."""
    origin = exchange.headers.get("origin")
    if origin is None:
        return []
    return [
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", _EXPOSED),
        ("vary", "origin"),
    ]


def _preflight(exchange: Exchange) -> list[tuple[str, str]]:
    """Allow every header that the page asks for: client libraries send headers of their own."""
    requested = exchange.headers.get("access-control-request-headers", "authorization, content-type")
    return [
        ("access-control-allow-methods", "GET, POST, DELETE"),
        ("access-control-allow-headers", requested),
        ("access-control-max-age", "600"),
    ]


def _refuse_socket_if(is_off: bool) -> None:
    if is_off:
        # The only status at which Codex switches to HTTP at once (client 2).
        message = "WebSockets are not available here: use POST /v1/responses"
        raise RequestRefused(426, "websocket_not_offered", message)
