"""`POST inspector/api/turns/{id}/replay`: run a recorded turn with the installed version, and compare."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.errors import DecodeError
from penstock.explain.account import Account
from penstock.fairness import HEAVY
from penstock.formatting import counted
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import Abandoned, desk_of
from penstock.inspector.lookup import FoundTurn, find_content
from penstock.inspector.missing import why_no_replay
from penstock.replay.differences import Comparison, Difference, compare
from penstock.replay.recording import CannotReplay, read_recording
from penstock.replay.runner import ReplayAbandoned, replay

MOST = 500
"""Differences that are shown."""
_DAMAGES = (
    DecodeError,
    msgspec.MsgspecError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    RecursionError,
)
"""What reading a damaged row of the store raises."""


async def replay_turn(gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, turn_id: str) -> None:
    """Replay a turn. Nothing is sent to an upstream, and nothing is stored."""
    account = await find_content(gateway, key, turn_id)
    if reason := why_no_replay(FoundTurn(account, True)):
        raise _refused(reason)
    try:
        await desk_of(gateway).answer(exchange, HEAVY, lambda: _replayed(account, exchange))
    except CannotReplay as error:
        raise _refused(str(error)) from None


def _replayed(account: Account, exchange: Exchange) -> dict[str, Any]:
    """Return the comparison. Runs in a thread, because a replay has an event loop of its own."""
    stored = account.stored
    try:
        recording = read_recording(stored.id, account.events, account.traces, stored.verdict)
        comparison = compare(recording, replay(recording, lambda: exchange.channel.is_connected))
    except ReplayAbandoned:
        raise Abandoned from None
    except _DAMAGES as error:
        raise CannotReplay(f"the recording is damaged ({type(error).__name__})") from None
    found = [*comparison.requests, *comparison.differences]
    return {
        "same": comparison.is_same,
        "sentence": _sentence(comparison, len(found)),
        "differences": [_shown(each) for each in found[:MOST]],
    }


def _sentence(comparison: Comparison, differences: int) -> str:
    events = counted(comparison.events, "event")
    part = " The recording ends before the response does; the rest was not compared."
    result = f"{counted(differences, 'difference')} in {events}." if differences else f"The same {events}."
    return f"{result}{part if comparison.is_partial else ''}"


def _shown(difference: Difference) -> dict[str, Any]:
    field = f": {difference.field}" if difference.field else ""
    more = f" (and in {counted(difference.more, 'other place')})" if difference.more else ""
    return {
        "what": f"{difference.where}{field}{more}",
        "recorded": difference.before,
        "now": difference.now,
    }


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(409, "not_recorded", f"cannot replay: {reason}")
