"""`POST /v1/responses`: from the request to a turn, and what runs beside the turn."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from msgspec.structs import replace

from penstock.gateway.accents import accent_for
from penstock.gateway.access import client_key_of
from penstock.gateway.errors import RequestRefused
from penstock.gateway.exchange import Exchange, Receive
from penstock.gateway.heart import Heart
from penstock.gateway.logs import log_verdict
from penstock.gateway.outlet import Outlet, StreamOutlet, WholeOutlet
from penstock.gateway.requests import (
    fingerprints,
    identities,
    own_diagnostics,
    passed_on,
    read_request,
    used_call_ids,
)
from penstock.gateway.services import Services
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.stopwatch import Stopwatch
from penstock.gateway.turn import CLIENT_GONE, Asked, Turn
from penstock.gateway.verdict import Verdict
from penstock.protocol.errors import Diagnostic
from penstock.protocol.response import response_for
from penstock.stream.accents import ACCENTS
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.upstream.attempts import Attempts

OVERHEAD = "x-penstock-overhead-ms"
DIAGNOSTICS = "x-penstock-diagnostics"
HEARTBEAT = "x-penstock-heartbeat"
"""A client that wants signs of life more often, or less, says after how many seconds."""

_LONGEST_HEADER = 2000


async def create_response(
    services: Services, exchange: Exchange, key: ClientKey | None, body: bytes, watch: Stopwatch
) -> None:
    """Answer with one response, whatever the upstream does."""
    settings = services.settings
    request = read_request(body, settings.default_model)
    model = str(request.model)
    accent = accent_for(settings, key, exchange.query, exchange.headers)
    asked = Asked(
        request=request,
        model=model,
        tools=identities(request),
        used_call_ids=used_call_ids(request),
        accent=accent,
        headers=passed_on(exchange.headers),
        diagnostics=own_diagnostics(request),
    )
    attempts = Attempts(
        services.choices(model),
        retries=settings.limits.retries,
        wait_budget=settings.limits.retry_wait,
        clock=services.clock,
        random=random.random,
        client_key=client_key_of(settings, exchange.headers),
        prefer=fingerprints(request),
    )
    limits = _limits_for(settings.limits, exchange)
    response = response_for(request, id=f"resp_{uuid4().hex}", created_at=int(time.time()))
    response = replace(response, store=False)  # echoed as it is honoured (decisions 15)
    verdict = Verdict(
        request_id=exchange.request_id,
        response_id=response.id,
        client=key.name if key else "",
        model=model,
        accent=accent,
        stream=request.stream is True,
    )
    machine = ResponseStreamStateMachine(
        response, clock=time.time, tools=asked.tools, used_call_ids=asked.used_call_ids
    )
    turn = Turn(services, asked, attempts, machine, verdict, watch)
    outlet_type = StreamOutlet if verdict.stream else WholeOutlet
    outlet = outlet_type(exchange, ACCENTS[accent](), verdict, lambda: _head(watch, turn.known))
    services.begin(turn)
    try:
        async with _beside(turn, outlet, exchange.receive, limits, verdict):
            await turn.run(outlet)
    finally:
        if verdict.closer == "client":
            exchange.abort()  # one that takes nothing would never see an end in good order
        services.end(turn, verdict)
        log_verdict(verdict)


@asynccontextmanager
async def _beside(
    turn: Turn, outlet: Outlet, receive: Receive, limits: Limits, verdict: Verdict
) -> AsyncIterator[None]:
    """One helper waits for the client to go (notes/asks F1), the other is the heart."""
    helpers = [asyncio.create_task(_watch_client(turn, receive))]
    if isinstance(outlet, StreamOutlet):
        heart = Heart(turn, outlet, limits, verdict, clock=asyncio.get_running_loop().time)
        helpers.append(asyncio.create_task(heart.run()))
    try:
        yield
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)


async def _watch_client(turn: Turn, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    turn.stop(CLIENT_GONE)


def _head(watch: Stopwatch, known: list[Diagnostic]) -> list[tuple[str, str]]:
    headers = [(OVERHEAD, f"{watch.overhead * 1000:.1f}")]
    if known:
        named = [f"{told.code}: {told.message}" for told in known]
        headers.append((DIAGNOSTICS, "; ".join(named)[:_LONGEST_HEADER]))
    return headers


def _limits_for(limits: Limits, exchange: Exchange) -> Limits:
    wanted = exchange.headers.get(HEARTBEAT)
    if wanted is None:
        return limits
    try:
        seconds = float(wanted)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        message = f"{HEARTBEAT} is a number of seconds from 0.1 to 3600"
        raise RequestRefused(400, "invalid_request", message, param=HEARTBEAT)
    return replace(limits, comment_every=seconds, event_every=seconds)
