"""From a request to a turn that can be run."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import Resolved, public_request
from penstock.gateway.http.access import client_key_of, tenant_of
from penstock.gateway.http.client_accent import accent_for
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.services import Services
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.compaction import CompactionCodec
from penstock.gateway.turn.requests import fingerprints, identities, own_diagnostics, passed_on, used_call_ids
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.turn import Turn, TurnContext, TurnRequest
from penstock.gateway.turn.verdict import Verdict, conclude, shown
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import Item
from penstock.protocol.response import Response, response_for
from penstock.protocol.wire import encode
from penstock.store.contract import Opened
from penstock.store.keeper import CacheKeeper, Keeper, StoreKeeper
from penstock.store.reasoning_memory import context_of
from penstock.stream.deltas import UsageDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.upstream.attempts import Attempts, Candidate

OVERHEAD = "x-penstock-overhead-ms"
DIAGNOSTICS = "x-penstock-diagnostics"
HEARTBEAT = "x-penstock-heartbeat"
"""A client that wants signs of life more often, or less, says after how many seconds."""

_LONGEST_HEADER = 2000


class Prepared(Struct, frozen=True, kw_only=True):
    """A turn that can be run, and what belongs to it."""

    turn: Turn
    services: Services
    machine: ResponseStreamStateMachine
    keeper: Keeper
    verdict: Verdict
    watch: Stopwatch
    limits: Limits
    accent: str

    def head(self) -> list[tuple[str, str]]:
        """The headers of an answer that is about to begin: what is known by then."""
        overhead = f"{self.watch.overhead * 1000:.1f}"
        return [(OVERHEAD, overhead), *diagnostics_header([*self.turn.known, *self.keeper.diagnostics])]


def prepare(
    gateway: Gateway,
    exchange: Exchange,
    key: ClientKey | None,
    resolved: Resolved,
    watch: Stopwatch,
    *,
    summary: CompactionCodec | None = None,
    error_event: bool = True,
) -> Prepared:
    """What is wrong with a request is told here, before anybody is asked. `summary`: what the model writes
    becomes a compaction."""
    services = gateway.services
    limits = limits_for(services.settings.limits, exchange)
    candidates = _candidates(services, resolved, summary)
    asked = _understand(services, exchange, key, resolved, candidates[0])
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
    attempts = _attempts(services, exchange, asked, candidates)
    return Prepared(
        turn=Turn(_context(services, asked, summary), asked, attempts, machine, verdict, watch, tracer),
        services=services,
        machine=machine,
        keeper=keeper,
        verdict=verdict,
        watch=watch,
        limits=limits,
        accent=asked.accent,
    )


def _keeper(
    gateway: Gateway,
    resolved: Resolved,
    response: Response,
    asked: TurnRequest,
    verdict: Verdict,
    watch: Stopwatch,
) -> Keeper:
    given = asked.request.input
    context = context_of(given) if isinstance(given, list) else ""
    if not response.store:
        return CacheKeeper(gateway.reasoning, asked.tenant, context)

    def concluded(ended: Response) -> bytes:
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
    return StoreKeeper(gateway.store, opened, verdict=concluded, context=context)


def _candidates(services: Services, resolved: Resolved, summary: CompactionCodec | None) -> list[Candidate]:
    candidates = services.candidates(str(resolved.request.model))
    if summary is None:
        return candidates
    return [replace(each, upstream=summary.upstream(each.upstream)) for each in candidates]


def _context(services: Services, asked: TurnRequest, summary: CompactionCodec | None) -> TurnContext:
    def estimate(output: Sequence[Item]) -> UsageDelta:
        written = summary.written(output) if summary is not None else output
        return services.estimate(asked.request, asked.model, written)

    return TurnContext(
        answer_bytes=services.settings.limits.answer_bytes,
        estimate=estimate,
        count_attempt=services.count_attempt,
    )


def _understand(
    services: Services, exchange: Exchange, key: ClientKey | None, resolved: Resolved, first: Candidate
) -> TurnRequest:
    settings, request = services.settings, resolved.request
    model = str(request.model)
    return TurnRequest(
        request=request,
        model=model,
        tools=identities(request),
        used_call_ids=used_call_ids(request),
        accent=accent_for(settings, key, exchange.query, exchange.headers),
        headers=passed_on(exchange.headers),
        first=first,
        tenant=tenant_of(key),
        weight=resolved.weight,
        diagnostics=[*own_diagnostics(request), *resolved.diagnostics],
    )


def _attempts(
    services: Services, exchange: Exchange, asked: TurnRequest, candidates: Sequence[Candidate]
) -> Attempts:
    settings = services.settings
    return Attempts(
        candidates,
        retries=settings.limits.retries,
        wait_budget=settings.limits.retry_wait,
        random=random.random,
        client_key=client_key_of(settings, exchange.headers),
        prefer=fingerprints(asked.request),
    )


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
