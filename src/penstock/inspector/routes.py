"""The routes of the inspector: the page at `/`, its files, and the API that they use."""

from __future__ import annotations

from typing import Any

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.routes import Handler, Route, Routes
from penstock.gateway.settings import ClientKey
from penstock.inspector import content, logged_events, page_files, session, turn_report
from penstock.inspector.feed import Feed

_API = "inspector/api"


def inspector_routes() -> Routes:
    """Return the routes for one gateway. With the inspector switched off, `/` is JSON and the rest a 404."""
    return {
        "": {"GET": Route(page_files.show_start, is_open=True)},
        f"{_API}/session": _get(session.show_session),
        f"{_API}/feed": _get(Feed().follow),
        f"{_API}/turns/{{turn_id}}": _get(turn_report.show_turn),
        f"{_API}/turns/{{turn_id}}/content": _get(content.show_content),
        f"{_API}/turns/{{turn_id}}/events": _get(logged_events.list_events),
        "inspector/{file...}": {"GET": Route(_unless_off(page_files.show_file), is_open=True)},
    }


def _get(handler: Handler) -> dict[str, Route]:
    return {"GET": Route(_unless_off(handler))}


def _unless_off(handler: Handler) -> Handler:
    async def handle(gateway: Gateway, exchange: Exchange, key: ClientKey | None, **params: Any) -> None:
        if not gateway.services.settings.inspector:
            message = "the inspector is switched off: server.inspector is false in this gateway's settings"
            raise RequestRefused(404, "not_found", message, type="not_found")
        await handler(gateway, exchange, key, **params)

    return handle
