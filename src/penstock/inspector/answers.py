"""Answers of the inspector's API: JSON that no browser interprets as anything else, and no cache keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from penstock.errors import PenstockError
from penstock.fairness import HEAVY, WorkSlice, run_heavy
from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import JSON, Exchange
from penstock.gateway.http.paging import number
from penstock.protocol.large_json import encode_stepwise

T = TypeVar("T")

HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
)
PIECE = 256 * 1024
"""Bytes of a large answer that are written at once."""
_LARGEST = 2**53


Runner = Callable[[int, Callable[[], bytes]], Awaitable[bytes]]
"""Calls a function of some weight in a thread. See `fairness.run_heavy`."""


class Abandoned(PenstockError):  # noqa: N818 - never leaves this package
    """Nobody waits for the result of some work any more."""


class Desk:
    """Where heavy answers are made, one after the other: of the few threads for heavy work, the inspector
    takes only one, so that the gateway's own requests do not wait for it."""

    def __init__(self, run: Runner = run_heavy) -> None:
        self._free = asyncio.Semaphore(1)
        self._run = run

    async def answer(self, exchange: Exchange, weight: int, make: Callable[[], Any]) -> None:
        """Send what `make` returns, as JSON. From a certain weight on, `make` runs in a thread."""
        if weight < HEAVY:
            await send(exchange, encode_stepwise(make()))
            return

        def work() -> bytes:
            if not exchange.channel.is_connected:  # it has waited for a thread
                raise Abandoned
            return encode_stepwise(make())

        try:
            await self._wait_until_free(exchange)
            try:
                body = await self._run(weight, work)
            finally:
                self._free.release()
        except Abandoned:
            raise ClientDisconnected from None
        finally:
            exchange.channel.on_disconnect(None)
        await send(exchange, body)

    async def _wait_until_free(self, exchange: Exchange) -> None:
        """Take the desk; raise `Abandoned` if the client disconnects before that: what it has sent should not
        be kept any longer."""
        taking = asyncio.ensure_future(self._free.acquire())
        exchange.channel.on_disconnect(
            lambda: _cancel(taking)
        )  # an ASGI server reports only to those who ask
        try:
            await taking
        except asyncio.CancelledError:
            if taking.cancelled() and not exchange.channel.is_connected:
                raise Abandoned from None
            if not taking.cancelled():
                self._free.release()
            raise


def _cancel(task: asyncio.Future[Any]) -> None:
    task.cancel()


_desks: WeakKeyDictionary[Gateway, Desk] = WeakKeyDictionary()


def desk_of(gateway: Gateway) -> Desk:
    """Return the desk of a gateway for what is stored."""
    return _desks.setdefault(gateway, Desk())


async def answer(exchange: Exchange, value: Any) -> None:
    """Send a value as JSON."""
    await send(exchange, encode_stepwise(value))


async def send(exchange: Exchange, body: bytes) -> None:
    """Send JSON: much of it in pieces, as the client reads."""
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


def while_connected(exchange: Exchange | None, items: Iterable[T]) -> Iterator[T]:
    """Yield the items of some work in a thread; raise `Abandoned` once the client has disconnected."""
    for item in items:
        if exchange is not None and not exchange.channel.is_connected:
            raise Abandoned
        yield item


def whole_number(exchange: Exchange, name: str, otherwise: int, *, least: int, most: int = _LARGEST) -> int:
    """Return a number of the query."""
    text = exchange.query.get(name)
    if text is None:
        return otherwise
    found = -1 if text == "-1" else number(text, least - 1)
    if not least <= found <= most:
        raise invalid(name, f"must be a number from {least} to {most}")
    return found


def choice(exchange: Exchange, name: str, *choices: str) -> str:
    """Return one of these values of the query; the first one without any."""
    found = exchange.query.get(name, choices[0])
    if found not in choices:
        raise invalid(name, f"must be one of {', '.join(choices)}")
    return found


def invalid(name: str, problem: str) -> RequestRefused:
    return RequestRefused(400, "invalid_request", f"{name} {problem}", param=name)
