"""`GET inspector/api/session`: what the page must know before it asks for anything else."""

from __future__ import annotations

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import sees_all, tenant_of
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.storage import NONE
from penstock.inspector.answers import answer
from penstock.version import VERSION


async def show_session(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    settings = gateway.services.settings
    session = {
        "version": VERSION,
        "tenant": tenant_of(key),
        "is_administrator": sees_all(key),
        "needs_key": bool(settings.keys),
        "is_recording": settings.record,
        "retention": _retention(settings.limits) if settings.store != NONE else None,
        "now": gateway.clock(),
    }
    await answer(exchange, session)


def _retention(limits: Limits) -> dict[str, int]:
    """Return for how long turns are kept. A store in memory keeps them only as long as there is room."""
    return {
        "store_days": limits.store_days,
        "store_bytes": limits.store_bytes,
        "ledger_days": limits.ledger_days,
    }
