"""Background turns (`background: true`): they continue without their client, but not without the process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

from penstock.errors import StoreError
from penstock.gateway.api.retrieve import accented, stream_response
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import ClientRequest, Exchange
from penstock.gateway.refusals import refusal_for
from penstock.gateway.turn.outlets import LiveOutlet
from penstock.gateway.turn.prepare import Prepared
from penstock.gateway.turn.run import admit_turn, leave_turn, refuse_turn, run_turn
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN, TAKEN_OVER
from penstock.gateway.turn.turn import Turn
from penstock.protocol.events import Event
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.stream.accents import ACCENTS


class LogOutlet(LiveOutlet):
    """Writes the events of a turn to the store's log only; clients read them from there."""

    def __init__(self, prepared: Prepared) -> None:
        super().__init__(ACCENTS[prepared.accent](), prepared.keeper, prepared.verdict, None)

    def comment(self) -> None:
        """Send nothing: clients that read the log get their own heartbeats."""
        self.last_write = self._clock()

    def refuse(self, refused: RequestRefused) -> None:
        """Never called: the response was already sent when the turn was queued."""
        raise AssertionError(refused.code)

    def _transmit(self, events: Sequence[Event], encoded: Sequence[bytes], more: bool = False) -> None:
        """Never called: this outlet has no client."""

    async def _send_large(self, event: Event) -> None:
        """Never called."""


async def answer_later(gateway: Gateway, exchange: Exchange, prepared: Prepared) -> None:
    """Start a turn, and respond as soon as it is stored: with the queued response, or with its stream."""
    if not prepared.machine.snapshot.store:
        message = "a background response must be stored: remove `store: false` or `background`"
        raise RequestRefused(400, "invalid_request", message, param="store")
    accepted: asyncio.Future[Response | RequestRefused] = asyncio.get_running_loop().create_future()
    gateway.run_in_background(_run(gateway, prepared, exchange, accepted))
    queued = await asyncio.shield(accepted)
    if isinstance(queued, RequestRefused):
        exchange.refuse(queued)
    elif prepared.verdict.stream:
        await stream_response(gateway, exchange, prepared.turn.tenant, queued, -1, prepared.accent)
    else:
        exchange.answer(200, encode(accented(queued, prepared.accent)))


async def _run(
    gateway: Gateway,
    prepared: Prepared,
    exchange: Exchange,
    accepted: asyncio.Future[Response | RequestRefused],
) -> None:
    try:
        await admit_turn(gateway, prepared, exchange)
    except Exception as error:
        accepted.set_result(refusal_for(error, exchange.request_id))
        return
    try:
        await prepared.keeper.keep(prepared.machine.start(queued=True))
    except Exception as error:
        # A turn that cannot be stored is refused: after a crash it would be lost without a trace.
        refused = refusal_for(error, exchange.request_id)
        refuse_turn(gateway, prepared, refused)
        accepted.set_result(refused)
        return
    accepted.set_result(prepared.machine.snapshot)
    await run_accepted(gateway, prepared, exchange)


class Start(Enum):
    """Whether this worker runs a turn."""

    OURS = "ours"
    LOST = "lost"
    """Another worker has taken it over."""
    LEFT = "left"
    """This worker stops, and another one starts it."""


async def run_accepted(gateway: Gateway, prepared: Prepared, exchange: ClientRequest) -> None:
    """Run a turn that is in the store and in the ledger. Before its upstream is called, the store must know
    that it will be: if this worker dies, the turn must not be started again (decision 33)."""
    start = Start.LOST
    try:
        start = await _start(gateway, prepared.turn)
    finally:
        if start is Start.LOST:
            prepared.turn.stop(TAKEN_OVER)
        if start is Start.LEFT:
            leave_turn(gateway, prepared)
        else:
            await run_turn(gateway, prepared, LogOutlet(prepared), exchange)


async def _start(gateway: Gateway, turn: Turn) -> Start:
    """Record the start of a turn, and wait for the store if it cannot be reached. A worker that stops starts
    nothing more, unless nobody else can. A turn that was stopped calls no upstream."""
    while True:
        is_wanted = turn.stopped in (None, SHUTTING_DOWN)
        if gateway.is_draining and is_wanted and await gateway.store.hand_over(turn.id):
            return Start.LEFT
        if turn.stopped is not None:
            return Start.OURS
        with suppress(StoreError):
            return Start.OURS if await gateway.store.start(turn.id) else Start.LOST
        await asyncio.sleep(_RETRY)


_RETRY = 1.0
"""Seconds between attempts to record a start."""
