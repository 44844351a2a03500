"""`GET /v1/models` and `GET /v1/models/{model}`."""

from __future__ import annotations

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import check_model
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.model_listing import model_body, models_body
from penstock.gateway.settings import ClientKey
from penstock.suggestions import advice


async def list_models(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    models = await gateway.services.listing_for(exchange.headers).models()
    if key is not None:
        models = [model for model in models if key.may_use(model.id)]
    exchange.answer(200, models_body(models, created=gateway.started_at))


async def get_model(gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, model: str) -> None:
    check_model(key, model)
    listing = gateway.services.listing_for(exchange.headers)
    found = await listing.find(model)
    if found is None:
        names = [each.id for each in await listing.models() if key is None or key.may_use(each.id)]
        message = f"there is no model {model[:128]!r}; {advice(model, names)}"
        raise RequestRefused(404, "model_not_found", message, type="not_found", param="model")
    exchange.answer(200, model_body(found, created=gateway.started_at))
