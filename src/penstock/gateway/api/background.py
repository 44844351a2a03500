"""Turns that nobody waits for: `background: true`. They survive their client, and not the process."""

from __future__ import annotations

import asyncio

from penstock.errors import StoreError
from penstock.gateway.api.retrieve import stream_response
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.refusals import refused_by
from penstock.gateway.settings import ClientKey
from penstock.gateway.turn.outlets import LiveOutlet
from penstock.gateway.turn.prepare import Prepared
from penstock.gateway.turn.run import close_turn, run_turn
from penstock.gateway.turn.verdict import conclude
from penstock.protocol.events import Event
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.stream.accents import ACCENTS


class LogOutlet(LiveOutlet):
    """Nobody reads here: what a turn says goes to the store's log, and clients read it there."""

    def __init__(self, prepared: Prepared) -> None:
        accent = ACCENTS[prepared.accent]()
        super().__init__(accent, prepared.keeper, prepared.verdict, prepared.watch)
        self.leave()

    async def _deliver(self, events: list[Event], *, is_large: bool) -> None:
        """Never called: it was left from the beginning."""

    async def _resume(self) -> None:
        """Nothing is ever sent."""

    async def comment(self) -> None:
        """Those who read the log have their own."""
        self.last_write = self._clock()

    async def refuse(self, refused: RequestRefused) -> None:
        """The turn has begun before it was run: there is no status left to answer with."""
        raise AssertionError(refused.code)


async def answer_later(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, prepared: Prepared
) -> None:
    """Begin a turn and answer as soon as it is durable: with its queued response, or with its stream."""
    if not prepared.machine.snapshot.store:
        message = "what runs in the background must be stored: leave `store` out, or `background`"
        raise RequestRefused(400, "invalid_request", message, param="store")
    accepted: asyncio.Future[Response | RequestRefused] = asyncio.get_running_loop().create_future()
    gateway.run_in_background(_run(gateway, prepared, exchange, accepted))
    queued = await asyncio.shield(accepted)
    if isinstance(queued, RequestRefused):
        await exchange.refuse(queued)
    elif prepared.verdict.stream:
        await stream_response(gateway, exchange, key, prepared.turn.tenant, prepared.turn.id, -1)
    else:
        await exchange.answer(200, encode(queued))


async def _run(
    gateway: Gateway,
    prepared: Prepared,
    exchange: Exchange,
    accepted: asyncio.Future[Response | RequestRefused],
) -> None:
    gateway.turns.add(prepared.turn, exchange, prepared.services)
    try:
        await prepared.keeper.keep(prepared.machine.start(queued=True))
    except StoreError as error:
        # What is not in the file is not accepted: after a crash nobody would know of it.
        refused = refused_by(error, exchange.request_id)
        _refuse(gateway, prepared, refused)
        accepted.set_result(refused)
        return
    accepted.set_result(prepared.machine.snapshot)
    await run_turn(gateway, prepared, LogOutlet(prepared), exchange)


def _refuse(gateway: Gateway, prepared: Prepared, refused: RequestRefused) -> None:
    verdict = prepared.verdict
    verdict.outcome, verdict.closer = "refused", "gateway"
    verdict.status, verdict.code = refused.status, refused.code
    conclude(verdict, prepared.machine.snapshot, prepared.watch)
    close_turn(gateway, prepared)
