"""Idempotency keys: a repeated `POST /v1/responses` gets the response of the first (decision 32)."""

from __future__ import annotations

from penstock.gateway.api.retrieve import accented_response, stream_stored
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import tenant_of
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.gateway.turn.idempotency import Claim, Earlier, read_key
from penstock.gateway.turn.json_outlet import failed_body
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import encode

REPLAYED = ("idempotent-replayed", "true")
"""The header of a response that was not made for this request."""


async def claim_key(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, request: CreateResponse, fingerprint: str
) -> Claim | Earlier | None:
    """Claim the request's idempotency key, or return the response that it is bound to. None: there is no
    key. `fingerprint` is that of the body."""
    name = read_key(exchange.headers)
    if name is None:
        return None
    # A stream is followed from its first event on; a response that is not streamed is sent when it has ended.
    follows = bool(request.stream or request.background)
    claiming = gateway.idempotency.claim(tenant_of(key), name, fingerprint, follows=follows)
    return await gateway.unless_disconnected(exchange, claiming)


async def answer_again(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, request: CreateResponse, earlier: Earlier
) -> None:
    """Send an earlier response in the form that the request asks for, without calling an upstream."""
    tenant, store = tenant_of(key), earlier.store
    if not request.background and not request.stream:
        async for _ in store.events(tenant, earlier.id):
            pass  # until the log ends
    stored = await store.get(tenant, earlier.id)
    if stored is None:
        message = "the response to this request has just been deleted: use a new Idempotency-Key"
        raise RequestRefused(409, "idempotency_key_reused", message)
    if request.stream:
        await stream_stored(gateway, exchange, key, stored, -1, store=store, headers=[REPLAYED])
        return
    response = accented_response(gateway, exchange, key, stored)
    if response.error is None or request.background:
        exchange.answer(200, encode(response), headers=[REPLAYED])
    else:
        failed, failure = failed_body(response, response.error)
        exchange.answer(failed.status, encode(failure), headers=[*failed.headers, REPLAYED])
