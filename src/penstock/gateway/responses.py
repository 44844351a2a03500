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
from penstock.gateway.logs import log_fault, log_verdict
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
from penstock.gateway.verdict import Verdict, shown
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
    limits = _limits_for(services.settings.limits, exchange)
    asked = _understand(services, exchange, key, body)
    response = response_for(asked.request, id=f"resp_{uuid4().hex}", created_at=int(time.time()))
    response = replace(response, store=False)  # echoed as it is honoured (decisions 15)
    verdict = Verdict(
        request_id=exchange.request_id,
        response_id=response.id,
        client=key.name if key else "",
        model=shown(asked.model),
        accent=asked.accent,
        stream=asked.request.stream is True,
    )
    machine = ResponseStreamStateMachine(
        response, clock=time.time, tools=asked.tools, used_call_ids=asked.used_call_ids
    )
    turn = Turn(services, asked, _attempts(services, exchange, asked), machine, verdict, watch)
    outlet = _outlet(exchange, turn, asked.accent, verdict, watch)
    services.begin(turn, exchange)
    try:
        async with _beside(turn, outlet, exchange.receive, limits, verdict):
            await turn.run(outlet)
    finally:
        services.end(turn, verdict)
        log_verdict(verdict)
    await _deliver(exchange, verdict, limits)


def _understand(services: Services, exchange: Exchange, key: ClientKey | None, body: bytes) -> Asked:
    """What is wrong with a request is told here, before anybody is asked."""
    settings = services.settings
    request = read_request(body, settings.default_model, settings.limits.input_items)
    model = str(request.model)
    return Asked(
        request=request,
        model=model,
        tools=identities(request),
        used_call_ids=used_call_ids(request),
        accent=accent_for(settings, key, exchange.query, exchange.headers),
        headers=passed_on(exchange.headers),
        first=services.choices(model)[0],
        diagnostics=own_diagnostics(request),
    )


def _attempts(services: Services, exchange: Exchange, asked: Asked) -> Attempts:
    settings = services.settings
    return Attempts(
        services.choices(asked.model),
        retries=settings.limits.retries,
        wait_budget=settings.limits.retry_wait,
        clock=services.clock,
        random=random.random,
        client_key=client_key_of(settings, exchange.headers),
        prefer=fingerprints(asked.request),
    )


def _outlet(exchange: Exchange, turn: Turn, accent: str, verdict: Verdict, watch: Stopwatch) -> Outlet:
    def head() -> list[tuple[str, str]]:
        return _head(watch, turn.known)

    speak = ACCENTS[accent]()
    if verdict.stream:
        return StreamOutlet(exchange, speak, verdict, watch, head)
    return WholeOutlet(exchange, speak, verdict, head)


async def _deliver(exchange: Exchange, verdict: Verdict, limits: Limits) -> None:
    """See the answer out of the door: what a client does not take must not stay in memory for ever."""
    if verdict.closer == "client":
        await exchange.cut()
        return
    try:
        async with asyncio.timeout(limits.client_timeout):
            await exchange.drained()
    except TimeoutError:
        exchange.abort()


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
        for fault in await asyncio.gather(*helpers, return_exceptions=True):
            if isinstance(fault, Exception):
                log_fault(fault, verdict.request_id)


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
