"""What the gateway speaks, and where. One table, and a helpful answer for everything that is not in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from penstock.fairness import run_heavy, weight_of
from penstock.gateway.api import conversations
from penstock.gateway.api.background import answer_later
from penstock.gateway.api.compact import compact, prepare_any
from penstock.gateway.api.retrieve import cancel_response, delete_response, get_response, list_input_items
from penstock.gateway.errors import RequestRefused
from penstock.gateway.history.resolving import complete
from penstock.gateway.http.access import sees_all
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.model_listing import model_body, models_body
from penstock.gateway.settings import ClientKey
from penstock.gateway.telemetry.metrics import CONTENT_TYPE
from penstock.gateway.turn.prepare import answer
from penstock.gateway.turn.requests import read_request
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.protocol.request import CreateResponse
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
}
"""Paths that clients of other protocols ask for, and what to tell them (notes/asks L3)."""


class Route(Struct, frozen=True):
    """Who answers. `is_open`: also for somebody without a key, because it tells nothing of anybody."""

    handler: Handler
    is_open: bool = False


Routes = Mapping[str, Mapping[str, Route]]
"""By path and method."""


def find_route(routes: Routes, exchange: Exchange) -> tuple[str, Route]:
    """The route of a request, under its name; what leads nowhere is refused with advice."""
    path = exchange.path.strip("/")
    inner = path.removeprefix("v1/") if path.startswith("v1/") else path
    name = inner if inner in routes else _pattern(inner)
    methods = routes.get(path) or routes.get(name)
    if methods is None:
        raise _nothing_there(inner)
    method = "GET" if exchange.method == "HEAD" else exchange.method
    if method in methods:
        return name, methods[method]
    allowed = ", ".join(methods)
    message = f"{exchange.method} is not possible here, but {allowed} is; {SPOKEN}"
    raise RequestRefused(405, "method_not_allowed", message, headers=[("allow", allowed)])


def _pattern(path: str) -> str:
    """A path with its id left out: `responses/*/cancel`. The name of a model may have slashes in it."""
    head, _, rest = path.partition("/")
    if head == "models" and rest:
        return "models/*"
    if head not in ("responses", "conversations") or not rest:
        return path
    _, slash, tail = rest.partition("/")
    return f"{head}/*{slash}{'items/*' if tail.startswith('items/') else tail}"


def _nothing_there(path: str) -> RequestRefused:
    told = _ELSEWHERE.get(path, "there is nothing at this path")
    if path.startswith("v1/"):
        told = "this path has /v1 twice: the client adds it already, so leave it out of the base URL"
    return RequestRefused(404, "not_found", f"{told}; {SPOKEN}", type="not_found")


async def _responses(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    gateway.refuse_if_full()
    body = await gateway.read(exchange)
    watch = Stopwatch(gateway.services.clock)
    weight = weight_of(body)
    request = await run_heavy(weight, _understood, gateway, body)
    del body  # it may be large, and the turn may be long
    with watch.waiting():
        resolved = await gateway.while_there(exchange, complete(gateway, key, request, weight))
    gateway.refuse_if_full()
    prepared = await run_heavy(resolved.weight, prepare_any, gateway, exchange, key, resolved, watch)
    if request.background:
        await answer_later(gateway, exchange, key, prepared)
    else:
        await answer(gateway, exchange, prepared)


def _understood(gateway: Gateway, body: bytes) -> CreateResponse:
    settings = gateway.services.settings
    return read_request(body, settings.default_model, settings.limits)


async def _input_tokens(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    body = await gateway.read(exchange)
    weight = weight_of(body)
    asked = await run_heavy(weight, _understood, gateway, body)
    resolved = await gateway.while_there(exchange, complete(gateway, key, asked, weight))
    request, services = resolved.request, gateway.services
    tokens = await run_heavy(resolved.weight, services.count_input, request, str(request.model))
    told = {"object": "response.input_tokens", "input_tokens": tokens}
    await exchange.answer(200, msgspec.json.encode(told))


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


async def _metrics(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    text = gateway.metrics.render() if sees_all(key) else gateway.metrics.render_public()
    await exchange.answer(200, text, content_type=CONTENT_TYPE)


async def _root(_: Gateway, exchange: Exchange, __: ClientKey | None) -> None:
    told = {"name": "penstock", "version": VERSION, "speaks": SPOKEN, "health": "/healthz"}
    await exchange.answer(200, msgspec.json.encode(told))


ROUTES: Routes = {
    "": {"GET": Route(_root, is_open=True)},
    "responses": {"POST": Route(_responses)},
    "responses/compact": {"POST": Route(compact)},
    "responses/input_tokens": {"POST": Route(_input_tokens)},
    "responses/*": {"GET": Route(get_response), "DELETE": Route(delete_response)},
    "responses/*/cancel": {"POST": Route(cancel_response)},
    "responses/*/input_items": {"GET": Route(list_input_items)},
    "conversations": {"POST": Route(conversations.create_conversation)},
    "conversations/*": {
        "GET": Route(conversations.get_conversation),
        "POST": Route(conversations.update_conversation),
        "DELETE": Route(conversations.delete_conversation),
    },
    "conversations/*/items": {
        "GET": Route(conversations.list_items),
        "POST": Route(conversations.add_items),
    },
    "conversations/*/items/*": {
        "GET": Route(conversations.get_item),
        "DELETE": Route(conversations.delete_item),
    },
    "models": {"GET": Route(_models)},
    "models/*": {"GET": Route(_model)},
    "healthz": {"GET": Route(_health, is_open=True)},
    "readyz": {"GET": Route(_ready, is_open=True)},
    "metrics": {"GET": Route(_metrics)},
}
"""By path, without slashes at its ends and with or without `v1/` in front; `*` is an id."""
