"""Prepare a turn: from a resolved request to an object that can be run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from os import urandom
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.dialects.toolset import identities_of
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import Resolved, new_id, public_request
from penstock.gateway.http.access import client_key_of, tenant_of
from penstock.gateway.http.client_accent import accent_for
from penstock.gateway.http.exchange import ClientRequest
from penstock.gateway.refusals import store_unavailable
from penstock.gateway.services import Services
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.admission import Admission, limits_to_check, reserved_tokens
from penstock.gateway.turn.compaction import CompactionCodec
from penstock.gateway.turn.idempotency import Claim
from penstock.gateway.turn.requests import (
    fingerprints,
    own_diagnostics,
    passed_on,
    used_call_ids,
)
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.turn import Turn, TurnContext, TurnRequest
from penstock.gateway.turn.verdict import Verdict, conclude, shown
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import Item
from penstock.protocol.response import Response, response_for
from penstock.protocol.wire import encode
from penstock.store.keeper import CacheKeeper, Keeper, StoreKeeper
from penstock.store.ledger import TurnRecord
from penstock.store.reasoning_memory import context_of
from penstock.store.records import Opened
from penstock.stream.deltas import UsageDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.upstream.affinity import SEED_BYTES, conversation_root
from penstock.upstream.attempts import Attempts, Candidate
from penstock.upstream.placement import in_order, origin_first

if TYPE_CHECKING:
    from penstock.gateway.telemetry.otel.turn_trace import TurnTrace

OVERHEAD = "x-penstock-overhead-ms"
DIAGNOSTICS = "x-penstock-diagnostics"
HEARTBEAT = "x-penstock-heartbeat"
"""A request header: the client's own heartbeat interval in seconds."""

_LONGEST_HEADER = 2000


class StoredStart(Struct, frozen=True):
    """A background turn that another worker has stored, and that died before it called an upstream."""

    turn: Opened
    last_sequence: int
    """The last event in its log."""


class Prepared(Struct, frozen=True, kw_only=True):
    """A turn that is ready to run, with everything that belongs to it."""

    turn: Turn
    services: Services
    machine: ResponseStreamStateMachine
    keeper: Keeper
    verdict: Verdict
    watch: Stopwatch
    limits: Limits
    accent: str
    admission: Admission
    has_key: bool = False
    """Whether the request has an idempotency key: then its client may come back and follow the turn."""
    trace: TurnTrace | None = None
    """What is exported about the turn when it has ended; None: nothing."""

    def head(self) -> list[tuple[str, str]]:
        """Return the headers of a response that is about to begin, with what is known by then."""
        overhead = f"{self.watch.overhead * 1000:.1f}"
        return [(OVERHEAD, overhead), *diagnostics_header([*self.turn.known, *self.keeper.diagnostics])]


def prepare(
    gateway: Gateway,
    exchange: ClientRequest,
    key: ClientKey | None,
    resolved: Resolved,
    watch: Stopwatch,
    *,
    summary: CompactionCodec | None = None,
    error_event: bool = True,
    claim: Claim | None = None,
    stored: StoredStart | None = None,
) -> Prepared:
    """Return the prepared turn; raise `RequestRefused` for an invalid request, before an upstream is called.
    With `summary`, the model's output becomes a compaction item. `claim` is the request's idempotency key,
    `stored` the turn if it is in the store already."""
    services = gateway.services
    limits = limits_for(services.settings.limits, exchange)
    root = conversation_root(resolved.request, tenant_of(key))
    place = _placement(services, key, resolved, summary, root)
    request = _turn_request(gateway, exchange, key, resolved, place.candidates[0], root)
    if stored is not None:
        id, created_at = stored.turn.id, stored.turn.created_at
    else:
        id, created_at = new_id("resp"), int(gateway.store.clock())
    response = response_for(request.request, id=id, created_at=created_at)
    if response.store and gateway.store.is_unavailable:
        raise store_unavailable()
    verdict = Verdict(
        request_id=exchange.request_id,
        response_id=response.id,
        client=key.name if key else "",
        model=shown(request.model),
        accent=request.accent,
        stream=request.request.stream is True,
    )
    machine = ResponseStreamStateMachine(
        response,
        clock=gateway.store.clock,
        tools=request.tools,
        used_call_ids=request.used_call_ids,
        error_event=error_event,
    )
    keeper = _keeper(gateway, resolved, response, request, verdict, watch, claim, stored)
    keep_trace = keeper.trace if isinstance(keeper, StoreKeeper) else None
    tracer = Tracer(keep_trace, is_recording=services.settings.record)
    attempts = _attempts(gateway, exchange, place)
    trace = None
    if gateway.telemetry is not None:
        trace = gateway.telemetry.begin(exchange, request.request, watch, verdict)
    context = _context(services, request, summary, trace)
    return Prepared(
        turn=Turn(context, request, attempts, machine, verdict, watch, tracer),
        services=services,
        machine=machine,
        keeper=keeper,
        verdict=verdict,
        watch=watch,
        limits=limits,
        accent=request.accent,
        # A stored turn was admitted when it was accepted.
        admission=_admission(gateway, exchange, key if stored is None else None, request, response, attempts),
        has_key=claim is not None,
        trace=trace,
    )


def _admission(
    gateway: Gateway,
    exchange: ClientRequest,
    key: ClientKey | None,
    request: TurnRequest,
    response: Response,
    attempts: Attempts,
) -> Admission:
    services = gateway.services
    limits = limits_to_check(key.limits) if key is not None else None
    count = partial(services.count_input, request.request, request.model)
    record = TurnRecord(
        id=response.id,
        tenant=request.tenant,
        started_at=gateway.clock(),
        is_stored=response.store,
        user_agent=shown(exchange.headers.get("user-agent", "")),
        request_id=exchange.request_id,
        model=shown(request.model),
        accent=request.accent,
        stream=request.request.stream is True,
        reserved_tokens=reserved_tokens(limits, request.request, count),
    )
    return Admission(
        record,
        limits,
        store=gateway.store,
        local=gateway.local_ledger,
        listing=services.listing_for(exchange.headers),
        attempts=attempts,
        clock=gateway.clock,
        workers=services.settings.workers,
    )


def _keeper(
    gateway: Gateway,
    resolved: Resolved,
    response: Response,
    request: TurnRequest,
    verdict: Verdict,
    watch: Stopwatch,
    claim: Claim | None,
    stored: StoredStart | None,
) -> Keeper:
    items = request.request.input
    context = partial(context_of, items if isinstance(items, list) else ())
    if not response.store and claim is None:
        return CacheKeeper(gateway.reasoning, request.tenant, context)

    def concluded(ended: Response) -> bytes:
        # A copy: the verdict may still change while the terminal event is sent to the client.
        now = replace(verdict)
        conclude(now, ended, watch)
        return msgspec.json.encode(now)

    if stored is not None:
        return StoreKeeper(
            gateway.store,
            stored.turn,
            verdict=concluded,
            context=context,
            stored_until=stored.last_sequence,
        )
    opened = Opened(
        id=response.id,
        tenant=request.tenant,
        created_at=response.created_at,
        previous_id=resolved.previous_id,
        conversation_id=resolved.conversation_id,
        status="queued" if response.background else "in_progress",
        is_background=response.background,
        accent=request.accent,
        request=encode(public_request(replace(request.request, input=UNSET))),
        input=resolved.new_items if response.store else (),
    )
    if claim is None:
        return StoreKeeper(gateway.store, opened, verdict=concluded, context=context)
    store = gateway.store if response.store else gateway.idempotency.unstored
    return StoreKeeper(
        store,
        replace(opened, memory=claim.memory(response.id)),
        verdict=concluded,
        context=context,
        cache=None if response.store else gateway.reasoning,
        on_open=partial(claim.opened, response.id, store),
    )


class Placement(Struct, frozen=True):
    """Where a turn is sent to."""

    candidates: Sequence[Candidate]
    """The targets, in the order in which they are tried."""
    seed: bytes
    """Chooses among the keys of a target."""
    origins: Sequence[str]
    """The fingerprints of the keys that reasoning in the history is bound to."""


def _placement(
    services: Services,
    key: ClientKey | None,
    resolved: Resolved,
    summary: CompactionCodec | None,
    root: bytes,
) -> Placement:
    candidates = services.candidates(str(resolved.request.model), key)
    if summary is not None:
        candidates = [replace(each, upstream=summary.upstream(each.upstream)) for each in candidates]
    seed = root if root and services.settings.routing.affinity else urandom(SEED_BYTES)
    origins = fingerprints(resolved.request)
    return Placement(origin_first(in_order(candidates, seed), origins), seed, origins)


def _context(
    services: Services, request: TurnRequest, summary: CompactionCodec | None, trace: TurnTrace | None
) -> TurnContext:
    return TurnContext(
        answer_bytes=services.settings.limits.answer_bytes,
        output_items=services.settings.limits.output_items,
        estimate=partial(_estimate, services, request, summary),
        count_attempt=services.count_attempt,
        trace=trace,
    )


def _estimate(
    services: Services, request: TurnRequest, summary: CompactionCodec | None, output: Sequence[Item]
) -> UsageDelta:
    written = summary.written(output) if summary is not None else output
    return services.estimate(request.request, request.model, written)


def _turn_request(
    gateway: Gateway,
    exchange: ClientRequest,
    key: ClientKey | None,
    resolved: Resolved,
    first: Candidate,
    root: bytes,
) -> TurnRequest:
    settings, request = gateway.services.settings, resolved.request
    lacks_key = not request.prompt_cache_key and settings.routing.prompt_cache_key
    return TurnRequest(
        request=request,
        model=str(request.model),
        tools=identities_of(request),
        used_call_ids=used_call_ids(request),
        accent=accent_for(settings, key, exchange.query, exchange.headers),
        headers=passed_on(exchange.headers),
        first=first,
        tenant=tenant_of(key),
        cache_key=gateway.sealer.cache_key(root) if lacks_key and root else "",
        weight=resolved.weight,
        diagnostics=[*own_diagnostics(request), *resolved.diagnostics],
    )


def _attempts(gateway: Gateway, exchange: ClientRequest, place: Placement) -> Attempts:
    settings = gateway.services.settings
    return Attempts(
        place.candidates,
        retries=settings.limits.retries,
        wait_budget=settings.limits.retry_wait,
        random=random.random,
        client_key=client_key_of(settings, exchange.headers),
        prefer=place.origins,
        seed=place.seed,
        ejections=gateway.ejections,
    )


def diagnostics_header(known: list[Diagnostic]) -> list[tuple[str, str]]:
    """Return the diagnostics that are known before the first byte, truncated to the length of a header."""
    lines = [f"{each.code}: {each.message}" for each in known]
    return [(DIAGNOSTICS, "; ".join(lines)[:_LONGEST_HEADER])] if lines else []


def limits_for(limits: Limits, exchange: ClientRequest) -> Limits:
    """Return the limits with the heartbeat interval that this client requests. The first heartbeat is the
    beginning of the stream, so the interval limits `patience` as well (decision 9)."""
    requested = exchange.headers.get(HEARTBEAT)
    if requested is None:
        return limits
    try:
        seconds = float(requested)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        message = f"{HEARTBEAT} must be a number of seconds from 0.1 to 3600"
        raise RequestRefused(400, "invalid_request", message, param=HEARTBEAT)
    patience = min(limits.patience, seconds)
    return replace(limits, comment_every=seconds, event_every=seconds, patience=patience)
