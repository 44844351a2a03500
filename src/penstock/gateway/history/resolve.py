"""Complete a request: with its history, its compactions expanded, and the reasoning that clients omit.

Only the store is asked on the event loop. What grows with the history runs in a thread once it is heavy, so
that a conversation of thousands of items does not delay other clients.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from penstock.fairness import run_heavy
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import Resolved, resolve
from penstock.gateway.history.compactions import expand
from penstock.gateway.history.connection_cache import ConnectionHistory
from penstock.gateway.http.access import check_model, tenant_of
from penstock.gateway.settings import ClientKey
from penstock.protocol.request import CreateResponse
from penstock.store.reasoning_memory import FunctionRunner, restore_reasoning


async def complete(
    gateway: Gateway,
    key: ClientKey | None,
    request: CreateResponse,
    weight: int,
    local: ConnectionHistory | None = None,
) -> Resolved:
    """Return the complete request. `weight` is the request's own (`fairness.weight_of`), `local` the history
    of its WebSocket connection. Raise `RequestRefused` if the key may not use the model."""
    check_model(key, str(request.model))
    tenant = tenant_of(key)
    # A request that does not need the store goes on without it (decision 34).
    needs_store = request.store is not False or not gateway.store.is_unavailable
    reasoning = (gateway.reasoning, gateway.store) if needs_store else (gateway.reasoning,)
    resolved = await resolve(gateway.store, tenant, request, local, reasoning, weight)
    run: FunctionRunner = partial(run_heavy, resolved.weight)
    expanded, diagnostics = await run(expand, resolved.request, gateway.sealer, tenant, resolved.before)
    if isinstance(expanded.input, list):
        items = await restore_reasoning(reasoning, tenant, expanded.input, run)
        expanded = replace(expanded, input=items)
    return replace(resolved, request=expanded, diagnostics=tuple(diagnostics))
