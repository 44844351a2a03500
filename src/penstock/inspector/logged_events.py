"""`GET inspector/api/turns/{id}/events`: the events of a turn as they are in its log, page by page."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import desk_of, whole_number
from penstock.inspector.lookup import find_content
from penstock.store.records import LoggedEvent

MOST = 1000
MOST_BYTES = 16 * 1024 * 1024
"""A page has at least one event, but no further ones beyond this size."""


async def list_events(gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, turn_id: str) -> None:
    after = whole_number(exchange, "after", -1, least=-1)
    limit = whole_number(exchange, "limit", 200, least=1, most=MOST)
    account = await find_content(gateway, key, turn_id)
    log = account.events
    first = bisect_right(log, after, key=lambda event: event.sequence)
    page = _fitting(log[first : first + limit])
    has_more = first + len(page) < len(log)
    await desk_of(gateway).answer(
        exchange,
        sum(len(event.data) for event in page),
        lambda: {"data": _shown(page, account.begin), "has_more": has_more},
    )


def _fitting(events: list[LoggedEvent]) -> list[LoggedEvent]:
    size = 0
    for count, event in enumerate(events):
        size += len(event.data)
        if count and size > MOST_BYTES:
            return events[:count]
    return events


def _shown(events: list[LoggedEvent], begin: float) -> list[dict[str, Any]]:
    return [
        {
            "sequence_number": event.sequence,
            "at_ms": round((event.time - begin) * 1000, 3),
            "event": json_or_none(event.data),
        }
        for event in events
    ]


def json_or_none(data: bytes | msgspec.Raw) -> Any:
    """Return what JSON in the store contains; None if it cannot be read."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
