"""The only runner: streamed, JSON, WebSocket, background and compaction turns differ only in their outlet."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.telemetry.logs import log_fault, log_verdict
from penstock.gateway.turn.heartbeats import Heartbeats
from penstock.gateway.turn.outlets import LiveOutlet, Outlet
from penstock.gateway.turn.prepare import Prepared
from penstock.gateway.turn.stop_reasons import CLIENT_DISCONNECTED, CLIENT_STALLED, StopReason


async def run_turn(
    gateway: Gateway,
    prepared: Prepared,
    outlet: Outlet,
    exchange: Exchange,
    disconnect: Coroutine[Any, Any, None] | None = None,
) -> None:
    """Run a turn to its end, whatever the upstream and the client do. `disconnect` returns when the client
    disconnects. Without it, the turn was queued, and no client waits for it."""
    turn, verdict = prepared.turn, prepared.verdict
    gateway.turns.add(turn, exchange, prepared.services)
    helpers = []
    if disconnect is not None:
        helpers.append(_watch_client(gateway, prepared, outlet, exchange, disconnect))
    if isinstance(outlet, LiveOutlet):
        clock = asyncio.get_running_loop().time
        helpers.append(Heartbeats(turn, outlet, prepared.limits, verdict, clock=clock).run())
    tasks = [asyncio.create_task(each) for each in helpers]
    try:
        if disconnect is None:
            await outlet.write(prepared.machine.begin())
        await turn.run(outlet)
    finally:
        try:
            await _cancel(tasks, verdict.request_id)
        finally:
            close_turn(gateway, prepared)


async def _cancel(helpers: list[asyncio.Task[None]], request_id: str) -> None:
    for task in helpers:
        task.cancel()
    for fault in await asyncio.gather(*helpers, return_exceptions=True):
        if isinstance(fault, Exception):
            log_fault(fault, request_id)


def close_turn(gateway: Gateway, prepared: Prepared) -> None:
    """Remove, count and log a turn that has ended; its verdict is complete."""
    gateway.turns.remove(prepared.turn)
    prepared.services.count_turn(prepared.verdict)
    log_verdict(prepared.verdict)


async def _watch_client(
    gateway: Gateway,
    prepared: Prepared,
    outlet: Outlet,
    exchange: Exchange,
    disconnect: Coroutine[Any, Any, None],
) -> None:
    """Wait until the client disconnects (ask F1) or reads nothing for too long; then end the turn."""
    disconnecting = asyncio.create_task(disconnect)
    stalling = [asyncio.create_task(outlet.stalled.wait())] if isinstance(outlet, LiveOutlet) else []
    try:
        await asyncio.wait([disconnecting, *stalling], return_when=asyncio.FIRST_COMPLETED)
        why = CLIENT_DISCONNECTED if disconnecting.done() else CLIENT_STALLED
    finally:
        for task in (disconnecting, *stalling):
            task.cancel()
    await _stop_after_grace(gateway, prepared, outlet, exchange, why)


async def _stop_after_grace(
    gateway: Gateway, prepared: Prepared, outlet: Outlet, exchange: Exchange, why: StopReason
) -> None:
    """Stop the turn. If its response is stored and the client knows the id, wait first: the client may
    reconnect within `disconnect_grace` (decision 16). A client that has sent its request again under the same
    idempotency key already follows the turn, which then runs on (decision 32)."""
    turn, verdict, grace = prepared.turn, prepared.verdict, prepared.limits.disconnect_grace
    is_followed = prepared.has_key and gateway.followers.is_followed((turn.tenant, turn.id))
    may_continue = is_followed or (grace and turn.snapshot.store)
    if may_continue and verdict.last_event and isinstance(outlet, LiveOutlet):
        verdict.left = True
        outlet.mark_disconnected()
        exchange.abort()  # a write may be waiting for the disconnected client
        await gateway.followers.wait_until_unfollowed((turn.tenant, turn.id), grace)
        why = CLIENT_DISCONNECTED
    turn.stop(why)
    if why is CLIENT_STALLED:
        exchange.abort()  # this also ends the last write of a turn that was already stopped
