"""Answers of the inspector's API: JSON that no browser interprets as anything else, and no cache keeps."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.fairness import WorkSlice
from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import JSON, Exchange
from penstock.gateway.http.paging import number

HEADERS = (("x-content-type-options", "nosniff"), ("cache-control", "no-store"))
PIECE = 256 * 1024
"""Bytes of a large answer that are written at once."""


async def answer(exchange: Exchange, value: Any) -> None:
    """Send a value as JSON: a large one in pieces, as the client reads."""
    body = msgspec.json.encode(value)
    if len(body) <= PIECE or exchange.method == "HEAD":
        exchange.answer(200, body, headers=HEADERS)
        return
    work = WorkSlice()
    exchange.begin(200, [("content-type", JSON), ("content-length", str(len(body))), *HEADERS])
    try:
        for begin in range(0, len(body), PIECE):
            exchange.channel.write(body[begin : begin + PIECE])
            await exchange.drain()
            await work.pause()
    except TimeoutError:
        exchange.abort()
    else:
        exchange.channel.end()


def whole_number(exchange: Exchange, name: str, otherwise: int, least: int, most: int) -> int:
    """Return a number of the query."""
    text = exchange.query.get(name)
    if text is None:
        return otherwise
    found = -1 if text == "-1" else number(text, least - 1)
    if not least <= found <= most:
        message = f"{name} must be a number from {least} to {most}"
        raise RequestRefused(400, "invalid_request", message, param=name)
    return found
