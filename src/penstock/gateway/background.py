"""Turns that nobody waits for: `background: true`. They survive their client, and not the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.gateway.errors import RequestRefused
from penstock.gateway.exchange import Exchange
from penstock.gateway.logs import log_verdict
from penstock.gateway.responses import Prepared
from penstock.gateway.stored import stream_response
from penstock.gateway.verdict import Verdict
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.wire import encode
from penstock.store.keeping import Keeper

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway
    from penstock.gateway.services import Services
    from penstock.gateway.settings import ClientKey


class KeptOutlet:
    """Nobody reads here: what a turn says is only kept, and whoever wants it reads it there."""

    def __init__(self, keeper: Keeper, verdict: Verdict) -> None:
        self._keeper, self._verdict = keeper, verdict

    async def write(self, events: Sequence[Event]) -> None:
        if events:
            await self._keeper.keep(events)
            self._verdict.last_event = events[-1].type
            self._verdict.last_sequence = events[-1].sequence_number
            self._verdict.terminal_sent = events[-1].type in TERMINAL

    async def keep(self, events: Sequence[Event]) -> None:
        await self.write(events)

    async def refuse(self, refused: RequestRefused) -> None:
        """The turn has begun before it was run: there is no status left to answer with."""
        raise AssertionError(refused.code)


async def answer_later(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, prepared: Prepared
) -> None:
    """Begin a turn and answer at once: with its queued response, or with its stream."""
    if not prepared.machine.snapshot.store:
        message = "what runs in the background must be stored: leave `store` out, or `background`"
        raise RequestRefused(400, "invalid_request", message, param="store")
    services, turn = gateway.services, prepared.turn
    services.begin(turn, exchange)
    await prepared.keeper.keep(prepared.machine.start(queued=True))
    queued = prepared.machine.snapshot
    gateway.run_beside(_run(services, prepared))
    if prepared.verdict.stream:
        await stream_response(gateway, exchange, key, turn.tenant, turn.id, -1)
    else:
        await exchange.answer(200, encode(queued))


async def _run(services: Services, prepared: Prepared) -> None:
    verdict = prepared.verdict
    outlet = KeptOutlet(prepared.keeper, verdict)
    try:
        await outlet.write(prepared.machine.begin())
        await prepared.turn.run(outlet)
    finally:
        services.end(prepared.turn, verdict)
        log_verdict(verdict)
