"""The routes of the inspector: the page at `/`, its files, and the API that they use."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.routes import Handler, Route, Routes
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import Desk
from penstock.inspector.check import check_file, translate_file
from penstock.inspector.connections import show_clients
from penstock.inspector.content import show_content
from penstock.inspector.editor_parts import show_parts
from penstock.inspector.feed import Feed
from penstock.inspector.logged_events import list_events
from penstock.inspector.page_files import show_file, show_start
from penstock.inspector.replays import replay_turn
from penstock.inspector.session import show_session
from penstock.inspector.turn_report import show_turn

_API = "inspector/api"
_TURN = f"{_API}/turns/{{turn_id}}"


def inspector_routes() -> Routes:
    """Return the routes for one gateway. With the inspector switched off, `/` is JSON and the rest a 404."""
    desk = Desk()
    handlers: dict[str, dict[str, Handler]] = {
        f"{_API}/session": {"GET": show_session},
        f"{_API}/feed": {"GET": Feed().follow},
        _TURN: {"GET": partial(show_turn, desk)},
        f"{_TURN}/content": {"GET": partial(show_content, desk)},
        f"{_TURN}/events": {"GET": partial(list_events, desk)},
        f"{_TURN}/parts": {"GET": partial(show_parts, desk)},
        f"{_TURN}/replay": {"POST": partial(replay_turn, desk)},
        f"{_API}/connect": {"GET": show_clients},
        f"{_API}/check": {"POST": partial(check_file, desk)},
        f"{_API}/translate": {"POST": partial(translate_file, desk)},
    }
    return {
        "": {"GET": Route(show_start, is_open=True)},
        **{
            path: {method: Route(_unless_off(handler)) for method, handler in methods.items()}
            for path, methods in handlers.items()
        },
        "inspector/{file...}": {"GET": Route(_unless_off(show_file), is_open=True)},
    }


def _unless_off(handler: Handler) -> Handler:
    async def handle(gateway: Gateway, exchange: Exchange, key: ClientKey | None, **params: Any) -> None:
        if not gateway.services.settings.inspector:
            message = "the inspector is switched off: server.inspector is false in this gateway's settings"
            raise RequestRefused(404, "not_found", message, type="not_found")
        await handler(gateway, exchange, key, **params)

    return handle
