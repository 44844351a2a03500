"""Interrupted turns: their process died, or their end could not be written (ask G8)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.store.records import Closed, LoggedEvent, StoredItem
from penstock.stream.recovery import RESTARTED, recover

_log = logging.getLogger("penstock.store")


class InterruptedTurn(Struct, frozen=True):
    """The end of an interrupted turn, and the events that are missing from its log."""

    end: Closed
    events: list[LoggedEvent]


def end_interrupted(
    id: str, response: bytes, events: Iterable[LoggedEvent], now: float = 0.0, *, code: str = RESTARTED
) -> InterruptedTurn:
    """End a turn as its log shows, or else as failed. `response` is the first snapshot, `events` the log."""
    log: list[tuple[int, bytes]] = []
    try:
        log.extend((event.sequence, event.data) for event in events)
        recovered = recover(id, response, log, code)
    except Exception:
        # A log that cannot be read must not keep the store from opening: the turn ends without its output.
        _log.exception("cannot recover the output of an interrupted turn", extra={"response_id": id})
        recovered = recover(id, response, [(log[-1][0], b"")] if log else [], code)
    missing = [
        LoggedEvent(event["sequence_number"], now, msgspec.json.encode(event)) for event in recovered.events
    ]
    return InterruptedTurn(_closed(recovered.response), missing)


def _closed(response: dict[str, Any]) -> Closed:
    if (response.get("incomplete_details") or {}).get("reason") == "cancelled":
        response = {**response, "status": "cancelled"}  # only the record has this status (decision 6)
    items = [item for item in response["output"] if item.get("id")]
    output = tuple(StoredItem(item["id"], msgspec.json.encode(item)) for item in items)
    return Closed(status=response["status"], response=msgspec.json.encode(response), output=output)
