"""`GET inspector/api/connect`: how clients are pointed at this gateway, as `penstock connect` says it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from penstock.connect.gateway import KEY_VARIABLE, ConnectedGateway
from penstock.connect.guides import GUIDES, ClientGuide, next_steps
from penstock.errors import InvalidRequestError
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.model_listing import models_body
from penstock.gateway.settings import DEMO, ClientKey
from penstock.inspector.answers import answer, invalid
from penstock.models.directory import ModelDirectory
from penstock.models.info import ModelInfo
from penstock.net.urls import read_address
from penstock.protocol.content import JsonObject

_HOME = {"HOME": "~"}
"""The client's files are on the machine of the browser, whose home is not known here."""
_LONGEST = 200
_PLAIN_URL = re.compile(r"[A-Za-z0-9:/._~\[\]%@!&+,;=()*-]+")
"""What needs no quotes in any of the clients' files."""


async def show_clients(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    base_url, model = _base_url(gateway, exchange), exchange.query.get("model", "")
    if len(model) > _LONGEST or not model.isprintable():
        raise invalid("model", "is not the name of a model")
    models = await _models(gateway, exchange, key)
    connected = ConnectedGateway(
        base_url=base_url,
        model=model or (models[0].id if models else DEMO),
        key_variable=KEY_VARIABLE if gateway.services.settings.keys else "",
        models=models,
    )
    await answer(exchange, {"clients": [_client(guide, connected) for guide in GUIDES.values()]})


def _client(guide: ClientGuide, gateway: ConnectedGateway) -> dict[str, Any]:
    return {
        "name": guide.name,
        "title": guide.title,
        "language": guide.language,
        "install": guide.install,
        "saved_as": guide.saved_as,
        "file": str(guide.file(_HOME)) if guide.file else "",
        "settings": guide.settings(gateway),
        "steps": next_steps(guide, gateway),
    }


def _base_url(gateway: Gateway, exchange: Exchange) -> str:
    """Return the address that clients use, which only the page knows: there may be a proxy in front."""
    given = exchange.query.get("base_url", "").rstrip("/")
    if not given:
        scheme = "https" if gateway.services.settings.tls_cert else "http"
        given = f"{scheme}://{exchange.headers.get('host', '')}/v1"
    try:
        read_address(given)
    except InvalidRequestError as error:
        raise invalid("base_url", f"is not an address: {error.message}") from None
    if len(given) > _LONGEST or not _PLAIN_URL.fullmatch(given):
        raise invalid("base_url", "must be an address without a query")
    return given


class _OwnModels:
    """What a client of this gateway is sent as its models."""

    def __init__(self, gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
        self._gateway, self._exchange, self._key = gateway, exchange, key

    async def models(self) -> list[JsonObject]:
        listed = await self._gateway.services.listing_for(self._exchange.headers).models()
        models = [each for each in listed if self._key is None or self._key.may_use(each.id)]
        body = models_body(models, created=self._gateway.started_at)
        data: list[JsonObject] = msgspec.json.decode(body)["data"]
        return data


async def _models(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> tuple[ModelInfo, ...]:
    """Return the models as a client reads them."""
    return tuple(await ModelDirectory(_OwnModels(gateway, exchange, key)).list())
