"""Find a turn for a client, with all that the client may see of it.

A client sees the turns of its own key. An administrator's key also sees the ledger's records of the others,
which have no content. Of a turn that a client may not see, it does not learn whether it exists (ask K1).
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable
from typing import TypeVar

import msgspec
from msgspec import Struct

from penstock.explain.account import Account, account_of, account_of_record
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import sees_all, tenant_of
from penstock.gateway.settings import ClientKey
from penstock.store.contract import Store
from penstock.store.ledger import TurnFilter, TurnRecord

T = TypeVar("T")


class FoundTurn(Struct, frozen=True):
    account: Account
    is_own: bool
    """Whether it belongs to the client. If not, the account has no content."""
    next: tuple[str, ...] = ()
    """The responses that continue it."""
    unreadable: tuple[str, ...] = ()
    """`events` or `traces`, whose rows in the store are damaged."""


async def find_turn(gateway: Gateway, key: ClientKey | None, id: str) -> FoundTurn:
    """Return a turn with its log and traces; raise `RequestRefused` (404) if this client has none."""
    store, tenant = gateway.store, tenant_of(key)
    stored = await store.get(tenant, id)
    if stored is not None:
        record = await _record(store, id, tenant)
        events = await _readable(store.events_so_far(tenant, id))
        traces = await _readable(store.traces(tenant, id))
        following = await store.continuations(tenant, id)
        unreadable = [name for name, rows in (("events", events), ("traces", traces)) if rows is None]
        account = account_of(stored, events or [], traces or [], record)
        return FoundTurn(account, True, tuple(following), tuple(unreadable))
    record = await _record(store, id, None if sees_all(key) else tenant)
    if record is None:
        raise _unknown(id)
    is_own = record.tenant == tenant
    return FoundTurn(account_of_record(record, is_hidden=not is_own), is_own)


async def find_content(gateway: Gateway, key: ClientKey | None, id: str) -> Account:
    """Return a turn of this client that is stored; raise `RequestRefused` if it has no content for it."""
    found = await find_turn(gateway, key, id)
    if not found.is_own:
        message = "this turn belongs to another key: an administrator sees its record, but not its content"
        raise RequestRefused(403, "permission_denied", message)
    if not found.account.is_stored:
        message = "of this turn, only the record in the ledger is there: its content is not stored"
        raise RequestRefused(404, "response_not_found", message, type="not_found")
    return found.account


async def _readable(reading: Awaitable[list[T]]) -> list[T] | None:
    """Return rows of the store; None if they are damaged."""
    try:
        return await reading
    except (zlib.error, msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None


async def _record(store: Store, id: str, tenant: str | None) -> TurnRecord | None:
    """Return the record of a turn in the ledger."""
    page = await store.turns(TurnFilter(tenant=tenant, id=id), limit=1)
    return page.turns[0] if page.turns else None


def _unknown(id: str) -> RequestRefused:
    message = f"there is no turn {id[:64]!r}, or it is no longer in the ledger"
    return RequestRefused(404, "response_not_found", message, type="not_found")
