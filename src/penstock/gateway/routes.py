"""What the gateway speaks, and where. One table, and a helpful answer for everything that is not in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from penstock.gateway.bodies import read_body
from penstock.gateway.errors import RequestRefused
from penstock.gateway.exchange import Exchange
from penstock.gateway.listing import model_body, models_body
from penstock.gateway.metrics import CONTENT_TYPE
from penstock.gateway.requests import read_request
from penstock.gateway.responses import create_response
from penstock.gateway.settings import ClientKey
from penstock.gateway.stopwatch import Stopwatch
from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

Handler = Callable[["Gateway", Exchange, ClientKey | None], Awaitable[None]]

SPOKEN = "this gateway speaks OpenResponses: POST /v1/responses, GET /v1/models"

_ELSEWHERE: dict[str, str] = {
    "chat/completions": "Chat Completions are spoken to upstreams, and not here",
    "completions": "completions are not spoken here",
    "messages": "Anthropic's Messages are spoken to upstreams, and not here",
    "embeddings": "embeddings are not made here",
    "responses/compact": "this gateway does not compact conversations",
    "conversations": "this gateway keeps no conversations",
}
"""Paths that clients of other protocols ask for, and what to tell them (notes/asks L3)."""


class Route(Struct, frozen=True):
    """Who answers. `is_open`: also for somebody without a key, because it tells nothing of anybody."""

    handler: Handler
    method: str = "GET"
    is_open: bool = False


def find_route(routes: Mapping[str, Route], exchange: Exchange) -> tuple[str, Route]:
    """The route of a request, under its name; what leads nowhere is refused with advice."""
    path = exchange.path.strip("/")
    inner = path.removeprefix("v1/") if path.startswith("v1/") else path
    if inner.startswith("models/"):
        inner = "models/*"
    route = routes.get(path) or routes.get(inner)
    if route is None:
        raise _nothing_there(inner)
    if exchange.method == route.method or (exchange.method == "HEAD" and route.method == "GET"):
        return inner, route
    if inner == "responses" and "websocket" in exchange.headers.get("upgrade", "").lower():
        # The one answer at which Codex goes on over HTTP at once (notes/clients 1.1).
        message = "WebSockets are not offered here: use POST /v1/responses"
        raise RequestRefused(426, "websocket_not_offered", message)
    message = f"{exchange.method} is not possible here, but {route.method} is; {SPOKEN}"
    raise RequestRefused(405, "method_not_allowed", message, headers=[("allow", route.method)])


def _nothing_there(path: str) -> RequestRefused:
    told = _ELSEWHERE.get(path, "there is nothing at this path")
    if path.startswith("v1/"):
        told = "this path has /v1 twice: the client adds it already, so leave it out of the base URL"
    elif path.startswith("responses/"):
        told = _ELSEWHERE.get(path, "this gateway keeps no responses")
    return RequestRefused(404, "not_found", f"{told}; {SPOKEN}", type="not_found")


async def _responses(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    _refuse_if_full(gateway)
    body = await _read(gateway, exchange)
    # The settings may be others by now, and the gateway fuller: nothing is waited for from here to the turn.
    _refuse_if_full(gateway)
    services = gateway.services
    await create_response(services, exchange, key, body, Stopwatch(services.clock))


def _refuse_if_full(gateway: Gateway) -> None:
    limit = gateway.services.settings.limits.max_turns
    if not gateway.is_draining and (not limit or gateway.running() < limit):
        return
    why = "the gateway is stopping" if gateway.is_draining else f"{limit} turns are running already"
    headers = [("retry-after", "2")]
    raise RequestRefused(
        503, "server_is_overloaded", f"{why}: try again in a moment", type="server_error", headers=headers
    )


async def _read(gateway: Gateway, exchange: Exchange) -> bytes:
    """The body. A client that sends it too slowly is as gone as one that reads too slowly."""
    limits = gateway.services.settings.limits
    try:
        async with asyncio.timeout(limits.client_timeout):
            return await read_body(exchange.receive, exchange.headers, limits.body_bytes)
    except TimeoutError:
        raise RequestRefused(408, "request_timeout", "the request did not come to its end in time") from None


async def _input_tokens(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    body = await _read(gateway, exchange)
    services = gateway.services
    request = read_request(body, services.settings.default_model, services.settings.limits.input_items)
    tokens = services.count_input(request, str(request.model))
    answer = {"object": "response.input_tokens", "input_tokens": tokens}
    await exchange.answer(200, msgspec.json.encode(answer))


async def _models(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    models = await gateway.services.listing_for(exchange.headers).models()
    await exchange.answer(200, models_body(models, created=gateway.started_at))


async def _model(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    name = exchange.path.partition("models/")[2]
    found = await gateway.services.listing_for(exchange.headers).find(name)
    if found is None:
        message = f"there is no model called {name[:128]!r} here: GET /v1/models lists them"
        raise RequestRefused(404, "model_not_found", message, type="not_found", param="model")
    await exchange.answer(200, model_body(found, created=gateway.started_at))


async def _health(_: Gateway, exchange: Exchange, __: ClientKey | None) -> None:
    await exchange.answer(200, b'{"status":"ok"}')


async def _ready(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    if gateway.is_draining:
        await exchange.answer(503, b'{"status":"draining"}')
    else:
        await exchange.answer(200, b'{"status":"ready"}')


async def _metrics(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    await exchange.answer(200, gateway.metrics.render(), content_type=CONTENT_TYPE)


async def _root(_: Gateway, exchange: Exchange, __: ClientKey | None) -> None:
    told = {"name": "penstock", "version": VERSION, "speaks": SPOKEN, "health": "/healthz"}
    await exchange.answer(200, msgspec.json.encode(told))


ROUTES: dict[str, Route] = {
    "": Route(_root, is_open=True),
    "responses": Route(_responses, method="POST"),
    "responses/input_tokens": Route(_input_tokens, method="POST"),
    "models": Route(_models),
    "models/*": Route(_model),
    "healthz": Route(_health, is_open=True),
    "readyz": Route(_ready, is_open=True),
    "metrics": Route(_metrics),
}
"""By path, without slashes at its ends and with or without `v1/` in front."""
