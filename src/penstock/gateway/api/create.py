"""`POST /v1/responses` and `POST /v1/responses/input_tokens`."""

from __future__ import annotations

import msgspec

from penstock.fairness import run_heavy, weight_of
from penstock.gateway.api.background import answer_later
from penstock.gateway.api.compact import prepare_any
from penstock.gateway.api.repeats import answer_again, claim_key
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.resolve import complete
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.gateway.turn.idempotency import HEADER, Earlier, fingerprint_of
from penstock.gateway.turn.json_outlet import JsonOutlet
from penstock.gateway.turn.prepare import Prepared
from penstock.gateway.turn.requests import read_request
from penstock.gateway.turn.run import run_turn
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.stream_outlet import StreamOutlet
from penstock.protocol.request import CreateResponse
from penstock.stream.accents import ACCENTS


async def create_response(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    gateway.refuse_if_full()
    body = await gateway.read(exchange)
    watch = Stopwatch(gateway.services.clock)
    weight = weight_of(body)
    request = await run_heavy(weight, _read, gateway, body)
    fingerprint = await run_heavy(weight, fingerprint_of, body) if HEADER in exchange.headers else ""
    del body  # it may be large, and the turn may be long
    claim = await claim_key(gateway, exchange, key, request, fingerprint)
    if isinstance(claim, Earlier):
        await answer_again(gateway, exchange, key, request, claim)
        return
    try:
        with watch.waiting():
            resolved = await gateway.unless_disconnected(exchange, complete(gateway, key, request, weight))
        gateway.refuse_if_full()
        prepared = await run_heavy(
            resolved.weight, prepare_any, gateway, exchange, key, resolved, watch, claim=claim
        )
        is_background = request.background
        del request, resolved  # they may be large, and the turn may be long
        if is_background:
            await answer_later(gateway, exchange, prepared)
            return
        outlet = _outlet(exchange, prepared)
        await run_turn(gateway, prepared, outlet, exchange, exchange.channel.on_disconnect)
        if prepared.verdict.closer == "client" and not prepared.verdict.terminal_sent:
            exchange.abort()
    finally:
        if claim is not None:
            await gateway.idempotency.release(claim)


def _outlet(exchange: Exchange, prepared: Prepared) -> StreamOutlet | JsonOutlet:
    """Return the outlet of a turn for a waiting client."""
    outlet = StreamOutlet if prepared.verdict.stream else JsonOutlet
    accent = ACCENTS[prepared.accent]()
    return outlet(exchange, accent, prepared.keeper, prepared.verdict, prepared.head)


async def count_input_tokens(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    body = await gateway.read(exchange)
    weight = weight_of(body)
    received = await run_heavy(weight, _read, gateway, body)
    resolved = await gateway.unless_disconnected(exchange, complete(gateway, key, received, weight))
    request, services = resolved.request, gateway.services
    tokens = await run_heavy(resolved.weight, services.count_input, request, str(request.model), key)
    answer: dict[str, object] = {"object": "response.input_tokens", "input_tokens": tokens}
    if diagnostics := services.count_diagnostics(str(request.model), key):
        answer["diagnostics"] = diagnostics
    exchange.answer(200, msgspec.json.encode(answer))


def _read(gateway: Gateway, body: bytes) -> CreateResponse:
    settings = gateway.services.settings
    return read_request(body, settings.default_model, settings.limits)
