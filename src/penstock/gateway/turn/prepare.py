"""`POST /v1/responses`: from the request to a turn, and what runs beside the turn."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.gateway.errors import RequestRefused
from penstock.gateway.history.chains import Resolved, public_request
from penstock.gateway.http.access import client_key_of
from penstock.gateway.http.client_accent import accent_for
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.services import Services
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.telemetry.logs import log_fault, log_verdict
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.heartbeats import Heart
from penstock.gateway.turn.outlets import LiveOutlet, Outlet, StreamOutlet, WholeOutlet
from penstock.gateway.turn.requests import fingerprints, identities, own_diagnostics, passed_on, used_call_ids
from penstock.gateway.turn.run import Asked, Turn
from penstock.gateway.turn.stop_reasons import CLIENT_GONE, CLIENT_STALLED, Stopped
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, conclude, shown
from penstock.protocol.errors import Diagnostic
from penstock.protocol.response import Response, response_for
from penstock.protocol.wire import encode
from penstock.store.contract import LOCAL, Opened
from penstock.store.keeper import CacheKeeper, Keeper, StoreKeeper
from penstock.store.reasoning_memory import context_of
from penstock.stream.accents import ACCENTS
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.upstream.attempts import Attempts

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

OVERHEAD = "x-penstock-overhead-ms"
DIAGNOSTICS = "x-penstock-diagnostics"
HEARTBEAT = "x-penstock-heartbeat"
"""A client that wants signs of life more often, or less, says after how many seconds."""

_LONGEST_HEADER = 2000


class Prepared(Struct, frozen=True, kw_only=True):
    """A turn that can be run, and what belongs to it."""

    turn: Turn
    machine: ResponseStreamStateMachine
    keeper: Keeper
    verdict: Verdict
    watch: Stopwatch
    limits: Limits
    accent: str


def prepare(
    gateway: Gateway,
    exchange: Exchange,
    key: ClientKey | None,
    resolved: Resolved,
    watch: Stopwatch,
    *,
    services: Services | None = None,
    error_event: bool = True,
) -> Prepared:
    """What is wrong with a request is told here, before anybody is asked."""
    services = services or gateway.services
    limits = limits_for(services.settings.limits, exchange)
    asked = _understand(services, exchange, key, resolved)
    response = response_for(asked.request, id=f"resp_{uuid4().hex}", created_at=int(time.time()))
    verdict = Verdict(
        request_id=exchange.request_id,
        response_id=response.id,
        client=key.name if key else "",
        model=shown(asked.model),
        accent=asked.accent,
        stream=asked.request.stream is True,
    )
    machine = ResponseStreamStateMachine(
        response,
        clock=time.time,
        tools=asked.tools,
        used_call_ids=asked.used_call_ids,
        error_event=error_event,
    )
    keeper = _keeper(gateway, resolved, response, asked, verdict, watch)
    tracer = Tracer(keeper.trace, is_recording=services.settings.record)
    attempts = _attempts(services, exchange, asked)
    return Prepared(
        turn=Turn(services, asked, attempts, machine, verdict, watch, tracer),
        machine=machine,
        keeper=keeper,
        verdict=verdict,
        watch=watch,
        limits=limits,
        accent=asked.accent,
    )


async def answer(gateway: Gateway, exchange: Exchange, prepared: Prepared) -> None:
    """Run a turn for the client that waits for it, whatever the upstream does."""
    services, turn, verdict, limits = gateway.services, prepared.turn, prepared.verdict, prepared.limits
    outlet = _outlet(exchange, prepared)
    services.begin(turn, exchange)
    watching = watch_client(gateway, prepared, outlet, exchange, exchange.gone())
    try:
        async with _beside(watching, turn, outlet, limits, verdict):
            await turn.run(outlet)
    finally:
        services.end(turn, verdict)
        log_verdict(verdict)
    if verdict.closer == "client":
        await exchange.cut()


def tenant_of(key: ClientKey | None) -> str:
    """Each key is a tenant of its own; without keys there is one."""
    return LOCAL if key is None else key.name


def _keeper(
    gateway: Gateway, resolved: Resolved, response: Response, asked: Asked, verdict: Verdict, watch: Stopwatch
) -> Keeper:
    given = asked.request.input
    context = context_of(given) if isinstance(given, list) else ""
    if not response.store:
        return CacheKeeper(gateway.reasoning, asked.tenant, context)

    def told(ended: Response) -> bytes:
        # A copy: who closed it, and how, may still be learnt while the client is told of the end.
        now = replace(verdict)
        conclude(now, ended, watch)
        return msgspec.json.encode(now)

    opened = Opened(
        id=response.id,
        tenant=asked.tenant,
        created_at=response.created_at,
        previous_id=resolved.previous_id,
        conversation_id=resolved.conversation_id,
        status="queued" if response.background else "in_progress",
        is_background=response.background,
        request=encode(public_request(replace(asked.request, input=UNSET))),
        input=resolved.brought,
    )
    return StoreKeeper(gateway.store, opened, verdict=told, context=context)


def _understand(services: Services, exchange: Exchange, key: ClientKey | None, resolved: Resolved) -> Asked:
    settings, request = services.settings, resolved.request
    model = str(request.model)
    return Asked(
        request=request,
        model=model,
        tools=identities(request),
        used_call_ids=used_call_ids(request),
        accent=accent_for(settings, key, exchange.query, exchange.headers),
        headers=passed_on(exchange.headers),
        first=services.choices(model)[0],
        tenant=tenant_of(key),
        weight=resolved.weight,
        diagnostics=[*own_diagnostics(request), *resolved.diagnostics],
    )


def _attempts(services: Services, exchange: Exchange, asked: Asked) -> Attempts:
    settings = services.settings
    return Attempts(
        services.choices(asked.model),
        retries=settings.limits.retries,
        wait_budget=settings.limits.retry_wait,
        random=random.random,
        client_key=client_key_of(settings, exchange.headers),
        prefer=fingerprints(asked.request),
    )


def _outlet(exchange: Exchange, prepared: Prepared) -> Outlet:
    keeper, verdict, watch = prepared.keeper, prepared.verdict, prepared.watch

    def head() -> list[tuple[str, str]]:
        return _head(watch, [*prepared.turn.known, *keeper.diagnostics])

    speak = ACCENTS[prepared.accent]()
    if verdict.stream:
        return StreamOutlet(exchange, speak, keeper, verdict, watch, head)
    return WholeOutlet(exchange, speak, keeper, verdict, head)


@asynccontextmanager
async def _beside(
    watching: Coroutine[Any, Any, None], turn: Turn, outlet: Outlet, limits: Limits, verdict: Verdict
) -> AsyncIterator[None]:
    """One helper waits for the client to go (notes/asks F1), the other is the heart."""
    helpers = [asyncio.create_task(watching)]
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


async def watch_client(
    gateway: Gateway, prepared: Prepared, outlet: Outlet, exchange: Exchange, gone: Coroutine[Any, Any, None]
) -> None:
    """Wait until the client goes, or takes nothing for too long, which is no better."""
    leaving = asyncio.create_task(gone)
    stalling = [asyncio.create_task(outlet.stalled.wait())] if isinstance(outlet, LiveOutlet) else []
    try:
        await asyncio.wait([leaving, *stalling], return_when=asyncio.FIRST_COMPLETED)
        why = CLIENT_GONE if leaving.done() else CLIENT_STALLED
    finally:
        for task in (leaving, *stalling):
            task.cancel()
    await _leave(gateway, prepared, outlet, exchange, why)


async def _leave(
    gateway: Gateway, prepared: Prepared, outlet: Outlet, exchange: Exchange, why: Stopped
) -> None:
    """One that knows the id of a stored response may come back to it for a while (decisions 16)."""
    turn, verdict, grace = prepared.turn, prepared.verdict, prepared.limits.disconnect_grace
    if grace and prepared.machine.snapshot.store and verdict.last_event and isinstance(outlet, LiveOutlet):
        verdict.left = True
        outlet.leave()
        exchange.abort()  # a write may wait there for a client that is not there any more
        await gateway.listeners.gone((turn.tenant, turn.id), grace)
        why = CLIENT_GONE
    turn.stop(why)
    if why is CLIENT_STALLED:
        exchange.abort()  # also the last write of a turn that was stopped before


def _head(watch: Stopwatch, known: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(OVERHEAD, f"{watch.overhead * 1000:.1f}"), *diagnostics_header(known)]


def diagnostics_header(known: list[Diagnostic]) -> list[tuple[str, str]]:
    """The diagnostics that are known before the first byte, as far as a header can hold them."""
    named = [f"{each.code}: {each.message}" for each in known]
    return [(DIAGNOSTICS, "; ".join(named)[:_LONGEST_HEADER])] if named else []


def limits_for(limits: Limits, exchange: Exchange) -> Limits:
    """The limits, with the signs of life that this client wants."""
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
