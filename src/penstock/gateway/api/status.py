"""Endpoints for operators and load balancers: `/`, `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import msgspec

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import sees_metrics
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.gateway.telemetry.metrics import CONTENT_TYPE
from penstock.version import VERSION

SUPPORTED = "this gateway supports OpenResponses: POST /v1/responses, GET /v1/models"


async def show_root(_: Gateway, exchange: Exchange, __: ClientKey | None) -> None:
    about = {"name": "penstock", "version": VERSION, "speaks": SUPPORTED, "health": "/healthz"}
    exchange.answer(200, msgspec.json.encode(about))


async def show_health(_: Gateway, exchange: Exchange, __: ClientKey | None) -> None:
    exchange.answer(200, b'{"status":"ok"}')


async def show_ready(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    if gateway.is_draining:
        exchange.answer(503, b'{"status":"draining"}')
    else:
        exchange.answer(200, b'{"status":"ready"}')


async def show_metrics(gateway: Gateway, exchange: Exchange, _: ClientKey | None) -> None:
    """Send the metrics; a token for them may stand for a key, so the route itself checks access."""
    is_all = sees_metrics(gateway.services.settings, exchange.headers, gateway.clock)
    text = await gateway.metrics.gather() if is_all else gateway.metrics.render_public()
    exchange.answer(200, text, content_type=CONTENT_TYPE)
