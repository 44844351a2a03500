"""The only runner: streamed, JSON, WebSocket, background and compaction turns differ only in their outlet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import ClientRequest
from penstock.gateway.refusals import refusal, refusal_for
from penstock.gateway.telemetry.logs import log, log_fault, log_verdict
from penstock.gateway.turn.heartbeats import Heartbeats
from penstock.gateway.turn.outlets import LiveOutlet, Outlet
from penstock.gateway.turn.prepare import Prepared
from penstock.gateway.turn.stop_reasons import (
    CLIENT_DISCONNECTED,
    CLIENT_STALLED,
    SHUTTING_DOWN,
    StopReason,
)
from penstock.gateway.turn.verdict import conclude

OnDisconnect = Callable[[Callable[[], None] | None], None]
"""Sets the function that is called when the client disconnects."""


async def run_turn(
    gateway: Gateway,
    prepared: Prepared,
    outlet: Outlet,
    exchange: ClientRequest,
    on_disconnect: OnDisconnect | None = None,
) -> None:
    """Run a turn to its end, whatever the upstream and the client do. Without `on_disconnect`, the turn was
    queued, and no client waits for it. Raise `RequestRefused`, before anything is sent, if the client's key
    may not run it now."""
    turn, heartbeats = prepared.turn, None
    await admit_turn(gateway, prepared, exchange)
    watch = ClientWatch(gateway, prepared, outlet, exchange)
    if isinstance(outlet, LiveOutlet):
        heartbeats = Heartbeats(
            turn,
            outlet,
            prepared.limits,
            prepared.verdict,
            on_stalled=watch.stalled,
            clock=asyncio.get_running_loop().time,
            timers=gateway.timers,
        )
        heartbeats.start()
    try:
        if on_disconnect is not None:
            on_disconnect(watch.disconnected)
        else:
            outlet.write(prepared.machine.begin())
        await turn.run(outlet)
    finally:
        if heartbeats is not None:
            heartbeats.stop()
        if on_disconnect is not None:
            on_disconnect(None)
        try:
            await watch.end()
        finally:
            close_turn(gateway, prepared)


async def admit_turn(gateway: Gateway, prepared: Prepared, exchange: ClientRequest) -> None:
    """Count a turn as running and open its record in the ledger, unless that was done before; raise
    `RequestRefused` if the client's key may not run it now. `close_turn` must follow."""
    gateway.turns.add(prepared.turn, exchange, prepared.services)
    try:
        await prepared.admission.admit()
    except BaseException as error:
        if not prepared.admission.is_open:
            gateway.turns.remove(prepared.turn)
            if isinstance(error, RequestRefused):
                _conclude_refused(prepared, error)
                _export(gateway, prepared, None, is_counted=False)
        elif isinstance(error, Exception):
            refuse_turn(gateway, prepared, refusal_for(error, exchange.request_id))
        else:
            refuse_turn(gateway, prepared, refusal(SHUTTING_DOWN.code, SHUTTING_DOWN.message))
        raise


def refuse_turn(gateway: Gateway, prepared: Prepared, refused: RequestRefused) -> None:
    """Close a turn that has a record in the ledger, and will not run."""
    _conclude_refused(prepared, refused)
    close_turn(gateway, prepared)


def _conclude_refused(prepared: Prepared, refused: RequestRefused) -> None:
    verdict = prepared.verdict
    verdict.outcome, verdict.closer = "refused", "gateway"
    verdict.status, verdict.code = refused.status, refused.code
    conclude(verdict, prepared.machine.snapshot, prepared.watch)


def leave_turn(gateway: Gateway, prepared: Prepared) -> None:
    """Remove a turn that another worker will start. Its record in the ledger stays open until then."""
    gateway.turns.remove(prepared.turn)
    fields = {"event": "store", "code": "handed_over", "response_id": prepared.turn.id}
    log.info("a background response that had not started is left to another worker", extra={"fields": fields})


def close_turn(gateway: Gateway, prepared: Prepared) -> None:
    """Remove, settle, count, log and export a turn that has ended; its verdict is complete."""
    gateway.turns.remove(prepared.turn)
    cost = prepared.admission.settle(prepared.verdict)
    prepared.services.count_turn(prepared.verdict, cost)
    log_verdict(prepared.verdict)
    _export(gateway, prepared, cost)


def _export(gateway: Gateway, prepared: Prepared, cost: float | None, *, is_counted: bool = True) -> None:
    """Export the spans and the metrics of a turn, if that is turned on. Nothing is waited for."""
    if prepared.trace is None or gateway.telemetry is None:
        return
    gateway.telemetry.end(
        prepared.trace,
        prepared.verdict,
        prepared.machine.snapshot,
        cost=cost,
        is_public=prepared.services.is_public(prepared.verdict.model),
        is_counted=is_counted,
    )


class ClientWatch:
    """Ends a turn when its client disconnects (ask F1) or reads nothing for too long."""

    __slots__ = ("_exchange", "_gateway", "_is_over", "_outlet", "_prepared", "_waiting")

    def __init__(self, gateway: Gateway, prepared: Prepared, outlet: Outlet, exchange: ClientRequest) -> None:
        self._gateway, self._prepared = gateway, prepared
        self._outlet, self._exchange = outlet, exchange
        self._is_over = False
        self._waiting: asyncio.Task[None] | None = None
        """Waits for the client to reconnect."""

    def disconnected(self) -> None:
        self._leave(CLIENT_DISCONNECTED)

    def stalled(self) -> None:
        self._leave(CLIENT_STALLED)

    async def end(self) -> None:
        """Stop watching: the turn has ended."""
        self._is_over = True
        if self._waiting is not None:
            self._waiting.cancel()
            [fault] = await asyncio.gather(self._waiting, return_exceptions=True)
            if isinstance(fault, Exception):
                log_fault(fault, self._prepared.verdict.request_id)

    def _leave(self, why: StopReason) -> None:
        """Stop the turn. If its response is stored and the client knows the id, wait first: the client may
        reconnect within `disconnect_grace` (decision 16). A client that has sent its request again under the
        same idempotency key already follows the turn, which then runs on (decision 32)."""
        if self._is_over:
            return
        self._is_over = True
        turn, verdict, outlet = self._prepared.turn, self._prepared.verdict, self._outlet
        grace, followers = self._prepared.limits.disconnect_grace, self._gateway.followers
        is_followed = self._prepared.has_key and followers.is_followed((turn.tenant, turn.id))
        may_continue = is_followed or (grace and turn.snapshot.store)
        if may_continue and verdict.last_event and isinstance(outlet, LiveOutlet):
            verdict.left = True
            outlet.mark_disconnected()
            self._exchange.abort()  # nothing waits for the disconnected client any more
            self._waiting = asyncio.create_task(self._stop_when_unfollowed(grace))
            return
        turn.stop(why)
        if why is CLIENT_STALLED:
            self._exchange.abort()  # this also ends the last write of a turn that was already stopped

    async def _stop_when_unfollowed(self, grace: float) -> None:
        turn = self._prepared.turn
        await self._gateway.followers.wait_until_unfollowed((turn.tenant, turn.id), grace)
        turn.stop(CLIENT_DISCONNECTED)
