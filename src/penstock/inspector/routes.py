"""The routes of the inspector: the page at `/`, its files, and the API that they use.

A module of the API is imported when it is used first: most gateways are started by programs, and a page that
nobody opens costs no time.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from penstock.gateway.api.ledger import FILTERS, check_names
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.routes import Handler, Route, Routes
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import HEADERS
from penstock.inspector.page_files import show_file, show_start

_HANDLERS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "session": ("GET", "session", "show_session", ()),
    "feed": ("GET", "feed", "follow", ("since",)),
    "turns/{turn_id}": ("GET", "turn_report", "show_turn", ("events_after",)),
    "turns/{turn_id}/content": ("GET", "content", "show_content", ()),
    "turns/{turn_id}/events": ("GET", "logged_events", "list_events", ("after", "limit")),
    "turns/{turn_id}/parts": ("GET", "editor_parts", "show_parts", ("thinking",)),
    "turns/{turn_id}/replay": ("POST", "replays", "replay_turn", ()),
    "threads": ("GET", "threads", "list_threads", ("after", "limit")),
    "threads/{thread_id}": ("GET", "threads", "show_thread", ()),
    "dashboard": ("GET", "dashboard", "show_dashboard", (*FILTERS, "by", "bucket")),
    "connect": ("GET", "connections", "show_clients", ("base_url", "model")),
    "rules": ("GET", "rules", "list_rules", ()),
    "check": ("POST", "check", "check_file", ("accent",)),
    "translate": ("POST", "check", "translate_file", ("accent", "dialect")),
}
"""By path: the method, the module and the name of the handler, and its parameters in the query."""

_ELSEWHERE = ("cross-site", "same-site")
"""What browsers say in `Sec-Fetch-Site` about requests of pages of other origins."""


def inspector_routes() -> Routes:
    """Return the routes. With the inspector switched off, `/` is JSON and the rest a 404."""
    return {
        "": {"GET": Route(show_start, is_open=True)},
        **{
            f"inspector/api/{path}": {
                method: Route(
                    _unless_off(_for_this_page(_checked(names, _imported_later(module, name)))),
                    error_headers=HEADERS,
                )
            }
            for path, (method, module, name, names) in _HANDLERS.items()
        },
        "inspector/{file...}": {"GET": Route(_unless_off(show_file), is_open=True, error_headers=HEADERS)},
    }


def _unless_off(handler: Handler) -> Handler:
    async def handle(gateway: Gateway, exchange: Exchange, key: ClientKey | None, **params: Any) -> None:
        if not gateway.services.settings.inspector:
            message = "the inspector is switched off: server.inspector is false in this gateway's settings"
            raise RequestRefused(404, "not_found", message, type="not_found")
        await handler(gateway, exchange, key, **params)

    return handle


def _for_this_page(handler: Handler) -> Handler:
    """Refuse what another page embeds, for example as an image: such requests have no `Origin`. That page
    could not read the answer, but without keys it could occupy the gateway."""

    async def handle(gateway: Gateway, exchange: Exchange, key: ClientKey | None, **params: Any) -> None:
        headers = exchange.headers
        if headers.get("sec-fetch-site") in _ELSEWHERE and "origin" not in headers:
            raise RequestRefused(403, "permission_denied", "only the inspector's own page may use its API")
        await handler(gateway, exchange, key, **params)

    return handle


def _checked(names: tuple[str, ...], handler: Handler) -> Handler:
    """Refuse parameters that the handler does not have: a misspelt one must not be ignored."""

    async def handle(gateway: Gateway, exchange: Exchange, key: ClientKey | None, **params: Any) -> None:
        check_names(exchange.query, names)
        await handler(gateway, exchange, key, **params)

    return handle


def _imported_later(module: str, name: str) -> Handler:
    handler: Handler | None = None

    async def handle(gateway: Gateway, exchange: Exchange, key: ClientKey | None, **params: Any) -> None:
        nonlocal handler
        if handler is None:  # in a thread, because running streams must not wait for it
            found = await asyncio.to_thread(import_module, f"{__package__}.{module}")
            handler = getattr(found, name)
        assert handler is not None
        await handler(gateway, exchange, key, **params)

    return handle
