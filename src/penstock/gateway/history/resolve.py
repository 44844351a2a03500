"""Complete a request: with its history, its compactions expanded, and the reasoning that clients omit.

Only the store is asked on the event loop. What grows with the history runs in a thread once it is heavy, so
that a conversation of thousands of items does not delay other clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.fairness import run_heavy
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import Resolved, resolve
from penstock.gateway.history.compactions import expand
from penstock.gateway.history.connection_cache import ConnectionHistory
from penstock.gateway.http.access import check_model, tenant_of
from penstock.gateway.settings import ClientKey
from penstock.protocol.request import CreateResponse
from penstock.store.reasoning_memory import FunctionRunner, ReasoningSource, restore_reasoning
from penstock.store.records import StoredItem

_PATIENCE = 1.0
"""Seconds that a request which is not stored waits for the reasoning in the store."""

T = TypeVar("T")


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
    store: ReasoningSource = gateway.store
    if request.store is False:
        store = _OptionalStore(store, is_away=gateway.store.is_unavailable)
    reasoning = gateway.reasoning, store
    resolved = await resolve(gateway.store, tenant, request, local, reasoning, weight)
    run: FunctionRunner = partial(run_heavy, resolved.weight)
    expanded, diagnostics = await run(expand, resolved.request, gateway.sealer, tenant, resolved.before)
    if isinstance(expanded.input, list):
        items = await restore_reasoning(reasoning, tenant, expanded.input, run)
        expanded = replace(expanded, input=items)
    return replace(resolved, request=expanded, diagnostics=tuple(diagnostics))


class _OptionalStore:
    """The reasoning in a store that a request can do without (decision 34). The store may be away before the
    gateway has noticed: from the first failure on, nothing is found."""

    def __init__(self, store: ReasoningSource, *, is_away: bool) -> None:
        self._store, self._is_away = store, is_away

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        return {} if self._is_away else await self._found(self._store.recall(tenant, keys))

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        return {} if self._is_away else await self._found(self._store.items(tenant, ids))

    async def _found(self, search: Awaitable[dict[str, T]]) -> dict[str, T]:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await search
        except (StoreError, TimeoutError):
            self._is_away = True
            return {}
