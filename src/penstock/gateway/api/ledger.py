"""`GET /v1/turns` and `GET /v1/usage`: the ledger. A client sees its own turns, an administrator all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import sees_all, tenant_of
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.http.paging import number
from penstock.gateway.settings import ClientKey
from penstock.store.ledger import DIMENSIONS, Dimension, TurnFilter, position_of

MOST = 500
"""Turns of one page."""

FILTERS = ("since", "until", "key", "model", "target", "outcome", "search")
_LATEST = 253_402_300_800.0
"""Seconds since 1970 in the year 10000, which no time may reach."""


async def list_turns(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    query = exchange.query
    check_names(query, (*FILTERS, "after", "limit"))
    limit = number(query.get("limit", "50"), 0)
    if not 1 <= limit <= MOST:
        raise _invalid("limit", f"must be a number from 1 to {MOST}")
    after = query.get("after", "")
    if after:
        try:
            position_of(after)
        except ValueError as error:
            raise _invalid("after", f"is not valid: {error}") from None
    page = await gateway.store.turns(turn_filter(query, key), after=after, limit=limit)
    body = {"object": "list", "data": page.turns, "has_more": bool(page.next), "next": page.next or None}
    exchange.answer(200, msgspec.json.encode(body))


async def show_usage(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    query = exchange.query
    check_names(query, (*FILTERS, "by"))
    dimensions = _dimensions(query.get("by", ""))
    totals = await gateway.store.totals(turn_filter(query, key), dimensions)
    exchange.answer(200, msgspec.json.encode({"object": "list", "by": dimensions, "data": totals}))


def turn_filter(query: Mapping[str, str], key: ClientKey | None) -> TurnFilter:
    """Return which turns a client asks for; raise `RequestRefused` if it may not see them."""
    tenant = query.get("key") or None
    if not sees_all(key):
        if tenant not in (None, tenant_of(key)):
            message = "only an administrator's key may see the turns of another key: remove `key`"
            raise RequestRefused(403, "permission_denied", message, param="key")
        tenant = tenant_of(key)
    return TurnFilter(
        tenant=tenant,
        since=_time(query, "since") or 0.0,
        until=_time(query, "until"),
        model=query.get("model", ""),
        target=query.get("target", ""),
        outcome=query.get("outcome", ""),
        search=query.get("search", ""),
    )


def _time(query: Mapping[str, str], name: str) -> float | None:
    """Return seconds since 1970, from such a number or a date; without a time zone it is UTC."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        moment = float(text)
    except ValueError:
        try:
            date = datetime.fromisoformat(text)
            moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            moment = math.nan
    if not 0 <= moment < _LATEST:
        raise _invalid(name, "must be a date such as 2026-01-31T12:00, or seconds since 1970")
    return moment


def _dimensions(text: str) -> tuple[Dimension, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < len(names) or any(name not in DIMENSIONS for name in names):
        raise _invalid("by", f"must be some of {', '.join(DIMENSIONS)}, separated by commas")
    return tuple(each for name in names for each in DIMENSIONS if each == name)


def check_names(query: Mapping[str, str], known: tuple[str, ...]) -> None:
    """A misspelt filter must not return everything."""
    for name in query:
        if name not in known:
            choices = f"use {', '.join(known)}" if known else "there are none"
            raise _invalid(name[:40], f"is not a parameter here; {choices}")


def _invalid(name: str, problem: str) -> RequestRefused:
    return RequestRefused(400, "invalid_request", f"{name} {problem}", param=name)
